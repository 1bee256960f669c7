"""Celery 5 over kombu's SQS transport, unpatched: python celery_flows.py ENDPOINT CONTROL FLOW"""

import collections
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import check

# For all of a flow, and shorter than what its test allows: a script that was killed would leave its worker behind.
LIMIT_SECONDS = 80
DEADLINE = time.monotonic() + LIMIT_SECONDS
VISIBILITY_SECONDS = 60
QUEUE = "celery"
# Two processes, and four messages for each, which is Celery's default.
FETCHED_MAX = 8


def wait_for(what, condition):
    """Looks at a condition until it holds; what the workers do cannot be waited for in another way."""
    while not condition():
        if time.monotonic() > DEADLINE:
            raise AssertionError(f"no {what} within the {LIMIT_SECONDS} s of a flow; {recorded()}")
        time.sleep(0.02)


def recorded():
    """Returns how often each line was written to the file that the workers share."""
    with contextlib.suppress(FileNotFoundError), open(os.environ["FLOWS_RECORD"], encoding="utf-8") as file:
        return collections.Counter(tuple(line.split()) for line in file)
    return collections.Counter()


def count(what, number=None):
    return sum(times for (kind, of), times in recorded().items() if kind == what and (number is None or number == int(of)))


def done():
    return {int(number) for kind, number in recorded() if kind == "done"}


def counters(sqs, url):
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return [int(attributes[name]) for name in names]


@contextlib.contextmanager
def worker(*options):
    """Starts `celery worker` as a user would, and waits until it consumes."""
    before = count("ready")
    command = [sys.executable, "-m", "celery", "--app", "celery_app", "worker", "--loglevel", "warning", *options]
    process = subprocess.Popen(command, cwd=os.path.dirname(os.path.abspath(__file__)))
    try:
        wait_for("ready worker", lambda: count("ready") > before or process.poll() is not None)
        check.equal(process.poll(), None, "exit code of the worker at its start")
        yield process
        stop(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def stop(process):
    """Asks a worker to stop as an init system does, and waits until it has."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    check.equal(process.wait(timeout=max(1, DEADLINE - time.monotonic())), 0, "exit code of a worker that was asked to stop")


def predefined(sqs):
    """Makes the queue before the workers, which know it by its URL alone."""
    url = sqs.create_queue(QueueName="celery-predefined", Attributes={"VisibilityTimeout": str(VISIBILITY_SECONDS)})
    os.environ["FLOWS_QUEUE_URL"] = url["QueueUrl"]
    return url["QueueUrl"]


def two_hundred_tasks(sqs, control):
    """Two processes, and a queue that kombu makes by itself."""
    from celery_app import work

    with worker("--pool", "prefork", "--concurrency", "2"):
        for number in range(200):
            work.delay(number)
        wait_for("end of 200 tasks", lambda: len(done()) == 200)
        url = sqs.get_queue_url(QueueName=f"own-{QUEUE}")["QueueUrl"]
        wait_for("empty queue", lambda: counters(sqs, url) == [0, 0, 0])
    check.equal(done(), set(range(200)), "tasks done")
    check.equal([number for number in range(200) if count("done", number) != 1], [], "tasks done more than once")


def predefined_queue(sqs, control):
    """A queue known by its URL alone, and no other is made."""
    url = predefined(sqs)
    from celery_app import work

    with worker("--pool", "solo"):
        for number in range(20):
            work.delay(number)
        wait_for("end of 20 tasks", lambda: len(done()) == 20)
        wait_for("empty queue", lambda: counters(sqs, url) == [0, 0, 0])
    check.equal(count("done"), 20, "runs of 20 tasks")
    check.equal(sqs.list_queues()["QueueUrls"], [url], "queues")


def countdown(sqs, control):
    """A countdown is held by the worker: past the visibility timeout its message comes again, as on AWS.

    A delay that the queue holds is not in flight meanwhile, so its task runs once however long it is.
    """
    url = predefined(sqs)
    from celery_app import work

    with worker("--pool", "solo"):
        # Within the visibility timeout: once, though most of it passes.
        work.apply_async((1,), countdown=3)
        wait_for("first delivery", lambda: count("delivered", 1) == 1)
        check.advance(control, VISIBILITY_SECONDS - 10)
        wait_for("end of task 1", lambda: count("done", 1) == 1)
        wait_for("empty queue", lambda: counters(sqs, url) == [0, 0, 0])
        check.equal(count("delivered", 1), 1, "deliveries within the visibility timeout")

        # Beyond it.
        before = time.monotonic()
        work.apply_async((2,), countdown=4)
        wait_for("first delivery", lambda: count("delivered", 2) == 1)
        check.advance(control, VISIBILITY_SECONDS + 1)
        wait_for("second delivery", lambda: count("delivered", 2) == 2)
        wait_for("end of task 2", lambda: count("done", 2) >= 1)
        assert time.monotonic() - before >= 4, "task 2 was done before its time"
        wait_for("empty queue", lambda: counters(sqs, url) == [0, 0, 0])

        # The delay of the queue, ten times the visibility timeout.
        work.apply_async((3,), delay_seconds=10 * VISIBILITY_SECONDS)
        wait_for("delayed message", lambda: counters(sqs, url) == [0, 0, 1])
        check.advance(control, 10 * VISIBILITY_SECONDS - 5)
        check.equal(counters(sqs, url), [0, 0, 1], "counters before the delay has ended")
        check.advance(control, 6)
        wait_for("end of task 3", lambda: count("done", 3) == 1)
        wait_for("empty queue", lambda: counters(sqs, url) == [0, 0, 0])
    check.equal(count("delivered", 3), 1, "deliveries of a task that the queue delayed")
    check.equal(count("done", 3), 1, "runs of a task that the queue delayed")


def sigterm(sqs, control):
    """A worker that is stopped in the midst finishes what runs and leaves the rest to the next one."""
    url = predefined(sqs)
    from celery_app import work

    numbers = set(range(60))
    for number in numbers:
        work.delay(number, seconds=0.05)
    with worker("--pool", "prefork", "--concurrency", "2") as first:
        wait_for("end of some tasks", lambda: len(done()) >= 10)
        stop(first)
    left = numbers - done()
    assert left, "the worker had nothing left to do when it was stopped"
    with worker("--pool", "prefork", "--concurrency", "2"):
        # What the first worker had fetched and not begun is in flight until its visibility timeout ends.
        check.advance(control, VISIBILITY_SECONDS + 1)
        wait_for("end of the other tasks", lambda: done() == numbers)
        wait_for("empty queue", lambda: counters(sqs, url) == [0, 0, 0])
    # Of what it has fetched, a stopping worker may do a task without ever deleting its message; no other comes twice.
    twice = [number for number in numbers if count("done", number) != 1]
    assert len(twice) <= FETCHED_MAX, f"done more than once: {twice}"


FLOWS = {flow.__name__: flow for flow in (two_hundred_tasks, predefined_queue, countdown, sigterm)}

if __name__ == "__main__":
    endpoint, control_url, flow_name = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FLOWS_RECORD"] = os.path.join(folder, "record")
        os.environ["FLOWS_BROKER"] = endpoint.replace("http://", "sqs://test:test@")
        os.environ["FLOWS_VISIBILITY"] = str(VISIBILITY_SECONDS)
        check.main([FLOWS[flow_name]], check.client(endpoint), control_url)
