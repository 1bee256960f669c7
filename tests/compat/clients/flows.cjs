// Every flow of a queue's life through @aws-sdk/client-sqs: node flows.cjs ENDPOINT CONTROL
// The SDK itself checks the MD5 of what it sends and receives and throws when one is wrong.
"use strict";

const assert = require("node:assert/strict");
const sdk = require("@aws-sdk/client-sqs");

const [endpoint, control] = process.argv.slice(2);
// One attempt only: a server that answers badly must not be helped by a second one.
const sqs = new sdk.SQSClient({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
  maxAttempts: 1,
  requestHandler: { requestTimeout: 40000 },
});
const ATTRIBUTES = {
  color: { DataType: "String", StringValue: "red" },
  n: { DataType: "Number", StringValue: "42" },
  raw: { DataType: "Binary", BinaryValue: Uint8Array.from([0, 1, 2, 255]) },
};

const call = (action, input) => sqs.send(new sdk[`${action}Command`](input));

async function newQueue(name, attributes = {}) {
  return (await call("CreateQueue", { QueueName: name, Attributes: attributes })).QueueUrl;
}

async function receive(url, options = {}) {
  const input = { QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 0, ...options };
  return (await call("ReceiveMessage", input)).Messages ?? [];
}

async function counters(url) {
  const names = ["", "NotVisible", "Delayed"].map((kind) => `ApproximateNumberOfMessages${kind}`);
  const { Attributes } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: names });
  return names.map((name) => Number(Attributes[name]));
}

async function arn(url) {
  const { Attributes } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["QueueArn"] });
  return Attributes.QueueArn;
}

async function advance(seconds) {
  const reply = await fetch(`${control}/_holdfast/clock/advance?by=${seconds}s`, { method: "POST" });
  assert.ok(reply.ok, `clock: ${reply.status}`);
}

async function refused(name, promise) {
  await assert.rejects(promise, (error) => {
    assert.ok(error.name === name || error.Code === name, `${error.name} (${error.Code}) instead of ${name}`);
    return true;
  });
}

const bodies = (messages) => messages.map((message) => message.Body);

