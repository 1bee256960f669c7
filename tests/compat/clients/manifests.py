"""Checks the manifests of deploy/ against the schemas of Kubernetes, and that they and the compose file fit the program.

Arguments: the folder deploy/, and the reference of all options.
"""

import re
import sys
from pathlib import Path

import kubernetes_validate
import yaml

deploy, reference = Path(sys.argv[1]), Path(sys.argv[2]).read_text()
VARIABLES = set(re.findall(r"`(HOLDFAST_[A-Z_]+)`", reference))
# Those of clients and of operators, as they are without a setting, and that of nodes, which is set.
PORTS = {int(port) for port in re.findall(r"`HOLDFAST_(?:CONTROL_)?PORT` \| `(\d+)`", reference)} | {7901}
VERSION = kubernetes_validate.latest_version()


def check(condition, text):
    if not condition:
        sys.exit(text)


def check_variables(names, where):
    for name in names:
        if name.startswith("HOLDFAST_"):
            check(name in VARIABLES, f"{where}: there is no option {name}")


def check_listen(environment, where):
    port = environment["HOLDFAST_CLUSTER_LISTEN"].rpartition(":")[2]
    check(port == "7901", f"{where}: nodes listen on {port}, where nobody looks for them")


check(len(PORTS) == 3, "the reference names the two ports of a server")
kinds = {}
for path in sorted(deploy.glob("kubernetes/*.yaml")):
    for document in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(document, VERSION, strict=True)
        kinds.setdefault(document["kind"], []).append(document)

check(len(kinds["Service"]) == 2, "a headless Service and one for clients")
headless = [service for service in kinds["Service"] if service["spec"].get("clusterIP") == "None"]
check(len(headless) == 1 and headless[0]["spec"]["publishNotReadyAddresses"], "nodes must find each other before they are ready")
check(kinds["PodDisruptionBudget"][0]["spec"]["maxUnavailable"] == 1, "one node may be away")
nodes = kinds["StatefulSet"][0]
check(nodes["spec"]["podManagementPolicy"] == "Parallel", "the first start needs all nodes")
check(nodes["spec"]["serviceName"] == headless[0]["metadata"]["name"], "the nodes' names come from the headless Service")
(container,) = nodes["spec"]["template"]["spec"]["containers"]
variables = {variable["name"]: variable.get("value") for variable in container["env"]}
check_variables(variables, "StatefulSet")
check_listen(variables, "StatefulSet")
seeds = variables["HOLDFAST_CLUSTER_SEEDS"].split(",")
check(len(seeds) == nodes["spec"]["replicas"], "every replica is a seed")
for number, seed in enumerate(seeds):
    name = variables["HOLDFAST_CLUSTER_ADVERTISE"].replace("$(POD_NAME)", f"{nodes['metadata']['name']}-{number}")
    check(seed == name, f"{seed} is not what the pod advertises: {name}")
check({port["containerPort"] for port in container["ports"]} == PORTS, "the ports of the program")
named = {port["name"]: port["containerPort"] for port in container["ports"]}
for service in kinds["Service"]:
    for port in service["spec"]["ports"]:
        check(port["targetPort"] in named, f"{port} leads nowhere")
        check(port["port"] == named[port["targetPort"]], f"{port} is not the port of the program")
check(container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "control"}, "liveness is /health")
check(container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "control"}, "readiness is /ready")
drain = container["lifecycle"]["preStop"]["exec"]["command"]
check(drain == ["holdfast", "cluster", "drain", "http://127.0.0.1:4101"], "a node drains before it stops")

compose = yaml.safe_load((deploy / "compose.yaml").read_text())
check(len(compose["services"]) == 3, "three nodes")
for name, service in compose["services"].items():
    check(service["healthcheck"]["test"] == ["CMD", "holdfast", "health"], f"{name}: its health")
    environment = service["environment"]
    check_variables(environment, name)
    check_listen(environment, name)
    check(environment["HOLDFAST_CLUSTER_ADVERTISE"] == f"{name}:7901", f"{name} advertises another name")
    check(f"{name}:7901" in environment["HOLDFAST_CLUSTER_SEEDS"].split(","), f"{name} is no seed")
    for port in service["ports"]:
        check(int(port.rsplit(":", 1)[1]) in PORTS, f"{name}: {port} leads nowhere")
    volume = service["volumes"][0].split(":")[0]
    check(volume in compose["volumes"], f"{name}: there is no volume {volume}")
print(f"checked against Kubernetes {VERSION}")
