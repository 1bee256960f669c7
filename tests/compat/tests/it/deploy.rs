//! What runs a server for operators: a service manager that is told how far it is, health checks, the files of `deploy/`.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use compat::{Launch, Server, holdfast, run_to_end, wait_for};
use serde_json::Value;

use crate::cluster::{LIMIT, SECRET, own_addresses};

/// Runs `holdfast health`; returns what it printed and its exit code.
fn health(arguments: &[&str]) -> Result<(String, i32)> {
    let output = run_to_end(holdfast()?.arg("health").args(arguments), LIMIT)?;
    let text = String::from_utf8([output.stdout, output.stderr].concat())?;
    Ok((text, output.status.code().context("no exit code")?))
}

fn deploy(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(name);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

#[test]
fn a_service_manager_hears_when_a_server_is_ready_and_when_it_stops() -> Result<()> {
    // Short, as the name of a socket must be.
    let path = std::env::temp_dir().join(format!("holdfast-notify-{}", std::process::id()));
    let socket = UnixDatagram::bind(&path)?;
    socket.set_read_timeout(Some(LIMIT))?;
    let hear = || -> Result<String> {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).trim().to_owned())
    };
    let name = path.to_str().context("a path of text")?;
    let mut server = Server::start(Launch::dev().variable("NOTIFY_SOCKET", name))?;
    ensure!(hear()? == "READY=1");
    server.ask_to_stop()?;
    ensure!(hear()? == "STOPPING=1");
    ensure!(server.wait_for_exit()?.success());
    fs::remove_file(path)?;
    Ok(())
}

#[test]
fn a_health_check_tells_life_from_service() -> Result<()> {
    let mut server = Server::dev()?;
    for url in [server.sqs_url(), server.control_url()] {
        for arguments in [&[url.as_str()][..], &[&url, "--ready"]] {
            let (output, code) = health(arguments)?;
            ensure!(
                code == 0 && output.contains(&url),
                "{arguments:?}: {code}: {output}"
            );
        }
    }
    let url = server.control_url();
    let (output, code) = health(&[&url, "--json"])?;
    let document: Value = serde_json::from_str(&output).with_context(|| output.clone())?;
    ensure!(code == 0 && document["schema"] == "holdfast.health/1", "{output}");
    ensure!(document["server"]["status"] == "ok", "{output}");
    ensure!(server.stop()?.success());
    let (output, code) = health(&[&url])?;
    ensure!(
        code == 7 && output.contains("does not answer") && output.contains("try:"),
        "{code}: {output}"
    );
    let (output, code) = health(&["no url"])?;
    ensure!(code == 2, "{code}: {output}");
    Ok(())
}

#[test]
fn a_node_without_a_leader_lives_and_cannot_serve() -> Result<()> {
    let addresses = own_addresses();
    let settings = [
        ("LISTEN", addresses[0].clone()),
        ("SEEDS", addresses.join(",")),
        ("SECRET", SECRET.to_owned()),
    ];
    let launch = settings.iter().fold(Launch::dev(), |launch, (name, value)| {
        launch.variable(&format!("HOLDFAST_CLUSTER_{name}"), value)
    });
    let server = Server::start_unready(launch)?;
    let endpoints = server.data_dir().join("endpoints.json");
    let url = wait_for("its addresses", LIMIT, || {
        let text = fs::read(&endpoints).unwrap_or_default();
        let document: Value = serde_json::from_slice(&text).unwrap_or_default();
        Ok(document["control"].as_str().map(str::to_owned))
    })?;
    wait_for("the node to look for the others", LIMIT, || {
        Ok(server.logged("no cluster yet").then_some(()))
    })?;
    let (output, code) = health(&[&url])?;
    ensure!(code == 0, "{code}: {output}");
    let (output, code) = health(&[&url, "--ready"])?;
    ensure!(code == 7 && output.contains("no leader"), "{code}: {output}");
    Ok(())
}

#[test]
fn the_unit_and_the_image_use_what_there_is() -> Result<()> {
    let unit = deploy("holdfast.service")?;
    let has = |line: &str| unit.lines().any(|found| found == line);
    ensure!(has("Type=notify") && has("NoNewPrivileges=yes") && has("DynamicUser=yes"));
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.context("no ExecStart")?;
    let help = run_to_end(holdfast()?.args(["serve", "--help"]), LIMIT)?;
    let help = String::from_utf8(help.stdout)?;
    for flag in start.split(' ').filter(|word| word.starts_with("--")) {
        ensure!(help.contains(&format!("{flag} ")), "serve has no {flag}");
    }
    let image = deploy("Dockerfile")?;
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let reference = fs::read_to_string(reference)?;
    let variables = image.split(|c: char| c.is_whitespace() || c == '=');
    for variable in variables.filter(|word| word.starts_with("HOLDFAST_")) {
        ensure!(
            reference.contains(&format!("`{variable}`")),
            "there is no {variable}"
        );
    }
    ensure!(image.contains("HEALTHCHECK") && image.contains(r#"CMD ["/usr/bin/holdfast", "health"]"#));
    ensure!(image.contains("FROM scratch") && image.contains("USER 65532"));
    Ok(())
}
