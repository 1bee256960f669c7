"""Every flow of a queue's life through boto3: python flows.py ENDPOINT CONTROL json|query"""

import json
import sys
import threading
import time

import botocore
import check

ATTRIBUTES = {
    "color": {"DataType": "String", "StringValue": "red"},
    "n": {"DataType": "Number", "StringValue": "42"},
    "raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01\x02\xff"},
    "kind": {"DataType": "String.custom", "StringValue": "höchst"},
}
BODIES = ['plain', 'say "hi" & <bye>', "a literal &quot; and &#xD;", "line\r\nline\rline\n", "\tüñí 🦀 漢字", " "]


def new_queue(sqs, name, **attributes):
    return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def receive(sqs, url, **arguments):
    arguments = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 0, **arguments}
    messages = sqs.receive_message(QueueUrl=url, **arguments).get("Messages", [])
    for message in messages:
        check.check_message(message)
    return messages


def bodies(messages):
    return [message["Body"] for message in messages]


def counters(sqs, url):
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return [int(attributes[name]) for name in names]


def arn(sqs, url):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def the_expected_protocol_is_spoken(sqs, endpoint, control, protocol):
    seen = []
    sqs.meta.events.register("before-send.sqs.ListQueues", lambda request, **_: seen.append(dict(request.headers)))
    sqs.list_queues()
    headers = {name.lower() for name in seen[0]}
    check.equal("x-amz-target" in headers, protocol == "json", f"boto3 with botocore {botocore.__version__}: JSON")


def queues_are_created_found_and_changed(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-queue", VisibilityTimeout="45")
    assert url.startswith(endpoint), f"{url} is not under {endpoint}"
    assert url.endswith("/flows-queue"), url
    check.equal(new_queue(sqs, "flows-queue"), url, "URL of the same queue")
    check.equal(sqs.get_queue_url(QueueName="flows-queue")["QueueUrl"], url, "GetQueueUrl")
    new_queue(sqs, "flows-other")
    listed = sqs.list_queues(QueueNamePrefix="flows-q")["QueueUrls"]
    check.equal(listed, [url], "queues with a prefix")
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="nothing-has-this")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "3", "MessageRetentionPeriod": "86400"})
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    check.equal(attributes["VisibilityTimeout"], "45", "VisibilityTimeout")
    check.equal(attributes["DelaySeconds"], "3", "DelaySeconds")
    check.equal(attributes["MessageRetentionPeriod"], "86400", "MessageRetentionPeriod")
    assert attributes["QueueArn"].endswith(":flows-queue"), attributes["QueueArn"]


def bodies_and_attributes_come_back_as_they_were(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-single")
    for body in BODIES:
        check.check_send(sqs.send_message(QueueUrl=url, MessageBody=body), body)
        (message,) = receive(sqs, url)
        check.equal(message["Body"], body, "body")
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    reply = sqs.send_message(QueueUrl=url, MessageBody="with", MessageAttributes=ATTRIBUTES)
    check.check_send(reply, "with", ATTRIBUTES)
    (message,) = receive(sqs, url, MessageAttributeNames=["All"], AttributeNames=["All"], VisibilityTimeout=0)
    check.equal(message["MessageId"], reply["MessageId"], "message id")
    check.equal(message["MessageAttributes"], ATTRIBUTES, "message attributes")
    check.equal(message["Attributes"]["ApproximateReceiveCount"], "1", "receive count")
    (message,) = receive(sqs, url, MessageAttributeNames=["col*", "n"], VisibilityTimeout=0)
    assert set(message["MessageAttributes"]) <= {"color", "n"}, message
    (message,) = receive(sqs, url, MessageAttributeNames=["n"])
    check.equal(message["MessageAttributes"], {"n": ATTRIBUTES["n"]}, "one message attribute")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    # A second delete of the same message is no error.
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    check.equal(counters(sqs, url), [0, 0, 0], "counters")


def batches_succeed_and_fail_by_entry(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-batch")
    entries = [{"Id": f"e{n}", "MessageBody": f"body {n}"} for n in range(9)]
    entries[3]["MessageAttributes"] = ATTRIBUTES
    entries.append({"Id": "late", "MessageBody": "later", "DelaySeconds": 60})
    reply = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert "Failed" not in reply, reply
    by_id = {entry["Id"]: entry for entry in reply["Successful"]}
    for entry in entries:
        check.check_send(by_id[entry["Id"]], entry["MessageBody"], entry.get("MessageAttributes"))
    check.equal(counters(sqs, url), [9, 0, 1], "counters after the batch")
    messages = []
    while len(messages) < 9:
        found = receive(sqs, url, MessageAttributeNames=["All"])
        assert found, f"only {len(messages)} of 9 messages came"
        messages += found
    check.equal(sorted(bodies(messages)), [f"body {n}" for n in range(9)], "bodies")
    reply = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 300}
            for n, message in enumerate(messages)
        ],
    )
    check.equal(len(reply["Successful"]), 9, "visibility changes")
    handles = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]
    reply = sqs.delete_message_batch(QueueUrl=url, Entries=handles + [{"Id": "bad", "ReceiptHandle": "none"}])
    check.equal(len(reply["Successful"]), 9, "deletes")
    check.equal([entry["Id"] for entry in reply["Failed"]], ["bad"], "failed deletes")
    check.equal(counters(sqs, url), [0, 0, 1], "counters after the deletes")
    distinct = "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"
    twice = [{"Id": "a", "MessageBody": "x"}, {"Id": "a", "MessageBody": "y"}]
    check.refused(distinct, sqs.send_message_batch, QueueUrl=url, Entries=twice)
    many = [{"Id": str(n), "MessageBody": "x"} for n in range(11)]
    too_many = "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
    check.refused(too_many, sqs.send_message_batch, QueueUrl=url, Entries=many)


