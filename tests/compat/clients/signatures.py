"""Who is let in: python signatures.py ENDPOINT CONTROL json|query KEY SECRET ACCOUNT"""

import sys
import urllib.error
import urllib.request

import check


def a_good_signature_acts_for_its_account(endpoint, protocol, key, secret, account):
    sqs = check.client(endpoint, key, secret)
    url = sqs.create_queue(QueueName="signed")["QueueUrl"]
    check.equal(url.split("/")[-2:], [account, "signed"], "account and name in the URL")
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    check.equal(attributes["QueueArn"], f"arn:aws:sqs:us-east-1:{account}:signed", "ARN")
    body = "signed bodies may hold anything: äöü & =+%/ \n"
    check.check_send(sqs.send_message(QueueUrl=url, MessageBody=body), body)
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    check.equal(message["Body"], body, "body")


def a_bad_signature_is_refused(endpoint, protocol, key, secret, account):
    wrong_secret = check.client(endpoint, key, secret[:-1] + "X")
    error = check.refused("SignatureDoesNotMatch", wrong_secret.list_queues)
    check.equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 403, "status")
    unknown_key = check.client(endpoint, "AKIAUNKNOWN000000000", secret)
    error = check.refused("InvalidClientTokenId", unknown_key.list_queues)
    check.equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 403, "status")


def a_request_without_signature_is_refused(endpoint, protocol, key, secret, account):
    try:
        with urllib.request.urlopen(f"{endpoint}/?Action=ListQueues", timeout=30) as reply:
            raise AssertionError(f"accepted with {reply.status}")
    except urllib.error.HTTPError as error:
        check.equal(error.code, 403, "status of an unsigned request")


def a_presigned_url_works_until_it_is_changed(endpoint, protocol, key, secret, account):
    if protocol == "json":
        return  # Only the Query protocol can be presigned as a GET.
    sqs = check.client(endpoint, key, secret)
    url = sqs.generate_presigned_url("get_queue_url", Params={"QueueName": "signed"}, HttpMethod="GET")
    with urllib.request.urlopen(url, timeout=30) as reply:
        text = reply.read().decode()
        assert "<GetQueueUrlResponse" in text and "/signed</QueueUrl>" in text, text
    try:
        with urllib.request.urlopen(url.replace("QueueName=signed", "QueueName=other"), timeout=30) as reply:
            raise AssertionError(f"a changed URL was accepted with {reply.status}")
    except urllib.error.HTTPError as error:
        check.equal(error.code, 403, "status of a changed URL")


def a_clock_that_is_off_is_refused(endpoint, protocol, key, secret, account):
    # Within a quarter of an hour a clock may differ.
    for seconds in (-840, 840):
        check.set_signing_clock(seconds)
        check.client(endpoint, key, secret).list_queues()
    for seconds in (-960, 960):
        check.set_signing_clock(seconds)
        error = check.refused("RequestExpired", check.client(endpoint, key, secret).list_queues)
        check.equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 403, "status")


def main():
    endpoint, _control, *who = sys.argv[1:]
    steps = [
        a_good_signature_acts_for_its_account,
        a_bad_signature_is_refused,
        a_request_without_signature_is_refused,
        a_presigned_url_works_until_it_is_changed,
        a_clock_that_is_off_is_refused,
    ]
    check.main(steps, endpoint, *who)


if __name__ == "__main__":
    main()
