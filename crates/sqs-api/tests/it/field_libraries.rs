//! The requests that libraries send whose runtimes are not at hand: Laravel, Symfony, Spring and MassTransit. Case
//! d36: their way of giving messages back, of delaying them, and of acknowledging them in batches.

use http::Request;
use serde_json::{Value, json};

use crate::client::text;
use crate::world::{Response, World};

const QUEUE: &str = "/000000000000/jobs";

fn with_queue() -> World {
    let world = World::new();
    assert_eq!(world.json("CreateQueue", r#"{"QueueName":"jobs"}"#).status, 200);
    world
}

fn url(world: &World) -> String {
    text(&world.json("GetQueueUrl", r#"{"QueueName":"jobs"}"#).value()["QueueUrl"])
}

fn first(answer: &Response) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.value()["Messages"][0].clone()
}

/// The PHP SDK, which Laravel uses, posts JSON to the queue's own address and names the queue in the body too.
fn php(world: &World, action: &str, mut request: Value) -> Response {
    request["QueueUrl"] = json!(url(world));
    let request = Request::post(QUEUE)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("AmazonSQS.{action}"))
        .header(
            "x-amz-user-agent",
            "aws-sdk-php/3.337.3 ua/2.1 OS/Linux#6.8 lang/php#8.3",
        )
        .header("aws-sdk-invocation-id", "6c1f4f0c7c0f4a9b8d7e")
        .header("aws-sdk-retry", "0/0")
        .body(request.to_string().into_bytes());
    world.call(request.unwrap())
}

#[test]
fn d36_laravel_gives_jobs_back_at_once_or_later() {
    let mut world = with_queue();
    let payload = r#"{"uuid":"0a1b","displayName":"App\\Jobs\\Work","job":"Illuminate\\Queue\\CallQueuedHandler@call","data":{}}"#;
    let sent = php(&world, "SendMessage", json!({"MessageBody": payload}));
    assert_eq!(sent.header("content-type"), Some("application/x-amz-json-1.0"));
    let pop = json!({"AttributeNames": ["ApproximateReceiveCount"]});
    let job = first(&php(&world, "ReceiveMessage", pop.clone()));
    assert_eq!(job["Body"], payload);
    // release(0)
    let release = |job: &Value, seconds: u32| json!({"ReceiptHandle": job["ReceiptHandle"], "VisibilityTimeout": seconds});
    assert_eq!(
        php(&world, "ChangeMessageVisibility", release(&job, 0)).status,
        200
    );
    let job = first(&php(&world, "ReceiveMessage", pop.clone()));
    assert_eq!(job["Attributes"]["ApproximateReceiveCount"], "2");
    // release(n)
    assert_eq!(
        php(&world, "ChangeMessageVisibility", release(&job, 90)).status,
        200
    );
    world.turn_to(std::time::Duration::from_secs(89));
    assert_eq!(php(&world, "ReceiveMessage", pop.clone()).body, "{}");
    world.turn_to(std::time::Duration::from_secs(90));
    let job = first(&php(&world, "ReceiveMessage", pop.clone()));
    let delete = json!({"ReceiptHandle": job["ReceiptHandle"]});
    assert_eq!(php(&world, "DeleteMessage", delete.clone()).status, 200);
    // A job that deletes itself and is deleted by its worker too.
    assert_eq!(php(&world, "DeleteMessage", delete).status, 200);
    // later(): up to the fifteen minutes of SQS, and the error of AWS beyond them.
    let later = |seconds: u32| json!({"MessageBody": payload, "DelaySeconds": seconds});
    assert_eq!(php(&world, "SendMessage", later(900)).status, 200);
    let refused = php(&world, "SendMessage", later(3_600));
    assert_eq!((refused.status, refused.code), (400, "InvalidParameterValue"));
    assert_eq!(
        refused.value()["message"],
        "Value 3600 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
    );
    // size() and clear()
    let size = json!({"AttributeNames": [
        "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed", "ApproximateNumberOfMessagesNotVisible",
    ]});
    let counted = php(&world, "GetQueueAttributes", size).value();
    assert_eq!(counted["Attributes"]["ApproximateNumberOfMessagesDelayed"], "1");
    assert_eq!(php(&world, "PurgeQueue", json!({})).status, 200);
}

/// AsyncAws, which Symfony uses, speaks JSON in its later versions and Query in its earlier ones.
#[test]
fn d36_symfony_sends_receives_and_keeps_alive_in_both_protocols() {
    let mut world = with_queue();
    let headers = r#"{"X-Message-Stamp-Bus":"[{\"busName\":\"messenger.bus.default\"}]"}"#;
    let sent = world.json(
        "SendMessage",
        json!({
            "QueueUrl": url(&world),
            "MessageBody": "{\"id\":1}",
            "DelaySeconds": 0,
            "MessageAttributes": {
                "X-Symfony-Messenger": {"DataType": "String", "StringValue": headers},
                "Content-Type": {"DataType": "String", "StringValue": "application/json"},
            },
            "MessageSystemAttributes": {},
        })
        .to_string(),
    );
    assert_eq!(sent.status, 200, "{}", sent.body);
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("Action", "ReceiveMessage")
        .append_pair("Version", "2012-11-05")
        .append_pair("QueueUrl", &url(&world))
        .append_pair("MessageAttributeName.1", "All")
        .append_pair("MaxNumberOfMessages", "9")
        .append_pair("VisibilityTimeout", "30")
        .append_pair("WaitTimeSeconds", "20")
        .finish();
    let received = world.form("/", form);
    let between = |start: &str, end: &str| {
        let (_, rest) = received.body.split_once(start).unwrap();
        rest.split_once(end).unwrap().0.to_owned()
    };
    assert_eq!(between("<Body>", "</Body>"), "{&quot;id&quot;:1}");
    assert!(
        received.body.contains("<Name>X-Symfony-Messenger</Name>"),
        "{}",
        received.body
    );
    let handle = between("<ReceiptHandle>", "</ReceiptHandle>");
    let act = |action: &str, others: &str| {
        let form = format!("Action={action}&Version=2012-11-05&QueueUrl=jobs&ReceiptHandle={handle}{others}");
        world.form("/", form).status
    };
    assert_eq!(
        act("ChangeMessageVisibility", "&VisibilityTimeout=60"),
        200,
        "keepalive"
    );
    assert_eq!(
        act("ChangeMessageVisibility", "&VisibilityTimeout=0"),
        200,
        "reject and retry"
    );
    assert_eq!(act("DeleteMessage", ""), 200);
    world.turn_to(std::time::Duration::from_secs(1));
    let owner = r#"{"QueueName":"jobs","QueueOwnerAWSAccountId":"000000000000"}"#;
    assert_eq!(world.json("GetQueueUrl", owner).status, 200);
    assert_eq!(
        world.json("GetQueueUrl", r#"{"QueueName":"other"}"#).value()["__type"],
        "com.amazonaws.sqs#QueueDoesNotExist"
    );
}

/// Spring Cloud AWS asks for everything, and acknowledges in batches under the ids of the messages.
#[test]
fn d36_spring_acknowledges_in_batches() {
    let world = with_queue();
    let resolve = json!({"QueueUrl": url(&world), "AttributeNames": ["QueueArn"]});
    assert_eq!(world.json("GetQueueAttributes", resolve.to_string()).status, 200);
    let entries: Vec<Value> = (0..3)
        .map(|at| {
            json!({
                "Id": format!("5f0c1f3e-9d5e-4a0e-8d5e-3d3f7a1c2b4{at}"),
                "MessageBody": format!("body {at}"),
                "DelaySeconds": 0,
                "MessageAttributes": {
                    "contentType": {"DataType": "String", "StringValue": "application/json"},
                    "JavaType": {"DataType": "String", "StringValue": "com.example.Event"},
                    "timestamp": {"DataType": "Number.java.lang.Long", "StringValue": "1700000000000"},
                },
            })
        })
        .collect();
    let sent = world.json(
        "SendMessageBatch",
        json!({"QueueUrl": url(&world), "Entries": entries}).to_string(),
    );
    assert_eq!(
        sent.value()["Successful"].as_array().unwrap().len(),
        3,
        "{}",
        sent.body
    );
    let receive = json!({
        "QueueUrl": url(&world),
        "AttributeNames": ["All"],
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
        "MaxNumberOfMessages": 10,
        "WaitTimeSeconds": 10,
        "VisibilityTimeout": 30,
        "ReceiveRequestAttemptId": "2f1ac2a0-50b6-4a3a-9a4f-9a7c8d5e1234",
    });
    let received = world.json("ReceiveMessage", receive.to_string()).value();
    let messages = received["Messages"].as_array().unwrap();
    let entry =
        |message: &Value| json!({"Id": message["MessageId"], "ReceiptHandle": message["ReceiptHandle"]});
    let acknowledge =
        json!({"QueueUrl": url(&world), "Entries": messages.iter().map(entry).collect::<Vec<_>>()});
    let acknowledged = world.json("DeleteMessageBatch", acknowledge.to_string()).value();
    assert_eq!(acknowledged["Successful"].as_array().unwrap().len(), 3);
    assert_eq!(acknowledged.get("Failed"), None);
    // One message twice: under two ids both succeed, under one id the batch is refused as on AWS.
    let twice = |id: &str| {
        let mut second = entry(&messages[0]);
        second["Id"] = json!(id);
        let request = json!({"QueueUrl": url(&world), "Entries": [entry(&messages[0]), second]});
        world.json("DeleteMessageBatch", request.to_string())
    };
    assert_eq!(twice("again").value()["Successful"].as_array().unwrap().len(), 2);
    let same = twice(&text(&messages[0]["MessageId"]));
    assert_eq!(same.code, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct");
}

/// MassTransit sets its topology up, and goes on when a queue is there already.
#[test]
fn d36_masstransit_sets_up_its_queues_and_its_delays() {
    let world = World::new();
    let create = |name: &str| {
        let request = json!({"QueueName": name, "Attributes": {}, "tags": {}});
        world.json("CreateQueue", request.to_string())
    };
    for _ in 0..2 {
        for name in ["orders", "orders_error", "orders_skipped"] {
            assert_eq!(create(name).status, 200);
        }
    }
    let fifo = json!({"QueueName": "orders.fifo", "Attributes": {"FifoQueue": "true"}});
    assert_eq!(world.json("CreateQueue", fifo.to_string()).status, 200);
    let arn = "arn:aws:sqs:us-east-1:000000000000:orders";
    let policy = json!({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": arn,
        "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:sns:us-east-1:000000000000:*"}},
    }]});
    let set = json!({"QueueUrl": "orders", "Attributes": {"Policy": policy.to_string()}});
    assert_eq!(world.json("SetQueueAttributes", set.to_string()).status, 200);
    let attributes = json!({"QueueUrl": "orders", "AttributeNames": ["All"]});
    let attributes = world.json("GetQueueAttributes", attributes.to_string()).value();
    assert_eq!(attributes["Attributes"]["Policy"], policy.to_string());
    assert_eq!(attributes["Attributes"]["QueueArn"], arn);

    let envelope = |id: &str, delay: u32| {
        json!({"Id": id, "MessageBody": "{\"messageType\":[\"urn:message:Order\"]}", "DelaySeconds": delay,
            "MessageAttributes": {"Content-Type": {"DataType": "String", "StringValue": "application/vnd.masstransit+json"}}})
    };
    let batch = json!({"QueueUrl": "orders", "Entries": [envelope("0", 0), envelope("1", 900), envelope("2", 3_600)]});
    let sent = world.json("SendMessageBatch", batch.to_string()).value();
    assert_eq!(sent["Successful"].as_array().unwrap().len(), 2);
    assert_eq!(sent["Failed"][0]["Id"], "2");
    assert_eq!(sent["Failed"][0]["Code"], "InvalidParameterValue");
    let receive = json!({
        "QueueUrl": "orders",
        "MaxNumberOfMessages": 10,
        "WaitTimeSeconds": 3,
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    });
    let message = first(&world.json("ReceiveMessage", receive.to_string()));
    let renew =
        json!({"QueueUrl": "orders", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 60});
    assert_eq!(
        world.json("ChangeMessageVisibility", renew.to_string()).status,
        200
    );
    let delete =
        json!({"QueueUrl": "orders", "Entries": [{"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}]});
    let deleted = world.json("DeleteMessageBatch", delete.to_string()).value();
    assert_eq!(deleted["Successful"], json!([{"Id": "0"}]));
    // Its handler of a lost lock looks for this code.
    let gone = world.json("ChangeMessageVisibility", renew.to_string());
    assert_eq!((gone.status, gone.code), (400, "InvalidParameterValue"));
}
