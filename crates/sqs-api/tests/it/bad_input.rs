//! Input that cannot be read: the right error in the protocol of the request, and nothing stored.

use proptest::prelude::*;

use crate::world::{Response, World};

fn with_queue() -> World {
    let world = World::new();
    assert_eq!(world.json("CreateQueue", r#"{"QueueName":"q"}"#).status, 200);
    world
}

fn assert_nothing_stored(world: &World) {
    let counters = world.json(
        "GetQueueAttributes",
        r#"{"QueueUrl":"q","AttributeNames":["All"]}"#,
    );
    assert!(
        counters.body.contains(r#""ApproximateNumberOfMessages":"0""#),
        "{}",
        counters.body
    );
}

#[test]
fn json_that_is_not_the_actions_is_a_serialization_error() {
    let world = with_queue();
    let wrong: [&[u8]; 14] = [
        b"{",
        b"[]",
        b"null",
        b"\"text\"",
        b"5",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":5}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":[\"b\"]}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"b\",\"DelaySeconds\":\"5\"}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"b\",\"DelaySeconds\":1.5}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"b\",\"DelaySeconds\":1e99}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"\\ud800\"}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"\xff\"}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"a\nb\"}",
        b"{\"QueueUrl\":\"q\",\"MessageBody\":\"b\"} trailing",
    ];
    for text in wrong {
        let answer = world.json("SendMessage", text);
        let shown = String::from_utf8_lossy(text);
        assert_eq!(
            (answer.status, answer.code),
            (400, "MalformedInput"),
            "{shown}: {}",
            answer.body
        );
        assert!(
            answer.body.contains("#SerializationException"),
            "{shown}: {}",
            answer.body
        );
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert_eq!(world.json("SendMessage", deep).code, "MalformedInput");
    assert_nothing_stored(&world);
}

#[test]
fn unknown_members_do_not_matter_and_null_is_absent() {
    let world = with_queue();
    let answer = world.json(
        "SendMessage",
        r#"{"QueueUrl":"q","MessageBody":"b","Other":{"a":[1,2]},"DelaySeconds":null,"MessageAttributes":null}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(world.json("ListQueues", "").status, 200);
}

#[test]
fn forms_that_cannot_be_read_are_named() {
    let world = with_queue();
    for (form, code, part) in [
        ("MessageBody=%FF", "MalformedQueryString", "not valid UTF-8"),
        (
            "MessageBody=a&MessageBody=b",
            "MalformedQueryString",
            "MessageBody is given twice",
        ),
        (
            "MessageBody=b&DelaySeconds=x",
            "InvalidParameterValue",
            "Value x for parameter DelaySeconds",
        ),
        (
            "MessageBody=b&DelaySeconds=",
            "InvalidParameterValue",
            "Value  for parameter DelaySeconds",
        ),
        ("MessageBody.x=b", "MissingParameter", "parameter MessageBody."),
        (
            "MessageBody=b&MessageAttribute.1.Name=a",
            "MissingParameter",
            "parameter MessageAttribute.1.Value.",
        ),
        (
            "MessageBody=b&MessageAttribute.1.Value.DataType=String",
            "MissingParameter",
            "parameter MessageAttribute.1.Name.",
        ),
        ("MessageBody=%00", "InvalidMessageContents", "Invalid characters"),
    ] {
        let answer = world.form("/", format!("Action=SendMessage&QueueUrl=q&{form}"));
        assert_eq!(
            (answer.status, answer.code),
            (400, code),
            "{form}: {}",
            answer.body
        );
        assert!(answer.body.contains(part), "{form}: {}", answer.body);
        assert!(answer.body.starts_with("<?xml"), "{form}: {}", answer.body);
    }
    let many = format!("Action=SendMessage&QueueUrl=q&{}", "a&".repeat(5_000));
    assert_eq!(world.form("/", many).code, "MalformedQueryString");
    assert_nothing_stored(&world);
}

#[test]
fn an_error_shows_what_xml_cannot_hold_as_something_it_can() {
    let world = with_queue();
    let answer = world.form(
        "/",
        "Action=SendMessage&QueueUrl=q&MessageBody=b&MessageGroupId=%00%3Cx%3E%0D",
    );
    assert_eq!(answer.code, "InvalidParameterValue");
    assert!(
        answer.body.contains("Value \u{fffd}&lt;x&gt;&#xD; for parameter"),
        "{}",
        answer.body
    );
}

fn assert_is_an_answer(answer: &Response) {
    assert!(
        matches!(answer.status, 200 | 400),
        "{} {}",
        answer.status,
        answer.body
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let world = with_queue();
        for action in ["SendMessage", "SendMessageBatch", "CreateQueue", "ReceiveMessage", "DeleteMessageBatch"] {
            assert_is_an_answer(&world.json(action, bytes.clone()));
            let mut form = format!("Action={action}&QueueUrl=q&").into_bytes();
            form.extend_from_slice(&bytes);
            assert_is_an_answer(&world.form("/", form));
        }
        assert_is_an_answer(&world.form("/", bytes));
    }
}
