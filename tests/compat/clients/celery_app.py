"""The application that celery_flows.py and its workers share; everything it is told comes from the environment.

Each delivery and each run of a task is a line of one file, which is how the flows learn what the workers did.
"""

import os
import time

import celery
import celery.signals

TRANSPORT = {"region": "us-east-1", "wait_time_seconds": 2, "polling_interval": 0.1, "visibility_timeout": int(os.environ["FLOWS_VISIBILITY"])}
if "FLOWS_QUEUE_URL" in os.environ:
    TRANSPORT["predefined_queues"] = {
        "celery": {
            "url": os.environ["FLOWS_QUEUE_URL"],
            "access_key_id": "test",
            "secret_access_key": "test",
        }
    }
else:
    TRANSPORT["queue_name_prefix"] = "own-"

app = celery.Celery("flows", broker=os.environ["FLOWS_BROKER"])
app.conf.update(
    broker_transport_options=TRANSPORT,
    # kombu's SQS transport has no remote control, as its documentation says.
    worker_enable_remote_control=False,
    task_ignore_result=True,
)


def record(what, number):
    # One short write to a file opened for appending is whole even when several processes write.
    with open(os.environ["FLOWS_RECORD"], "a", encoding="utf-8") as file:
        file.write(f"{what} {number}\n")


@celery.signals.task_received.connect
def note_delivery(request, **_):
    record("delivered", request.args[0])


@celery.signals.worker_ready.connect
def note_ready(**_):
    record("ready", os.getpid())


@app.task
def work(number, seconds=0.0):
    # A task that takes its time, as real ones do.
    time.sleep(seconds)
    record("done", number)
