//! What broke for users of other queue servers, as far as it is about messages on the wire and their delivery. Each
//! test bears the number of its case. What a recording of AWS says goes before what the case asks for.

use serde_json::{Value, json};

use crate::client::{Client, in_both_protocols, text};
use crate::world::World;

fn create(client: &Client, name: &str, attributes: Value) {
    let request = json!({"QueueName": name, "Attributes": attributes});
    client.ok("CreateQueue", request);
}

fn create_fifo(client: &Client, name: &str) {
    create(
        client,
        name,
        json!({"FifoQueue": "true", "ContentBasedDeduplication": "true"}),
    );
}

fn send(client: &Client, queue: &str, body: &str) -> Value {
    client.ok("SendMessage", json!({"QueueUrl": queue, "MessageBody": body}))
}

fn send_in(client: &Client, queue: &str, group: &str, body: &str) -> Value {
    client.ok(
        "SendMessage",
        json!({"QueueUrl": queue, "MessageBody": body, "MessageGroupId": group}),
    )
}

fn change(client: &Client, queue: &str, message: &Value, seconds: u32) {
    client.ok(
        "ChangeMessageVisibility",
        json!({"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": seconds}),
    );
}

#[test]
fn d08_empty_lists_are_left_out_and_partial_results_are_both_there() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        assert_eq!(client.ok("ReceiveMessage", json!({"QueueUrl": "q"})), json!({}));
        let good = |id: &str| json!({"Id": id, "MessageBody": "b"});
        let bad = |id: &str| json!({"Id": id, "MessageBody": ""});
        let batch = |entries: Value| {
            let answer = client.ok("SendMessageBatch", json!({"QueueUrl": "q", "Entries": entries}));
            let length = |list: &str| answer.get(list).map(|list| list.as_array().unwrap().len());
            if let Some(failed) = answer.get("Failed") {
                assert_eq!(failed[0]["SenderFault"], true);
            }
            (length("Successful"), length("Failed"))
        };
        assert_eq!(batch(json!([good("a"), good("b")])), (Some(2), None));
        assert_eq!(batch(json!([bad("a"), bad("b")])), (None, Some(2)));
        assert_eq!(batch(json!([good("a"), bad("b")])), (Some(1), Some(1)));
    });
    let world = World::new();
    world.json("CreateQueue", r#"{"QueueName":"q"}"#);
    let empty = world.form("/", "Action=ReceiveMessage&QueueUrl=q");
    assert!(empty.body.contains("<ReceiveMessageResult/>"), "{}", empty.body);
}

#[test]
fn d09_sizes_have_their_bounds_and_a_form_may_be_three_times_as_long() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        assert_eq!(client.attributes("q")["MaximumMessageSize"], "1048576");
        for (size, is_good) in [
            ("1023", false),
            ("1024", true),
            ("1048576", true),
            ("1048577", false),
        ] {
            let request = json!({"QueueUrl": "q", "Attributes": {"MaximumMessageSize": size}});
            if is_good {
                client.ok("SetQueueAttributes", request);
            } else {
                let (code, message) = client.refused("SetQueueAttributes", request);
                assert_eq!(code, "InvalidAttributeValue");
                assert!(message.contains("MaximumMessageSize"), "{message}");
            }
        }
        // Each of these is three characters in a form.
        send(client, "q", &"&".repeat(1_048_576));
        let too_long = json!({"QueueUrl": "q", "MessageBody": "&".repeat(1_048_577)});
        let (code, message) = client.refused("SendMessage", too_long);
        assert_eq!(code, "InvalidParameterValue");
        assert!(message.contains("1048576"), "the limit is named");
    });
}

#[test]
fn d11_attributes_that_are_not_valid_are_named_and_nothing_is_stored() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        let long = "n".repeat(257);
        let string = |value: &str| json!({"DataType": "String", "StringValue": value});
        let number = |value: &str| json!({"DataType": "Number", "StringValue": value});
        let eleven: serde_json::Map<_, _> = (0..11).map(|at| (format!("n{at}"), string("v"))).collect();
        for (attributes, named) in [
            (json!({"wrong": string("")}), "wrong"),
            (json!({"wrong": {"DataType": "String"}}), "wrong"),
            (Value::from(eleven), "10"),
            (json!({"AWS.wrong": string("v")}), "AWS.wrong"),
            (json!({"wrong..name": string("v")}), "wrong..name"),
            (json!({&long: string("v")}), &long),
            // Fact 83: a label may be too long.
            (
                json!({"wrong": {"DataType": format!("Number.{}", &long[1..]), "StringValue": "1"}}),
                "wrong",
            ),
            (json!({"wrong": number("1e999")}), "wrong"),
            (json!({"wrong": number("abc")}), "wrong"),
            (json!({"wrong": {"DataType": "Foo", "StringValue": "v"}}), "wrong"),
            (
                json!({"wrong": {"DataType": "Binary", "BinaryValue": ""}}),
                "wrong",
            ),
        ] {
            let request = json!({"QueueUrl": "q", "MessageBody": "b", "MessageAttributes": attributes});
            let (code, message) = client.refused("SendMessage", request);
            assert_eq!(code, "InvalidParameterValue", "{attributes}");
            assert!(message.contains(named), "{attributes}: {message}");
        }
        assert_eq!(client.counters("q"), [0, 0, 0]);
    });
}

