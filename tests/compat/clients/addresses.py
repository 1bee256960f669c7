"""boto3 at an address that is not the server's own: python addresses.py ENDPOINT CONTROL ADDRESS KEY SECRET"""

import sys

import check


def a_queue_is_used_by_the_url_that_was_returned(sqs, address):
    url = sqs.create_queue(QueueName="addressed")["QueueUrl"]
    assert url.startswith(f"{address}/") and url.endswith("/addressed"), f"{url} is not below {address}"
    check.equal(sqs.get_queue_url(QueueName="addressed")["QueueUrl"], url, "URL of the queue")
    check.equal(sqs.list_queues()["QueueUrls"], [url], "URLs of all queues")
    # What another client learned at another address names the same queue.
    elsewhere = f"http://elsewhere.example:9/{url.split('/')[-2]}/addressed"
    for at in (url, elsewhere):
        check.check_send(sqs.send_message(QueueUrl=at, MessageBody="body"), "body")
        [message] = sqs.receive_message(QueueUrl=url)["Messages"]
        check.check_message(message)
        sqs.delete_message(QueueUrl=at, ReceiptHandle=message["ReceiptHandle"])


if __name__ == "__main__":
    _endpoint, _control, given, key, secret = sys.argv[1:]
    check.main([a_queue_is_used_by_the_url_that_was_returned], check.client(given, key, secret), given)
