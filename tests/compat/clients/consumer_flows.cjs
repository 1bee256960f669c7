// sqs-consumer over @aws-sdk/client-sqs, unpatched: node consumer_flows.cjs ENDPOINT CONTROL
"use strict";

const assert = require("node:assert/strict");
const { once } = require("node:events");
const { setTimeout: pause } = require("node:timers/promises");
const sdk = require("@aws-sdk/client-sqs");
const { Consumer } = require("sqs-consumer");

const LIMIT_MS = 45000;
const VISIBILITY_SECONDS = 30;

const [endpoint, control] = process.argv.slice(2);
const sqs = new sdk.SQSClient({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
  maxAttempts: 1,
});
// When the last call of a command began that was answered. A middleware of the SDK sees what the consumer asks for;
// nothing of the consumer is replaced.
const answered = {};
sqs.middlewareStack.add(
  (next, context) => async (args) => {
    const began = performance.now();
    const output = await next(args);
    answered[context.commandName] = began;
    return output;
  },
  { step: "initialize", name: "answered" },
);

const call = (action, input) => sqs.send(new sdk[`${action}Command`](input));

async function newQueue(name) {
  const Attributes = { VisibilityTimeout: String(VISIBILITY_SECONDS) };
  return (await call("CreateQueue", { QueueName: name, Attributes })).QueueUrl;
}

async function counters(url) {
  const names = ["", "NotVisible", "Delayed"].map((kind) => `ApproximateNumberOfMessages${kind}`);
  const { Attributes } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: names });
  return names.map((name) => Number(Attributes[name]));
}

async function advance(seconds) {
  const reply = await fetch(`${control}/_holdfast/clock/advance?by=${seconds}s`, { method: "POST" });
  assert.ok(reply.ok, `clock: ${reply.status}`);
}

async function waitFor(what, condition) {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `waited for ${what}`);
    await pause(10);
  }
}

/** Runs a consumer until `body` is done; an error that it does not expect fails the flow. */
async function consuming(options, body, { expectsFailures = false } = {}) {
  const consumer = Consumer.create({
    sqs,
    waitTimeSeconds: 20,
    visibilityTimeout: VISIBILITY_SECONDS,
    messageSystemAttributeNames: ["ApproximateReceiveCount"],
    ...options,
  });
  const errors = [];
  for (const event of ["error", "timeout_error", ...(expectsFailures ? [] : ["processing_error"])]) {
    consumer.on(event, (error) => errors.push(error));
  }
  consumer.start();
  try {
    await body(consumer);
  } finally {
    const stopped = once(consumer, "stopped");
    consumer.stop({ abort: true });
    await stopped;
  }
  assert.deepEqual(errors, []);
}

const empty = async (url) => (await counters(url)).every((count) => count === 0);

const STEPS = {
  async "100 messages are handled in batches, once each"() {
    const queueUrl = await newQueue("consumer-batch");
    const sent = Array.from({ length: 100 }, (_, n) => `body ${n}`);
    for (let first = 0; first < sent.length; first += 10) {
      const Entries = sent.slice(first, first + 10).map((MessageBody, n) => ({ Id: `${n}`, MessageBody }));
      await call("SendMessageBatch", { QueueUrl: queueUrl, Entries });
    }
    const handled = [];
    const handleMessageBatch = async (messages) => {
      handled.push(...messages.map((message) => message.Body));
      return messages;
    };
    await consuming({ queueUrl, batchSize: 10, handleMessageBatch }, async () => {
      await waitFor("the queue to be empty", () => empty(queueUrl));
    });
    assert.deepEqual(handled.toSorted(), sent.toSorted());
  },

  async "what a batch handler does not acknowledge comes again"() {
    const queueUrl = await newQueue("consumer-part");
    const Entries = Array.from({ length: 10 }, (_, n) => ({ Id: `${n}`, MessageBody: `${n}` }));
    await call("SendMessageBatch", { QueueUrl: queueUrl, Entries });
    const handled = [];
    const handleMessageBatch = async (messages) => {
      handled.push(...messages.map((message) => message.Body));
      return messages.filter((message) => {
        return Number(message.Body) % 2 === 0 || message.Attributes.ApproximateReceiveCount === "2";
      });
    };
    await consuming({ queueUrl, batchSize: 10, handleMessageBatch }, async () => {
      await waitFor("five messages to be left", async () => {
        return handled.length === 10 && (await counters(queueUrl))[1] === 5;
      });
      await advance(VISIBILITY_SECONDS + 1);
      await waitFor("the queue to be empty", () => empty(queueUrl));
    });
    assert.deepEqual(handled.slice(10).toSorted(), ["1", "3", "5", "7", "9"]);
  },

  async "a heartbeat keeps a message in flight past its visibility timeout"() {
    const queueUrl = await newQueue("consumer-heartbeat");
    await call("SendMessage", { QueueUrl: queueUrl, MessageBody: "slow" });
    const counts = [];
    let finish;
    const finished = new Promise((resolve) => (finish = resolve));
    const handleMessage = async (message) => {
      counts.push(message.Attributes.ApproximateReceiveCount);
      await finished;
      return message;
    };
    await consuming({ queueUrl, heartbeatInterval: 1, handleMessage }, async () => {
      await waitFor("the handler to run", () => counts.length === 1);
      for (let beat = 0; beat < 2; beat += 1) {
        await advance(VISIBILITY_SECONDS - 10);
        // One that was under way when the clock was turned would count for nothing.
        const turned = performance.now();
        await waitFor("a heartbeat", () => (answered.ChangeMessageVisibilityCommand ?? 0) > turned);
      }
      assert.deepEqual(await counters(queueUrl), [0, 1, 0]);
      finish();
      await waitFor("the queue to be empty", () => empty(queueUrl));
    });
    assert.deepEqual(counts, ["1"]);
  },

  async "a failing handler gets its message again, at once or after the visibility timeout"() {
    const queueUrl = await newQueue("consumer-fail");
    for (const terminateVisibilityTimeout of [true, false]) {
      await call("SendMessage", { QueueUrl: queueUrl, MessageBody: "fails twice" });
      const counts = [];
      const handleMessage = async (message) => {
        counts.push(message.Attributes.ApproximateReceiveCount);
        if (counts.length < 3) {
          throw new Error("not yet");
        }
        return message;
      };
      const options = { queueUrl, terminateVisibilityTimeout, handleMessage };
      const body = async (consumer) => {
        let failures = 0;
        consumer.on("processing_error", () => (failures += 1));
        for (let attempt = 1; attempt < 3 && !terminateVisibilityTimeout; attempt += 1) {
          await waitFor(`failure ${attempt}`, () => failures === attempt);
          assert.deepEqual(await counters(queueUrl), [0, 1, 0]);
          await advance(VISIBILITY_SECONDS + 1);
        }
        await waitFor("the third attempt", async () => counts.length === 3 && (await empty(queueUrl)));
      };
      await consuming(options, body, { expectsFailures: true });
      assert.deepEqual(counts, ["1", "2", "3"]);
    }
  },
};

async function main() {
  for (const [name, step] of Object.entries(STEPS)) {
    const started = Date.now();
    console.log(`${name} ...`);
    await step();
    console.log(`${name} ok in ${Date.now() - started} ms`);
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