// Fact 96: in JSON both names of the parameter, and what the older one says is honoured too.
#[test]
fn d12_system_attributes_are_those_that_were_asked_for() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        client.ok(
            "SendMessage",
            json!({"QueueUrl": "q", "MessageBody": "b", "MessageSystemAttributes": {
                "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"},
            }}),
        );
        let names = |request: Value| -> Vec<String> {
            let mut request = request;
            request["VisibilityTimeout"] = json!(0);
            let messages = client.receive("q", request);
            let attributes = messages[0].get("Attributes").and_then(Value::as_object).cloned();
            attributes.map_or_else(Vec::new, |attributes| attributes.keys().cloned().collect())
        };
        let none: [&str; 0] = [];
        assert_eq!(names(json!({})), none);
        for parameter in ["AttributeNames", "MessageSystemAttributeNames"] {
            assert_eq!(names(json!({parameter: ["SenderId"]})), ["SenderId"]);
            let all = names(json!({parameter: ["All"]}));
            assert_eq!(
                all,
                [
                    "AWSTraceHeader",
                    "ApproximateFirstReceiveTimestamp",
                    "ApproximateReceiveCount",
                    "SenderId",
                    "SentTimestamp"
                ]
            );
        }
        let both = json!({"AttributeNames": ["SenderId"], "MessageSystemAttributeNames": ["AWSTraceHeader"]});
        assert_eq!(names(both), ["AWSTraceHeader", "SenderId"]);
    });
    let world = World::new();
    world.json("CreateQueue", r#"{"QueueName":"q"}"#);
    world.json("SendMessage", r#"{"QueueUrl":"q","MessageBody":"b"}"#);
    // Fact 21: both parameters are one in Query; with a number or without.
    for form in [
        "AttributeName.1=SenderId",
        "AttributeName=SenderId",
        "AttributeNames.1=SenderId",
        "MessageSystemAttributeName.1=SenderId",
        "MessageSystemAttributeNames.1=SenderId",
    ] {
        let got = world.form(
            "/",
            format!("Action=ReceiveMessage&QueueUrl=q&VisibilityTimeout=0&{form}"),
        );
        let expected = "<Attribute><Name>SenderId</Name><Value>000000000000</Value></Attribute>";
        assert!(got.body.contains(expected), "{form}: {}", got.body);
        assert!(!got.body.contains("SentTimestamp"), "{form}: {}", got.body);
    }
}

#[test]
fn d13_a_message_stays_invisible_for_twelve_hours_at_most() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        send(client, "q", "long");
        let message = client.receive("q", json!({})).remove(0);
        let refused = |message: &Value, seconds: i64| {
            let handle = &message["ReceiptHandle"];
            let request = json!({"QueueUrl": "q", "ReceiptHandle": handle, "VisibilityTimeout": seconds});
            client.refused("ChangeMessageVisibility", request)
        };
        for seconds in [-1, 43_201] {
            assert_eq!(refused(&message, seconds).0, "InvalidParameterValue");
        }
        change(client, "q", &message, 43_200);
        client.turn_to(60.0);
        let refused = |message: &Value, seconds: i64| {
            let handle = &message["ReceiptHandle"];
            let request = json!({"QueueUrl": "q", "ReceiptHandle": handle, "VisibilityTimeout": seconds});
            client.refused("ChangeMessageVisibility", request)
        };
        let (code, text) = refused(&message, 43_200);
        assert_eq!(code, "InvalidParameterValue");
        assert!(text.contains("beyond the limit [43200 seconds]"), "{text}");
        // It sets, and does not add.
        change(client, "q", &message, 43_140);
        change(client, "q", &message, 100);
        client.turn_to(100.0);
        change(client, "q", &message, 43_100);
        client.turn_to(43_199.0);
        assert_eq!(client.counters("q"), [0, 0, 1]);
        client.turn_to(43_200.0);
        // A later receive begins twelve hours of its own.
        let again = client.receive("q", json!({})).remove(0);
        change(client, "q", &again, 43_200);
    });
}

