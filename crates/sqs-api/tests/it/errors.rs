//! Every code that the API can answer with: each is provoked, in both protocols, and has the pair of names and the
//! status that clients know it by. The reference page lists them, so a code without a line here fails.

use std::collections::{BTreeMap, BTreeSet};

use auth::Mode;
use http::Request;
use serde_json::{Value, json};
use sqs_api::Refusal;

use crate::flat;
use crate::world::{Response, World, refuse};

const REFERENCE: &str = include_str!("../../../../docs/reference/actions.md");

/// Codes with what they look like: `status query json`.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    fn json(&mut self, answer: &Response) {
        let (query, fault) = answer
            .header("x-amzn-query-error")
            .unwrap()
            .split_once(';')
            .unwrap();
        // Fact 4.
        assert_eq!(fault, if answer.status < 500 { "Sender" } else { "Receiver" });
        let body = answer.value();
        let (_, json) = body["__type"].as_str().unwrap().split_once('#').unwrap();
        assert!(body["message"].is_string());
        assert!(answer.header("x-amzn-requestid").is_some());
        self.0.insert(format!("{} {query} {json}", answer.status));
    }

    fn query(&self, answer: &Response) {
        let code = format!("<Code>{}</Code>", answer.code);
        assert!(answer.body.contains(&code), "{}", answer.body);
        let known = format!("{} {} ", answer.status, answer.code);
        assert!(
            self.0.iter().any(|seen| seen.starts_with(&known)),
            "{known} is another one in JSON"
        );
    }

    /// Provokes an error by the same request in both protocols.
    fn both(&mut self, world: &World, action: &str, request: &Value) {
        self.json(&world.json(action, request.to_string()));
        self.query(&world.form("/", flat::form(action, request)));
    }
}

/// The codes on the reference page, in the same form.
fn listed() -> BTreeSet<String> {
    let rows = REFERENCE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let status: u16 = cells.next()?.parse().ok()?;
        let mut name = || Some(cells.next()?.trim_matches([' ', '|', '`']).to_owned());
        Some(format!("{status} {} {}", name()?, name()?))
    });
    rows.collect()
}