def fifo_keeps_order_and_drops_duplicates(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    first = sqs.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="a")
    again = sqs.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="a")
    check.equal(again["MessageId"], first["MessageId"], "message id of a duplicate")
    last = sqs.send_message(QueueUrl=url, MessageBody="b1", MessageGroupId="b", MessageDeduplicationId="b1")
    assert int(last["SequenceNumber"]) > int(first["SequenceNumber"]), (first, last)
    entries = [{"Id": str(n), "MessageBody": f"a{n}", "MessageGroupId": "a"} for n in (2, 3)]
    reply = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert all("SequenceNumber" in entry for entry in reply["Successful"]), reply
    messages = receive(sqs, url, AttributeNames=["All"], VisibilityTimeout=30)
    check.equal(bodies(messages), ["a1", "a2", "a3", "b1"], "order")
    check.equal(messages[0]["Attributes"]["SequenceNumber"], first["SequenceNumber"], "sequence number")
    check.equal(messages[3]["Attributes"]["MessageDeduplicationId"], "b1", "deduplication id")
    sqs.send_message(QueueUrl=url, MessageBody="a4", MessageGroupId="a")
    check.equal(receive(sqs, url), [], "messages of a group in flight")
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    check.equal(bodies(receive(sqs, url)), ["a4"], "the group after its deletes")
    check.refused("MissingParameter", sqs.send_message, QueueUrl=url, MessageBody="no group")
    # Five minutes later the same content is a new message.
    check.advance(control, 301)
    fresh = sqs.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="z")
    assert fresh["MessageId"] != first["MessageId"], fresh