#[test]
fn d17_a_deduplication_id_is_remembered_for_five_minutes() {
    in_both_protocols(|client| {
        create(client, "q.fifo", json!({"FifoQueue": "true"}));
        let send = |client: &Client, group: &str| {
            client.ok(
                "SendMessage",
                json!({"QueueUrl": "q.fifo", "MessageBody": "b", "MessageGroupId": group, "MessageDeduplicationId": "d"}),
            )
        };
        let first = send(client, "g");
        let message = client.receive("q.fifo", json!({})).remove(0);
        client.delete("q.fifo", &message);
        for group in ["g", "h"] {
            let again = send(client, group);
            assert_eq!(again["MessageId"], first["MessageId"]);
            assert_eq!(again["SequenceNumber"], first["SequenceNumber"]);
        }
        client.world.restart();
        client.turn_to(299.0);
        assert_eq!(send(client, "g")["MessageId"], first["MessageId"]);
        client.turn_to(301.0);
        assert_ne!(send(client, "g")["MessageId"], first["MessageId"]);
        let missing = json!({"QueueUrl": "q.fifo", "MessageBody": "b", "MessageDeduplicationId": "x"});
        assert_eq!(client.refused("SendMessage", missing).0, "MissingParameter");
        let entries = json!([{"Id": "a", "MessageBody": "b", "MessageDeduplicationId": "x"}]);
        let batch = json!({"QueueUrl": "q.fifo", "Entries": entries});
        assert_eq!(
            client.refused("SendMessageBatch", batch).0,
            "InvalidParameterValue"
        );
    });
}

#[test]
fn d17_moves_are_not_duplicates() {
    in_both_protocols(|client| {
        create(client, "dead.fifo", json!({"FifoQueue": "true"}));
        let arn = "arn:aws:sqs:us-east-1:000000000000:dead.fifo";
        let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 1}).to_string();
        create(
            client,
            "q.fifo",
            json!({"FifoQueue": "true", "RedrivePolicy": policy}),
        );
        let send = json!({"QueueUrl": "q.fifo", "MessageBody": "b", "MessageGroupId": "g", "MessageDeduplicationId": "d"});
        client.ok("SendMessage", send.clone());
        client.receive("q.fifo", json!({"VisibilityTimeout": 0}));
        assert_eq!(client.bodies("q.fifo", json!({})).len(), 0, "moved");
        assert_eq!(client.counters("dead.fifo"), [1, 0, 0]);
        client.ok("StartMessageMoveTask", json!({"SourceArn": arn}));
        // A write lets the task go on.
        client.ok("UntagQueue", json!({"QueueUrl": "q.fifo", "TagKeys": ["none"]}));
        assert_eq!(
            client.counters("q.fifo"),
            [1, 0, 0],
            "back within the five minutes"
        );
        client.ok("SendMessage", send);
        assert_eq!(
            client.counters("q.fifo"),
            [1, 0, 0],
            "a second send is a duplicate"
        );
    });
}

#[test]
fn d18_a_group_is_received_in_order_by_one_consumer_at_a_time() {
    in_both_protocols(|client| {
        create_fifo(client, "q.fifo");
        for at in 0..5 {
            send_in(client, "q.fifo", "g", &format!("g{at}"));
        }
        send_in(client, "q.fifo", "h", "h0");
        let of_group = ["g0", "g1", "g2", "g3", "g4"];
        let timeout = json!({"VisibilityTimeout": 10, "MaxNumberOfMessages": 5});
        assert_eq!(client.bodies("q.fifo", timeout.clone()), of_group);
        // Three more consumers: the other group, and nothing.
        assert_eq!(client.bodies("q.fifo", timeout.clone()), ["h0"]);
        for _ in 0..2 {
            assert_eq!(client.bodies("q.fifo", timeout.clone()).len(), 0);
        }
        client.turn_to(10.0);
        let messages = client.receive("q.fifo", timeout.clone());
        let bodies: Vec<String> = messages.iter().map(|message| text(&message["Body"])).collect();
        assert_eq!(bodies, of_group, "the same order after the timeout");
        client.delete("q.fifo", &messages[2]);
        client.turn_to(20.0);
        let mut bodies = client.bodies("q.fifo", json!({}));
        // The other group's timeout has lapsed too; it may come first.
        bodies.retain(|body| body.starts_with('g'));
        assert_eq!(bodies, ["g0", "g1", "g3", "g4"]);
    });
}

