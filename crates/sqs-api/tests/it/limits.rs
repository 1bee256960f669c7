//! Sizes and numbers at their bounds, where a case file would be unreadable.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::answer::{self, Outcome};
use crate::flat;
use crate::world::{self, World};

const MEBIBYTE: usize = 1_048_576;

/// Calls an action in both protocols and returns the one outcome.
fn call(world: &World, action: &str, request: &Value) -> Outcome {
    let json = answer::of_json(&world.json(action, request.to_string()));
    let query = answer::of_xml(action, &world.form("/", flat::form(action, request)));
    let without_ids = |outcome: &Outcome| {
        let mut outcome = outcome.clone();
        if let Outcome::Answer(value) = &mut outcome {
            let sent = value["Successful"]
                .as_array_mut()
                .map_or(Vec::new(), |list| list.iter_mut().collect());
            for item in sent {
                item["MessageId"] = Value::Null;
            }
            if value.get("MessageId").is_some() {
                value["MessageId"] = Value::Null;
            }
        }
        outcome
    };
    assert_eq!(without_ids(&json), without_ids(&query), "{action}");
    json
}

fn message_of(outcome: Outcome) -> String {
    match outcome {
        Outcome::Error { code, message, .. } => format!("{code} {message}"),
        Outcome::Answer(value) => panic!("answered {value}"),
    }
}

// Facts 77 and 78.
#[test]
fn d09_a_message_may_have_exactly_as_many_bytes_as_its_queue_allows() {
    let world = World::new();
    for (queue, max) in [("small", 1024), ("large", MEBIBYTE)] {
        call(
            &world,
            "CreateQueue",
            &json!({"QueueName": queue, "Attributes": {"MaximumMessageSize": max.to_string()}}),
        );
        // Two bytes a character, and eight for the attribute.
        let message = |length: usize| {
            json!({
                "QueueUrl": queue,
                "MessageBody": format!("{}{}", "é".repeat((length - 8) / 2), "x".repeat(length % 2)),
                "MessageAttributes": {"a": {"DataType": "String", "StringValue": "v"}},
            })
        };
        assert!(matches!(
            call(&world, "SendMessage", &message(max)),
            Outcome::Answer(_)
        ));
        assert_eq!(
            message_of(call(&world, "SendMessage", &message(max + 1))),
            format!(
                "InvalidParameterValue One or more parameters are invalid. Reason: Message must be shorter than {max} bytes."
            )
        );
    }
}