const STEPS = {
  async "queues are created, found and changed"() {
    const url = await newQueue("js-queue", { VisibilityTimeout: "45" });
    assert.ok(url.startsWith(endpoint), `${url} is not under ${endpoint}`);
    assert.equal((await call("GetQueueUrl", { QueueName: "js-queue" })).QueueUrl, url);
    assert.deepEqual((await call("ListQueues", { QueueNamePrefix: "js-q" })).QueueUrls, [url]);
    await call("SetQueueAttributes", { QueueUrl: url, Attributes: { DelaySeconds: "3" } });
    const { Attributes } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["All"] });
    assert.equal(Attributes.VisibilityTimeout, "45");
    assert.equal(Attributes.DelaySeconds, "3");
  },

  async "bodies and attributes come back as they were"() {
    const url = await newQueue("js-single");
    for (const body of ["plain", "a literal &quot; & <b>", "line\r\nline\r", "🦀 漢字"]) {
      await call("SendMessage", { QueueUrl: url, MessageBody: body, MessageAttributes: ATTRIBUTES });
      const [message] = await receive(url, { MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] });
      assert.equal(message.Body, body);
      assert.equal(message.MessageAttributes.color.StringValue, "red");
      assert.deepEqual([...message.MessageAttributes.raw.BinaryValue], [0, 1, 2, 255]);
      assert.equal(message.Attributes.ApproximateReceiveCount, "1");
      await call("DeleteMessage", { QueueUrl: url, ReceiptHandle: message.ReceiptHandle });
    }
    assert.deepEqual(await counters(url), [0, 0, 0]);
  },

  async "batches succeed and fail by entry"() {
    const url = await newQueue("js-batch");
    const entries = Array.from({ length: 10 }, (_, n) => ({ Id: `e${n}`, MessageBody: `body ${n}` }));
    entries[4].MessageBody = "not allowed: \u000b";
    const sent = await call("SendMessageBatch", { QueueUrl: url, Entries: entries });
    assert.equal(sent.Successful.length, 9);
    assert.deepEqual(sent.Failed.map((entry) => [entry.Id, entry.Code]), [["e4", "InvalidMessageContents"]]);
    const messages = [];
    while (messages.length < 9) {
      const found = await receive(url);
      assert.ok(found.length > 0, `only ${messages.length} of 9 messages came`);
      messages.push(...found);
    }
    const handles = messages.map((message, n) => ({ Id: `${n}`, ReceiptHandle: message.ReceiptHandle }));
    const changes = handles.map((entry) => ({ ...entry, VisibilityTimeout: 300 }));
    assert.equal(
      (await call("ChangeMessageVisibilityBatch", { QueueUrl: url, Entries: changes })).Successful.length,
      9,
    );
    assert.equal((await call("DeleteMessageBatch", { QueueUrl: url, Entries: handles })).Successful.length, 9);
    assert.deepEqual(await counters(url), [0, 0, 0]);
  },

  async "FIFO keeps order and drops duplicates"() {
    const url = await newQueue("js.fifo", { FifoQueue: "true" });
    const send = (body, group, id) =>
      call("SendMessage", { QueueUrl: url, MessageBody: body, MessageGroupId: group, MessageDeduplicationId: id });
    const first = await send("a1", "a", "1");
    assert.equal((await send("a1 again", "a", "1")).MessageId, first.MessageId);
    await send("b1", "b", "2");
    await send("a2", "a", "3");
    const messages = await receive(url);
    assert.deepEqual(bodies(messages), ["a1", "a2", "b1"]);
    for (const message of messages) {
      await call("DeleteMessage", { QueueUrl: url, ReceiptHandle: message.ReceiptHandle });
    }
  },

  async "a long poll ends with the first message"() {
    const url = await newQueue("js-poll");
    const started = Date.now();
    const poll = receive(url, { WaitTimeSeconds: 20 });
    await call("SendMessage", { QueueUrl: url, MessageBody: "wake up" });
    assert.deepEqual(bodies(await poll), ["wake up"]);
    assert.ok(Date.now() - started < 10000, "the poll took longer than the send");
  },

  async "visibility ends by time or by request"() {
    const url = await newQueue("js-visibility", { VisibilityTimeout: "30" });
    await call("SendMessage", { QueueUrl: url, MessageBody: "seen" });
    await receive(url);
    assert.deepEqual(await receive(url), []);
    await advance(31);
    const [message] = await receive(url, { MessageSystemAttributeNames: ["ApproximateReceiveCount"] });
    assert.equal(message.Attributes.ApproximateReceiveCount, "2");
    const change = { QueueUrl: url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 0 };
    await call("ChangeMessageVisibility", change);
    assert.deepEqual(bodies(await receive(url)), ["seen"]);
  },

  async "a message received too often is dead-lettered"() {
    const dead = await newQueue("js-dead");
    const policy = JSON.stringify({ deadLetterTargetArn: await arn(dead), maxReceiveCount: "1" });
    const url = await newQueue("js-source", { RedrivePolicy: policy });
    const sent = await call("SendMessage", { QueueUrl: url, MessageBody: "poison", MessageAttributes: ATTRIBUTES });
    assert.deepEqual(bodies(await receive(url, { VisibilityTimeout: 0 })), ["poison"]);
    assert.deepEqual(await receive(url), []);
    const [message] = await receive(dead, { MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] });
    assert.equal(message.MessageId, sent.MessageId);
    assert.equal(message.Attributes.DeadLetterQueueSourceArn, await arn(url));
  },

  async "a purge takes everything"() {
    const url = await newQueue("js-purge");
    await call("SendMessage", { QueueUrl: url, MessageBody: "waiting" });
    await call("SendMessage", { QueueUrl: url, MessageBody: "delayed", DelaySeconds: 60 });
    await call("PurgeQueue", { QueueUrl: url });
    assert.deepEqual(await counters(url), [0, 0, 0]);
  },

  async "refusals reach the caller"() {
    await refused("QueueDoesNotExist", call("GetQueueUrl", { QueueName: "js-missing" }));
    const url = await newQueue("js-refuse");
    await refused("InvalidMessageContents", call("SendMessage", { QueueUrl: url, MessageBody: "\u000b" }));
    await refused("ReceiptHandleIsInvalid", call("DeleteMessage", { QueueUrl: url, ReceiptHandle: "garbage" }));
    await call("DeleteQueue", { QueueUrl: url });
    await refused("QueueDoesNotExist", call("SendMessage", { QueueUrl: url, MessageBody: "to nobody" }));
  },
};

async function main() {
  for (const [name, step] of Object.entries(STEPS)) {
    console.log(`${name} ...`);
    await step();
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