#[test]
fn d19_a_receive_is_repeated_under_the_id_of_its_attempt() {
    in_both_protocols(|client| {
        create_fifo(client, "q.fifo");
        for body in ["1", "2", "3"] {
            send_in(client, "q.fifo", "g", body);
        }
        let attempt = |id: &str| json!({"MaxNumberOfMessages": 2, "VisibilityTimeout": 10, "ReceiveRequestAttemptId": id});
        let first = client.receive("q.fifo", attempt("x"));
        assert_eq!(first.len(), 2);
        client.turn_to(6.0);
        assert_eq!(
            client.receive("q.fifo", attempt("x")),
            first,
            "the same messages and handles"
        );
        assert_eq!(
            client.receive("q.fifo", attempt("y")).len(),
            0,
            "the group is in flight"
        );
        client.turn_to(12.0);
        assert_eq!(client.counters("q.fifo"), [1, 0, 2], "the timeout began anew");
        client.turn_to(16.0);
        let later = client.receive("q.fifo", attempt("x"));
        assert_eq!(later.len(), 2, "after the timeout it is a receive of its own");
        assert_ne!(later[0]["ReceiptHandle"], first[0]["ReceiptHandle"]);
        client.delete("q.fifo", &later[0]);
        let mut again = attempt("x");
        again["QueueUrl"] = json!("q.fifo");
        let (code, message) = client.refused("ReceiveMessage", again);
        assert_eq!(code, "InvalidParameterValue");
        assert_eq!(
            message,
            "Value x for parameter ReceiveRequestAttemptId is invalid. Reason: A message of this attempt was deleted \
             or its visibility changed, so it cannot be repeated."
        );
    });
}

#[test]
fn d19_an_attempt_is_refused_after_a_change_of_visibility_and_forgotten_after_five_minutes() {
    in_both_protocols(|client| {
        create_fifo(client, "q.fifo");
        send_in(client, "q.fifo", "g", "1");
        let attempt = json!({"QueueUrl": "q.fifo", "VisibilityTimeout": 600, "ReceiveRequestAttemptId": "x"});
        let first = client.receive("q.fifo", attempt.clone());
        change(client, "q.fifo", &first[0], 700);
        assert_eq!(
            client.refused("ReceiveMessage", attempt.clone()).0,
            "InvalidParameterValue"
        );
        client.turn_to(301.0);
        assert_eq!(client.receive("q.fifo", attempt).len(), 0, "a receive of its own");
        let wrong = json!({"QueueUrl": "q.fifo", "ReceiveRequestAttemptId": "not allowed"});
        assert_eq!(client.refused("ReceiveMessage", wrong).0, "InvalidParameterValue");
    });
}

#[test]
fn d19_a_standard_queue_ignores_the_id_of_an_attempt() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        send(client, "q", "1");
        send(client, "q", "2");
        for (id, body) in [("x", "1"), ("x", "2"), ("not allowed", "")] {
            let request = json!({"MaxNumberOfMessages": 1, "ReceiveRequestAttemptId": id});
            let bodies = client.bodies("q", request);
            assert_eq!(bodies.first().map_or("", String::as_str), body);
        }
    });
}

#[test]
fn d20_a_quiet_group_does_not_wait_behind_a_noisy_one() {
    in_both_protocols(|client| {
        create(client, "q", json!({}));
        for wrong in ["", "a b", &"x".repeat(129)] {
            let request = json!({"QueueUrl": "q", "MessageBody": "b", "MessageGroupId": wrong});
            assert_eq!(client.refused("SendMessage", request).0, "InvalidParameterValue");
        }
        let entries: Vec<Value> = (0..10)
            .map(|at| json!({"Id": at.to_string(), "MessageBody": "n", "MessageGroupId": "noisy"}))
            .collect();
        for _ in 0..1_000 {
            client.ok("SendMessageBatch", json!({"QueueUrl": "q", "Entries": entries}));
        }
        send_in(client, "q", &"x".repeat(128), "quiet");
        let receives_until_quiet = (1..=20).find(|_| {
            let request = json!({"MaxNumberOfMessages": 1, "AttributeNames": ["MessageGroupId"]});
            let message = client.receive("q", request).remove(0);
            assert!(message["Attributes"]["MessageGroupId"].is_string());
            message["Body"] == "quiet"
        });
        assert!(
            receives_until_quiet.is_some_and(|count| count <= 4),
            "{receives_until_quiet:?}"
        );
    });
}

