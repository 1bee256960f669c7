"""What the Python scripts share: a client, the control port, and the checksums that SDKs verify."""

import datetime
import hashlib
import struct
import sys
import time
import urllib.request

import boto3
import botocore.auth
import botocore.config
import botocore.exceptions

# Nothing is retried: a server that answers badly must not be helped by a second attempt.
CONFIG = botocore.config.Config(
    retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=40, max_pool_connections=20
)

REAL_CLOCK = getattr(botocore.auth, "get_current_datetime", None)


def client(endpoint, key="test", secret="test", region="us-east-1"):
    return boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=CONFIG,
    )


def advance(control, seconds):
    """Turns the server's clock forward."""
    request = urllib.request.Request(f"{control}/_holdfast/clock/advance?by={seconds}s", method="POST", data=b"")
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert 200 <= reply.status < 300, reply.status


def equal(actual, expected, what):
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r} instead of {expected!r}")


def refused(code, call, **arguments):
    """Checks that a call is refused with this error code and returns the error."""
    try:
        answer = call(**arguments)
    except botocore.exceptions.ClientError as error:
        equal(error.response["Error"]["Code"], code, f"error code of {arguments}")
        return error
    raise AssertionError(f"{arguments} was accepted: {answer}")


def md5_of_body(body):
    return hashlib.md5(body.encode()).hexdigest()


def md5_of_attributes(attributes):
    """The checksum over message attributes, as documented for SDK authors."""
    digest = hashlib.md5()

    def add(data):
        digest.update(struct.pack(">I", len(data)))
        digest.update(data)

    for name in sorted(attributes):
        attribute = attributes[name]
        add(name.encode())
        add(attribute["DataType"].encode())
        if "BinaryValue" in attribute:
            digest.update(b"\x02")
            add(attribute["BinaryValue"])
        else:
            digest.update(b"\x01")
            add(attribute["StringValue"].encode())
    return digest.hexdigest()


def check_send(reply, body, attributes=None):
    equal(reply["MD5OfMessageBody"], md5_of_body(body), "MD5 of the body sent")
    if attributes:
        equal(reply["MD5OfMessageAttributes"], md5_of_attributes(attributes), "MD5 of the attributes sent")
    else:
        assert "MD5OfMessageAttributes" not in reply, reply


def check_message(message):
    equal(message["MD5OfBody"], md5_of_body(message["Body"]), "MD5 of the body received")
    attributes = message.get("MessageAttributes")
    if attributes:
        equal(message["MD5OfMessageAttributes"], md5_of_attributes(attributes), "MD5 of the attributes received")
    else:
        assert "MD5OfMessageAttributes" not in message, message


def set_signing_clock(seconds):
    """Makes this process sign its requests as if its clock were off by so much."""
    shift = datetime.timedelta(seconds=seconds)
    if hasattr(botocore.auth, "get_current_datetime"):
        botocore.auth.get_current_datetime = lambda *args, **kwargs: REAL_CLOCK(*args, **kwargs) + shift
        return

    # Older versions ask the class.
    class Shifted(datetime.datetime):
        @classmethod
        def utcnow(cls):
            return datetime.datetime.utcnow() + shift

    class Module:
        datetime = Shifted

    botocore.auth.datetime = Module


def main(steps, *context):
    """Runs each step, printing its name, so that a failure says where it happened."""
    for step in steps:
        started = time.monotonic()
        print(f"{step.__name__} ...", flush=True)
        step(*context)
        print(f"{step.__name__} ok in {time.monotonic() - started:.2f} s", flush=True)
    sys.exit(0)