fn errors_of_queues(seen: &mut Seen) {
    let mut world = World::new();
    for queue in ["q", "other", "gone"] {
        world.json("CreateQueue", json!({"QueueName": queue}).to_string());
    }
    world.json("DeleteQueue", r#"{"QueueUrl":"gone"}"#);
    world.json("PurgeQueue", r#"{"QueueUrl":"q"}"#);
    let deny = r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}"#;
    world.json(
        "SetQueueAttributes",
        json!({"QueueUrl": "other", "Attributes": {"Policy": deny}}).to_string(),
    );
    let entry = |id: &str, body: &str| json!({"Id": id, "MessageBody": body});
    let long = "x".repeat(600_000);
    let many: Vec<Value> = (0..11).map(|at| entry(&at.to_string(), "b")).collect();
    let all = vec!["*"; 8];
    for (action, request) in [
        ("SendMessage", json!({"QueueUrl": "other", "MessageBody": "b"})),
        (
            "SendMessageBatch",
            json!({"QueueUrl": "q", "Entries": [entry("a", "1"), entry("a", "2")]}),
        ),
        (
            "SendMessageBatch",
            json!({"QueueUrl": "q", "Entries": [entry("a", &long), entry("b", &long)]}),
        ),
        ("SendMessageBatch", json!({"QueueUrl": "q"})),
        (
            "SendMessageBatch",
            json!({"QueueUrl": "q", "Entries": [entry("a b", "1")]}),
        ),
        ("SendMessageBatch", json!({"QueueUrl": "q", "Entries": many})),
        ("Nonsense", json!({})),
        (
            "CreateQueue",
            json!({"QueueName": "n", "Attributes": {"Nonsense": "1"}}),
        ),
        (
            "CreateQueue",
            json!({"QueueName": "n", "Attributes": {"DelaySeconds": "901"}}),
        ),
        ("CreateQueue", json!({"QueueName": "gone"})),
        (
            "CreateQueue",
            json!({"QueueName": "q", "Attributes": {"DelaySeconds": "1"}}),
        ),
        ("SendMessage", json!({"QueueUrl": "q", "MessageBody": "\u{ffff}"})),
        (
            "SendMessage",
            json!({"QueueUrl": "q", "MessageBody": "b", "DelaySeconds": 901}),
        ),
        ("SendMessage", json!({"QueueUrl": "q"})),
        ("SendMessage", json!({"QueueUrl": "absent", "MessageBody": "b"})),
        ("PurgeQueue", json!({"QueueUrl": "q"})),
        (
            "DeleteMessage",
            json!({"QueueUrl": "q", "ReceiptHandle": "nonsense"}),
        ),
        (
            "StartMessageMoveTask",
            json!({"SourceArn": "arn:aws:sqs:us-east-1:000000000000:absent"}),
        ),
        (
            "AddPermission",
            json!({"QueueUrl": "q", "Label": "l", "AWSAccountIds": ["111111111111"], "Actions": all}),
        ),
    ] {
        seen.both(&world, action, &request);
    }
    world.turn_to(std::time::Duration::from_secs(1));
}

fn errors_of_protocols(seen: &mut Seen) {
    let world = World::new();
    seen.json(&world.json("SendMessage", "{"));
    let malformed = world.form("/", "Action=ListQueues&a=1&a=2");
    assert_eq!((malformed.status, malformed.code), (400, "MalformedQueryString"));
    assert!(malformed.body.contains("<Code>MalformedQueryString</Code>"));
    seen.0
        .insert("400 MalformedQueryString MalformedQueryString".to_owned());
    let no_action = Request::post("/").header("content-type", "application/x-amz-json-1.0");
    seen.json(&world.call(no_action.body(b"{}".to_vec()).unwrap()));
    seen.query(&world.form("/", ""));
    // Another method than POST is answered as Query, whose code is that of JSON.
    let put = world.call(Request::put("/").body(Vec::new()).unwrap());
    assert_eq!((put.status, put.code), (405, "MethodNotAllowed"));
    seen.0.insert("405 MethodNotAllowed MethodNotAllowed".to_owned());

    let head = |is_json: bool| {
        let request = Request::post("/");
        let request = if is_json {
            request.header("x-amz-target", "AmazonSQS.SendMessage")
        } else {
            request
        };
        request.body(()).unwrap()
    };
    for kind in [
        Refusal::BodyTooLarge,
        Refusal::BodyIncomplete,
        Refusal::Overloaded,
        Refusal::Internal,
    ] {
        seen.json(&refuse(&head(true), kind));
        seen.query(&refuse(&head(false), kind));
    }
}

fn errors_of_signatures(seen: &mut Seen) {
    let world = World::with(Mode::Keys, None);
    let credential = |key: &str| {
        format!("Credential={key}/20231114/us-east-1/sqs/aws4_request, SignedHeaders=host;x-amz-date")
    };
    let zeros = "0".repeat(64);
    let signed = |key: &str| format!("AWS4-HMAC-SHA256 {}, Signature={zeros}", credential(key));
    for (authorization, date) in [
        (None, "20231114T221320Z"),
        (
            Some("AWS4-HMAC-SHA256 Credential=x".to_owned()),
            "20231114T221320Z",
        ),
        (Some(signed("NOBODY")), "20231114T221320Z"),
        (Some(signed("AKIDEXAMPLE")), "20231114T221320Z"),
        (Some(signed("AKIDEXAMPLE")), "20231114T001320Z"),
    ] {
        for is_json in [true, false] {
            let mut request = Request::post("/").header("x-amz-date", date);
            if let Some(authorization) = &authorization {
                request = request.header("authorization", authorization);
            }
            if is_json {
                request = request.header("content-type", "application/x-amz-json-1.0");
                seen.json(&world.call(request.body(b"{}".to_vec()).unwrap()));
            } else {
                request = request.header("content-type", "application/x-www-form-urlencoded");
                seen.query(&world.call(request.body(b"Action=ListQueues".to_vec()).unwrap()));
            }
        }
    }
}

// Facts 3, 4, 9 and 10; d05 asks for each error of the model.
#[test]
fn d05_every_code_is_provoked_and_every_one_is_in_the_reference() {
    let mut seen = Seen::default();
    errors_of_queues(&mut seen);
    errors_of_protocols(&mut seen);
    errors_of_signatures(&mut seen);
    assert_eq!(seen.0, listed());
}

// Facts 5, 6, 7, 8 and 9.
#[test]
fn the_pairs_of_names_are_the_recorded_ones() {
    let expected = BTreeMap::from([
        ("InvalidParameterValue", (400, "InvalidParameterValueException")),
        ("MissingParameter", (400, "MissingRequiredParameterException")),
        (
            "AWS.SimpleQueueService.NonExistentQueue",
            (400, "QueueDoesNotExist"),
        ),
        ("QueueAlreadyExists", (400, "QueueNameExists")),
        (
            "AWS.SimpleQueueService.PurgeQueueInProgress",
            (403, "PurgeQueueInProgress"),
        ),
        (
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            (400, "TooManyEntriesInBatchRequest"),
        ),
        (
            "AWS.SimpleQueueService.InvalidBatchEntryId",
            (400, "InvalidBatchEntryId"),
        ),
        (
            "AWS.SimpleQueueService.BatchRequestTooLong",
            (400, "BatchRequestTooLong"),
        ),
        ("InvalidAttributeName", (400, "InvalidAttributeName")),
        ("InvalidAttributeValue", (400, "InvalidAttributeValue")),
        ("ResourceNotFoundException", (404, "ResourceNotFoundException")),
        ("ReceiptHandleIsInvalid", (400, "ReceiptHandleIsInvalid")),
        ("InvalidMessageContents", (400, "InvalidMessageContents")),
        (
            "AWS.SimpleQueueService.EmptyBatchRequest",
            (400, "EmptyBatchRequest"),
        ),
        (
            "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            (400, "BatchEntryIdsNotDistinct"),
        ),
        (
            "AWS.SimpleQueueService.QueueDeletedRecently",
            (400, "QueueDeletedRecently"),
        ),
        ("AccessDenied", (403, "AccessDeniedException")),
        ("OverLimit", (403, "OverLimit")),
    ]);
    let listed = listed();
    for (query, (status, json)) in expected {
        let row = format!("{status} {query} {json}");
        assert!(listed.contains(&row), "{row}");
    }
}
