"""dramatiq over dramatiq_sqs, with dead-letter queues: python dramatiq_flows.py ENDPOINT CONTROL"""

import base64
import collections
import sys
import threading
import time

import check
import dramatiq
import dramatiq.worker
import dramatiq_sqs

LIMIT_SECONDS = 45
MESSAGES = 100


def counters(sqs, url):
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return [int(attributes[name]) for name in names]


def messages_are_done_once_and_failures_are_dead_lettered(sqs, endpoint):
    broker = dramatiq_sqs.SQSBroker(
        namespace="dramatiq",
        dead_letter=True,
        tags={"owner": "flows"},
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=check.CONFIG,
        middleware=[dramatiq.middleware.Retries(min_backoff=1, max_backoff=2)],
    )
    dramatiq.set_broker(broker)
    runs = collections.Counter()
    attempts = []
    lock = threading.Lock()

    @dramatiq.actor
    def work(number):
        with lock:
            runs[number] += 1

    @dramatiq.actor(max_retries=2, queue_name="failing")
    def fail(text):
        attempts.append(text)
        raise ValueError(text)

    for number in range(MESSAGES):
        work.send(number)
    failing = fail.send("never works")

    urls = {name: sqs.get_queue_url(QueueName=f"dramatiq_{name}")["QueueUrl"] for name in ("default", "failing")}
    dead = sqs.get_queue_url(QueueName="dramatiq_failing_dlq")["QueueUrl"]
    worker = dramatiq.worker.Worker(broker, worker_threads=4, worker_timeout=1000)
    worker.start()
    try:
        deadline = time.monotonic() + LIMIT_SECONDS
        while any(counters(sqs, url) != [0, 0, 0] for url in urls.values()):
            assert time.monotonic() < deadline, f"{len(runs)} messages done, {len(attempts)} attempts to fail"
            time.sleep(0.02)
    finally:
        worker.stop()

    check.equal(dict(runs), dict.fromkeys(range(MESSAGES), 1), "runs by message")
    check.equal(attempts, ["never works"] * 3, "attempts of the actor that fails")
    check.equal(counters(sqs, dead), [1, 0, 0], "counters of the dead-letter queue")
    check.equal(counters(sqs, f"{urls['default']}_dlq"), [0, 0, 0], "counters of the other dead-letter queue")
    received = sqs.receive_message(QueueUrl=dead)["Messages"]
    dropped = dramatiq.Message.decode(base64.b64decode(received[0]["Body"]))
    check.equal((dropped.actor_name, list(dropped.args)), ("fail", ["never works"]), "the message dead-lettered")
    check.equal(dropped.message_id, failing.message_id, "its id")
    check.equal(sqs.list_queue_tags(QueueUrl=dead)["Tags"], {"owner": "flows"}, "tags")


if __name__ == "__main__":
    endpoint_url, _control = sys.argv[1:]
    check.main([messages_are_done_once_and_failures_are_dead_lettered], check.client(endpoint_url), endpoint_url)