#[test]
fn d21_max_receive_count_is_exact_and_the_dead_letter_keeps_what_it_had() {
    in_both_protocols(|client| {
        create(client, "dead", json!({}));
        let policy =
            r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":3}"#;
        create(client, "q", json!({"RedrivePolicy": policy}));
        let sent = client.ok(
            "SendMessage",
            json!({
                "QueueUrl": "q",
                "MessageBody": "poison",
                "MessageAttributes": {"color": {"DataType": "String", "StringValue": "red"}},
                "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}},
            }),
        );
        client.turn_to(1.0);
        let all =
            json!({"VisibilityTimeout": 0, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]});
        let deliveries: Vec<Value> = (0..3)
            .map(|_| client.receive("q", all.clone()).remove(0))
            .collect();
        client.turn_to(5.0);
        assert_eq!(
            client.receive("q", all.clone()).len(),
            0,
            "there is no fourth delivery"
        );
        let dead = client.receive("dead", all).remove(0);
        assert_eq!(dead["MessageId"], sent["MessageId"]);
        for member in ["Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"] {
            assert_eq!(dead[member], deliveries[0][member], "{member}");
        }
        let (before, after) = (&deliveries[2]["Attributes"], &dead["Attributes"]);
        for kept in [
            "SentTimestamp",
            "ApproximateFirstReceiveTimestamp",
            "SenderId",
            "AWSTraceHeader",
        ] {
            assert_eq!(after[kept], before[kept], "{kept}");
        }
        // The count goes on, and the receive that moved it is not counted.
        assert_eq!(
            (
                &before["ApproximateReceiveCount"],
                &after["ApproximateReceiveCount"]
            ),
            (&json!("3"), &json!("4"))
        );
        assert_eq!(
            after["DeadLetterQueueSourceArn"],
            "arn:aws:sqs:us-east-1:000000000000:q"
        );
        assert_eq!(before.get("DeadLetterQueueSourceArn"), None);
    });
}

#[test]
fn d22_retention_goes_on_in_the_dead_letter_queue_of_a_standard_queue_and_begins_anew_in_a_fifo_one() {
    in_both_protocols(|client| {
        for (suffix, fifo) in [("", json!({})), (".fifo", json!({"FifoQueue": "true"}))] {
            let with = |mut attributes: Value, others: Value| {
                for (name, value) in others.as_object().unwrap() {
                    attributes[name] = value.clone();
                }
                attributes
            };
            let retention = json!({"MessageRetentionPeriod": "60"});
            create(
                client,
                &format!("dead{suffix}"),
                with(fifo.clone(), retention.clone()),
            );
            let arn = format!("arn:aws:sqs:us-east-1:000000000000:dead{suffix}");
            let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 1}).to_string();
            let attributes = with(with(fifo, retention), json!({"RedrivePolicy": policy}));
            create(client, &format!("q{suffix}"), attributes);
            let mut send =
                json!({"QueueUrl": format!("q{suffix}"), "MessageBody": "b", "MessageGroupId": "g"});
            if !suffix.is_empty() {
                send["MessageDeduplicationId"] = json!("d");
            }
            client.ok("SendMessage", send);
        }
        client.turn_to(40.0);
        for queue in ["q", "q.fifo"] {
            client.receive(queue, json!({"VisibilityTimeout": 0}));
            assert_eq!(client.receive(queue, json!({})).len(), 0, "moved");
        }
        client.turn_to(59.0);
        assert_eq!(
            [client.counters("dead")[0], client.counters("dead.fifo")[0]],
            [1, 1]
        );
        client.turn_to(60.0);
        assert_eq!(
            [client.counters("dead")[0], client.counters("dead.fifo")[0]],
            [0, 1]
        );
        client.turn_to(99.0);
        assert_eq!(client.counters("dead.fifo")[0], 1);
        client.turn_to(100.0);
        assert_eq!(client.counters("dead.fifo")[0], 0);
        // A lower retention applies to what waits.
        create(client, "lowered", json!({}));
        send(client, "lowered", "b");
        client.turn_to(200.0);
        let lower = json!({"QueueUrl": "lowered", "Attributes": {"MessageRetentionPeriod": "60"}});
        client.ok("SetQueueAttributes", lower);
        assert_eq!(client.counters("lowered"), [0, 0, 0]);
    });
}