def a_long_poll_ends_with_the_first_message(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-poll")
    started = time.monotonic()
    check.equal(receive(sqs, url, WaitTimeSeconds=1), [], "an empty poll")
    waited = time.monotonic() - started
    assert 0.9 <= waited < 5, f"an empty poll of 1 s took {waited:.2f} s"
    found = []
    poll = threading.Thread(target=lambda: found.extend(receive(sqs, url, WaitTimeSeconds=20)))
    started = time.monotonic()
    poll.start()
    sqs.send_message(QueueUrl=url, MessageBody="wake up")
    poll.join(timeout=30)
    waited = time.monotonic() - started
    check.equal(bodies(found), ["wake up"], "what the poll found")
    assert waited < 10, f"the poll took {waited:.2f} s although a message was sent"


def visibility_ends_by_time_or_by_request(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-visibility", VisibilityTimeout="30")
    sqs.send_message(QueueUrl=url, MessageBody="seen")
    (message,) = receive(sqs, url)
    check.equal(counters(sqs, url), [0, 1, 0], "counters in flight")
    check.equal(receive(sqs, url), [], "while in flight")
    check.advance(control, 31)
    (message,) = receive(sqs, url, AttributeNames=["ApproximateReceiveCount"])
    check.equal(message["Attributes"], {"ApproximateReceiveCount": "2"}, "attributes of the second receive")
    handle = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=100)
    check.advance(control, 50)
    check.equal(receive(sqs, url), [], "while the timeout is extended")
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    (message,) = receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    refuse = dict(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=10)
    check.refused("InvalidParameterValue", sqs.change_message_visibility, **refuse)
    check.refused("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=url, ReceiptHandle="garbage")


def a_delayed_message_comes_later(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-delay")
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=60)
    check.equal(counters(sqs, url), [0, 0, 1], "counters while delayed")
    check.equal(receive(sqs, url), [], "before the delay ends")
    check.advance(control, 61)
    check.equal(bodies(receive(sqs, url)), ["later"], "after the delay")


def a_message_received_too_often_is_dead_lettered(sqs, endpoint, control, protocol):
    dead = new_queue(sqs, "flows-dead")
    policy = {"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 2}
    url = new_queue(sqs, "flows-source", RedrivePolicy=json.dumps(policy))
    sent = sqs.send_message(QueueUrl=url, MessageBody="poison", MessageAttributes=ATTRIBUTES)
    for _ in range(2):
        check.equal(bodies(receive(sqs, url, VisibilityTimeout=0)), ["poison"], "from the source")
    check.equal(receive(sqs, url), [], "from the source once more")
    (message,) = receive(sqs, dead, AttributeNames=["All"], MessageAttributeNames=["All"])
    check.equal(message["MessageId"], sent["MessageId"], "message id after the move")
    check.equal(message["MessageAttributes"], ATTRIBUTES, "attributes after the move")
    check.equal(message["Attributes"]["DeadLetterQueueSourceArn"], arn(sqs, url), "source")
    check.equal(counters(sqs, url), [0, 0, 0], "counters of the source")
    check.equal(counters(sqs, dead), [0, 1, 0], "counters of the dead-letter queue")


def a_purge_takes_everything(sqs, endpoint, control, protocol):
    url = new_queue(sqs, "flows-purge")
    sqs.send_message(QueueUrl=url, MessageBody="in flight")
    (message,) = receive(sqs, url)
    sqs.send_message(QueueUrl=url, MessageBody="waiting")
    sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=60)
    check.equal(counters(sqs, url), [1, 1, 1], "counters before the purge")
    sqs.purge_queue(QueueUrl=url)
    check.equal(counters(sqs, url), [0, 0, 0], "counters after the purge")
    sqs.send_message(QueueUrl=url, MessageBody="new")
    check.equal(bodies(receive(sqs, url)), ["new"], "after the purge")


def refusals_reach_the_caller(sqs, endpoint, control, protocol):
    missing = "AWS.SimpleQueueService.NonExistentQueue"
    error = check.refused(missing, sqs.get_queue_url, QueueName="flows-missing")
    assert isinstance(error, sqs.exceptions.QueueDoesNotExist) or protocol == "query", type(error)
    url = new_queue(sqs, "flows-refuse")
    check.refused("InvalidParameterValue", sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=11)
    check.refused("InvalidParameterValue", sqs.receive_message, QueueUrl=url, WaitTimeSeconds=21)
    check.refused("InvalidMessageContents", sqs.send_message, QueueUrl=url, MessageBody="\x0b")
    check.refused("InvalidAttributeName", sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["Foobar"])
    check.refused("QueueAlreadyExists", sqs.create_queue, QueueName="flows-refuse", Attributes={"DelaySeconds": "7"})
    sqs.delete_queue(QueueUrl=url)
    check.refused(missing, sqs.send_message, QueueUrl=url, MessageBody="to nobody")


def main():
    endpoint, control, protocol = sys.argv[1:4]
    steps = [
        the_expected_protocol_is_spoken,
        queues_are_created_found_and_changed,
        bodies_and_attributes_come_back_as_they_were,
        batches_succeed_and_fail_by_entry,
        fifo_keeps_order_and_drops_duplicates,
        a_long_poll_ends_with_the_first_message,
        visibility_ends_by_time_or_by_request,
        a_delayed_message_comes_later,
        a_message_received_too_often_is_dead_lettered,
        a_purge_takes_everything,
        refusals_reach_the_caller,
    ]
    check.main(steps, check.client(endpoint), endpoint, control, protocol)


if __name__ == "__main__":
    main()
