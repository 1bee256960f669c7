//! Receives that wait: what ends the wait, and what does not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Meanwhile, World, json_request};

fn with_queues() -> World {
    let world = World::new();
    world.json("CreateQueue", r#"{"QueueName":"q"}"#);
    world.json(
        "CreateQueue",
        r#"{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","ContentBasedDeduplication":"true"}}"#,
    );
    world
}

fn call(action: &str, request: Value) -> Meanwhile {
    Meanwhile::Call(Box::new(json_request(action, request.to_string())))
}

fn send(queue: &str, body: &str) -> Meanwhile {
    let mut request = json!({"QueueUrl": queue, "MessageBody": body});
    if queue.ends_with(".fifo") {
        request["MessageGroupId"] = json!("g");
    }
    call("SendMessage", request)
}

/// Time passes once the poll is known to wait, and a request makes the server look at the clock.
fn pass(queue: &str, milliseconds: u64) -> [Meanwhile; 3] {
    let look = || {
        let request = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
        call("GetQueueAttributes", request)
    };
    [
        look(),
        Meanwhile::Pass(Duration::from_millis(milliseconds)),
        look(),
    ]
}

fn bodies(world: &mut World, poll: &Value, meanwhile: Vec<Meanwhile>) -> Vec<String> {
    let answer = world.poll(&poll.to_string(), meanwhile).value();
    let messages = answer.get("Messages").and_then(Value::as_array);
    messages.map_or_else(Vec::new, |messages| {
        messages
            .iter()
            .map(|message| message["Body"].as_str().unwrap().to_owned())
            .collect()
    })
}

fn received(world: &World, queue: &str, timeout: u32) -> Value {
    let request = json!({"QueueUrl": queue, "VisibilityTimeout": timeout});
    world.json("ReceiveMessage", request.to_string()).value()["Messages"][0]["ReceiptHandle"].clone()
}

// Fact 92: it ends with the first message and does not wait to be filled.
#[test]
fn a_message_that_is_sent_meanwhile_ends_the_wait() {
    let mut world = with_queues();
    for queue in ["q", "q.fifo"] {
        let poll = json!({"QueueUrl": queue, "WaitTimeSeconds": 20, "MaxNumberOfMessages": 10});
        assert_eq!(bodies(&mut world, &poll, vec![send(queue, "now")]), ["now"]);
    }
}

// Fact 92: the queue's own wait holds where the request names none, and the request's wins.
#[test]
fn the_queues_own_wait_holds_where_the_request_names_none() {
    let mut world = with_queues();
    world.json(
        "SetQueueAttributes",
        r#"{"QueueUrl":"q","Attributes":{"ReceiveMessageWaitTimeSeconds":"20"}}"#,
    );
    let poll = json!({"QueueUrl": "q"});
    assert_eq!(bodies(&mut world, &poll, vec![send("q", "later")]), ["later"]);
    let short = json!({"QueueUrl": "q", "WaitTimeSeconds": 0});
    let none: [&str; 0] = [];
    assert_eq!(bodies(&mut world, &short, vec![send("q", "too late")]), none);
}

// Fact 89, and fact 64: nobody has to receive for it to happen.
#[test]
fn the_end_of_a_delay_ends_the_wait() {
    let mut world = with_queues();
    let delayed = json!({"QueueUrl": "q", "MessageBody": "delayed", "DelaySeconds": 5});
    world.json("SendMessage", delayed.to_string());
    let poll = json!({"QueueUrl": "q", "WaitTimeSeconds": 20});
    let meanwhile = pass("q", 4_999).into_iter().chain(pass("q", 1)).collect();
    assert_eq!(bodies(&mut world, &poll, meanwhile), ["delayed"]);
}

// Fact 115: new messages of a blocked group do not end the wait; the delete of what blocks it does, at once.
#[test]
fn a_blocked_group_goes_on_when_what_blocks_it_is_deleted() {
    let mut world = with_queues();
    let send_now = |body: &str| {
        let request = json!({"QueueUrl": "q.fifo", "MessageBody": body, "MessageGroupId": "g"});
        request.to_string()
    };
    world.json("SendMessage", send_now("first"));
    let handle = received(&world, "q.fifo", 30);
    let delete = json!({"QueueUrl": "q.fifo", "ReceiptHandle": handle});
    let poll = json!({"QueueUrl": "q.fifo", "WaitTimeSeconds": 20});
    let meanwhile = vec![send("q.fifo", "second"), call("DeleteMessage", delete)];
    assert_eq!(bodies(&mut world, &poll, meanwhile), ["second"]);
}

#[test]
fn d14_every_way_in_which_a_message_becomes_available_ends_the_wait() {
    for queue in ["q", "q.fifo"] {
        let mut world = with_queues();
        let request = json!({"QueueUrl": queue, "MessageBody": "held", "MessageGroupId": "g"});
        world.json("SendMessage", request.to_string());
        let poll = json!({"QueueUrl": queue, "WaitTimeSeconds": 10, "VisibilityTimeout": 2});
        let handle = received(&world, queue, 30);
        let zero = json!({"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": 0});
        let meanwhile = vec![call("ChangeMessageVisibility", zero)];
        assert_eq!(bodies(&mut world, &poll, meanwhile), ["held"], "{queue}");
        // The receive that was just answered holds it for two seconds.
        let meanwhile = pass(queue, 2_000).into_iter().collect();
        assert_eq!(bodies(&mut world, &poll, meanwhile), ["held"], "{queue}");
    }
}

// Fact 13: an empty answer, however long it was waited for.
#[test]
fn a_wait_that_ends_without_a_message_is_an_empty_answer() {
    let mut world = with_queues();
    for wait in [0, 1] {
        let poll = json!({"QueueUrl": "q", "WaitTimeSeconds": wait});
        let meanwhile = pass("q", 1_000).into_iter().collect();
        let answer = world.poll(&poll.to_string(), meanwhile);
        assert_eq!((answer.status, answer.body.as_str()), (200, "{}"));
    }
}