// Facts 132 and 133.
#[test]
fn a_batch_may_have_one_mebibyte_in_all() {
    let world = World::new();
    call(
        &world,
        "CreateQueue",
        &json!({"QueueName": "q", "Attributes": {"MaximumMessageSize": "1024"}}),
    );
    call(&world, "CreateQueue", &json!({"QueueName": "large"}));
    let batch = |queue: &str, length: usize| {
        json!({"QueueUrl": queue, "Entries": [
            {"Id": "a", "MessageBody": "x".repeat(length / 2)},
            {"Id": "b", "MessageBody": "x".repeat(length - length / 2 - 8),
             "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "eA=="}}},
        ]})
    };
    let Outcome::Answer(answer) = call(&world, "SendMessageBatch", &batch("large", MEBIBYTE)) else {
        panic!("refused");
    };
    assert_eq!(answer["Successful"].as_array().unwrap().len(), 2);
    for queue in ["large", "q"] {
        assert_eq!(
            message_of(call(&world, "SendMessageBatch", &batch(queue, MEBIBYTE + 1))),
            "AWS.SimpleQueueService.BatchRequestTooLong Batch requests cannot be longer than 1048576 bytes. You have \
             sent 1048577 bytes."
        );
    }
    // The queue's own limit is for each entry, and fails it alone.
    let mixed = json!({"QueueUrl": "q", "Entries": [
        {"Id": "a", "MessageBody": "x".repeat(1024)},
        {"Id": "b", "MessageBody": "x".repeat(1025)},
    ]});
    let Outcome::Answer(answer) = call(&world, "SendMessageBatch", &mixed) else {
        panic!("refused");
    };
    assert_eq!(answer["Successful"][0]["Id"], "a");
    assert_eq!(
        answer["Failed"],
        json!([{
            "Id": "b",
            "Code": "InvalidParameterValue",
            "Message": "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
            "SenderFault": true,
        }])
    );
}

#[test]
fn a_full_batch_of_full_messages_is_read_from_a_form() {
    let world = World::new();
    call(&world, "CreateQueue", &json!({"QueueName": "q"}));
    let attributes: Value = (0..10)
        .map(|at| {
            (
                format!("n{at}"),
                json!({"DataType": "String.label", "StringValue": "v"}),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let entries: Vec<Value> = (0..10)
        .map(|at| json!({"Id": at.to_string(), "MessageBody": "b", "MessageAttributes": attributes, "DelaySeconds": 0}))
        .collect();
    let Outcome::Answer(answer) = call(
        &world,
        "SendMessageBatch",
        &json!({"QueueUrl": "q", "Entries": entries}),
    ) else {
        panic!("refused");
    };
    assert_eq!(answer["Successful"].as_array().unwrap().len(), 10);
}

fn names_on(answer: &Value) -> Vec<String> {
    let urls = answer["QueueUrls"].as_array().into_iter().flatten();
    urls.map(|url| url.as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect()
}

// Fact 70.
#[test]
fn d02_a_listing_of_more_than_a_thousand_queues_is_walked_page_by_page() {
    let world = World::new();
    let create = |name: &str| world.json("CreateQueue", json!({"QueueName": name}).to_string());
    let expected: BTreeSet<String> = (0..1_050).map(|at| format!("q-{at:04}")).collect();
    for name in &expected {
        assert_eq!(create(name).status, 200);
    }
    let list = |request: Value| -> Value {
        serde_json::from_str(&world.json("ListQueues", request.to_string()).body).unwrap()
    };
    let whole = list(json!({}));
    assert_eq!(names_on(&whole).len(), 1_000);
    assert_eq!(whole.get("NextToken"), None);

    let mut walked = Vec::new();
    let mut token = Value::Null;
    for page in 0..=11 {
        let answer = list(json!({"QueueNamePrefix": "q-", "MaxResults": 100, "NextToken": token}));
        walked.extend(names_on(&answer));
        if page == 3 {
            // Before the place of the walk, and so not seen by it.
            create("q-0000-late");
        }
        let Some(next) = answer.get("NextToken") else {
            break;
        };
        token = next.clone();
    }
    assert_eq!(walked.len(), 1_050, "no name twice");
    assert_eq!(walked.into_iter().collect::<BTreeSet<_>>(), expected);

    let exact = list(json!({"QueueNamePrefix": "q-004", "MaxResults": 10}));
    assert_eq!(names_on(&exact).len(), 10);
    assert_eq!(exact.get("NextToken"), None, "an exact fit has no further page");
}

#[test]
fn d01_parallel_creates_all_succeed() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let codes = runtime.block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..250 {
            let api = world.api.clone();
            let name = if at % 5 == 0 {
                "same".to_owned()
            } else {
                format!("other-{at}")
            };
            calls.spawn(async move {
                let request = http::Request::post("/")
                    .header("x-amz-target", "AmazonSQS.CreateQueue")
                    .body(
                        json!({"QueueName": name, "Attributes": {"DelaySeconds": "3"}})
                            .to_string()
                            .into(),
                    )
                    .unwrap();
                world::call(&api, request).await.code
            });
        }
        calls.join_all().await
    });
    assert!(codes.iter().all(|code| *code == "ok"), "{codes:?}");
    let listed: Value = serde_json::from_str(&world.json("ListQueues", "{}").body).unwrap();
    assert_eq!(names_on(&listed).len(), 201);
}
