// The SDK at an address that is not the server's own: node addresses.cjs ENDPOINT CONTROL ADDRESS KEY SECRET
// With an endpoint from the environment alone it connects to the host that the queue URL names instead.
"use strict";

const assert = require("node:assert/strict");
const sdk = require("@aws-sdk/client-sqs");

const [, , address, accessKeyId, secretAccessKey] = process.argv.slice(2);

async function useQueue(name, options) {
  const sqs = new sdk.SQSClient({
    region: "us-east-1",
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: 1,
    ...options,
  });
  const call = (action, input) => sqs.send(new sdk[`${action}Command`](input));
  const { QueueUrl } = await call("CreateQueue", { QueueName: name });
  assert.ok(QueueUrl.startsWith(`${address}/`) && QueueUrl.endsWith(`/${name}`), `${QueueUrl} is not below ${address}`);
  await call("SendMessage", { QueueUrl, MessageBody: "body" });
  const { Messages } = await call("ReceiveMessage", { QueueUrl });
  assert.deepEqual(Messages.map((message) => message.Body), ["body"]);
  await call("DeleteMessage", { QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle });
  const { Attributes } = await call("GetQueueAttributes", { QueueUrl, AttributeNames: ["All"] });
  assert.equal(Attributes.ApproximateNumberOfMessagesNotVisible, "0");
}

async function main() {
  console.log("endpoint in code ...");
  await useQueue("in-code", { endpoint: address });
  console.log("endpoint in the environment ...");
  process.env.AWS_ENDPOINT_URL = address;
  await useQueue("in-environment", {});
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
