//! The two protocols read the same request into the same value, whatever is in it, and no bytes make them panic.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Input, Parameters};
use crate::actions::Action;
use crate::actions::testing::{
    AddPermission, CancelMessageMoveTask, ChangeMessageVisibilityBatch, CreateQueue,
    ListDeadLetterSourceQueues, ListMessageMoveTasks, ListQueueTags, ReceiveMessage, RemovePermission,
    SendMessage, SendMessageBatch, StartMessageMoveTask, TagQueue, UntagQueue,
};

/// Writes the parameters of a request by its members' flat names.
struct Flat(Vec<(String, String)>);

impl Flat {
    fn of(action: &str, request: &Value) -> String {
        let mut flat = Self(Vec::new());
        for (name, value) in request.as_object().unwrap() {
            let name = if name == "Entries" {
                format!("{action}RequestEntry")
            } else {
                name.clone()
            };
            flat.add(&name, value);
        }
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(flat.0);
        form.finish()
    }

    fn add(&mut self, place: &str, value: &Value) {
        let list = match place {
            "Actions" => "ActionName",
            other => other.strip_suffix('s').unwrap_or(other),
        };
        match value {
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.add(&format!("{list}.{}", at + 1), item);
                }
            }
            Value::Object(entries) if place.ends_with('s') => {
                let (list, key) = if place.eq_ignore_ascii_case("tags") {
                    ("Tag", "Key")
                } else {
                    (list, "Name")
                };
                for (at, (name, value)) in entries.iter().enumerate() {
                    self.add(&format!("{list}.{}.{key}", at + 1), &json!(name));
                    self.add(&format!("{list}.{}.Value", at + 1), value);
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    self.add(&format!("{place}.{name}"), value);
                }
            }
            Value::String(text) => self.0.push((place.to_owned(), text.clone())),
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => self.0.push((place.to_owned(), value.to_string())),
        }
    }
}

fn check_equal<A: Action>(request: &Value)
where
    for<'a> A::Request<'a>: PartialEq + std::fmt::Debug,
{
    let text = request.to_string();
    let form = Flat::of(A::NAME, request);
    let json = Input::Json(text.as_bytes());
    let query = Input::Query(Parameters::read(None, form.as_bytes()).unwrap());
    let from_json = json.decode::<A::Request<'_>>().unwrap();
    let from_query = query.decode::<A::Request<'_>>().unwrap();
    assert!(from_json == from_query, "{request}\n{form}");
}

/// Any text, empty and strange ones among them.
fn text() -> impl Strategy<Value = Value> {
    prop_oneof![any::<String>(), "[a-z=&%+. ]{0,12}", Just(String::new())].prop_map(Value::from)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z.]{0,10}", any::<String>()]
}

fn number() -> impl Strategy<Value = Value> {
    any::<i64>().prop_map(Value::from)
}

/// A list or map that is absent where it would be empty: a form cannot say that there is an empty one.
fn some_list(item: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(item, 1..12).prop_map(Value::from)
}

fn some_map(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value, 1..12)
        .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into())
}

fn structure(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(name, value)| prop::option::of(value.prop_map(move |value| (name, value))))
        .collect();
    members.prop_map(|members| {
        let members = members.into_iter().flatten();
        members
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn attribute() -> impl Strategy<Value = Value> {
    // At least one member: a form has no word for an attribute without any.
    (text(), prop::option::of(text()), prop::option::of(text())).prop_map(|(data_type, string, binary)| {
        let mut value = json!({ "DataType": data_type });
        for (name, member) in [("StringValue", string), ("BinaryValue", binary)] {
            if let Some(member) = member {
                value[name] = member;
            }
        }
        value
    })
}

fn message(mut others: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    others.extend([
        ("MessageBody", text().boxed()),
        ("DelaySeconds", number().boxed()),
        ("MessageAttributes", some_map(attribute()).boxed()),
        ("MessageSystemAttributes", some_map(attribute()).boxed()),
        ("MessageGroupId", text().boxed()),
        ("MessageDeduplicationId", text().boxed()),
    ]);
    structure(others)
}

/// An entry of a batch; its id is always there, since a form cannot say that there is an empty entry.
fn entries(entry: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    some_list((text(), entry).prop_map(|(id, mut entry)| {
        entry["Id"] = id;
        entry
    }))
}

proptest! {
    #[test]
    fn sends_read_alike(request in message(vec![("QueueUrl", text().boxed())])) {
        check_equal::<SendMessage>(&request);
    }

    #[test]
    fn batches_read_alike(entries in entries(message(Vec::new()))) {
        check_equal::<SendMessageBatch>(&json!({ "QueueUrl": "q", "Entries": entries }));
    }

    #[test]
    fn visibility_batches_read_alike(entries in entries(structure(vec![
        ("ReceiptHandle", text().boxed()),
        ("VisibilityTimeout", number().boxed()),
    ]))) {
        check_equal::<ChangeMessageVisibilityBatch>(&json!({ "Entries": entries }));
    }

    #[test]
    fn creates_read_alike(request in structure(vec![
        ("QueueName", text().boxed()),
        ("Attributes", some_map(text()).boxed()),
        ("tags", some_map(text()).boxed()),
    ])) {
        check_equal::<CreateQueue>(&request);
    }

    #[test]
    fn receives_read_alike(request in structure(vec![
        ("QueueUrl", text().boxed()),
        ("MaxNumberOfMessages", number().boxed()),
        ("VisibilityTimeout", number().boxed()),
        ("WaitTimeSeconds", number().boxed()),
        ("AttributeNames", some_list(text()).boxed()),
        ("MessageSystemAttributeNames", some_list(text()).boxed()),
        ("MessageAttributeNames", some_list(text()).boxed()),
        ("ReceiveRequestAttemptId", text().boxed()),
    ])) {
        check_equal::<ReceiveMessage>(&request);
    }

    #[test]
    fn requests_about_tags_read_alike(
        (queue, tags, keys) in (text(), some_map(text()), some_list(text()))
    ) {
        check_equal::<TagQueue>(&json!({ "QueueUrl": queue, "Tags": tags }));
        check_equal::<UntagQueue>(&json!({ "QueueUrl": queue, "TagKeys": keys }));
        check_equal::<ListQueueTags>(&json!({ "QueueUrl": queue }));
    }

    #[test]
    fn requests_about_permissions_read_alike(request in structure(vec![
        ("QueueUrl", text().boxed()),
        ("Label", text().boxed()),
        ("AWSAccountIds", some_list(text()).boxed()),
        ("Actions", some_list(text()).boxed()),
    ])) {
        check_equal::<AddPermission>(&request);
        check_equal::<RemovePermission>(&request);
    }

    #[test]
    fn requests_about_dead_letters_read_alike(request in structure(vec![
        ("QueueUrl", text().boxed()),
        ("NextToken", text().boxed()),
        ("SourceArn", text().boxed()),
        ("DestinationArn", text().boxed()),
        ("MaxNumberOfMessagesPerSecond", number().boxed()),
        ("TaskHandle", text().boxed()),
        ("MaxResults", number().boxed()),
    ])) {
        check_equal::<ListDeadLetterSourceQueues>(&request);
        check_equal::<StartMessageMoveTask>(&request);
        check_equal::<ListMessageMoveTasks>(&request);
        check_equal::<CancelMessageMoveTask>(&request);
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_all(&bytes);
    }

    #[test]
    fn no_parameters_make_a_decoder_panic(
        form in "((Action|Attribute|MessageAttribute|SendMessageBatchRequestEntry|Tag|TagKey|ActionName|AWSAccountId)(\\.[0-9]{0,3}|\\.Name|\\.Value|\\.Key){0,5}=?[a-z0-9%]{0,3}&){0,12}"
    ) {
        decode_all(form.as_bytes());
    }
}

/// Reads bytes as everything that they could be. Errors are fine.
fn decode_all(bytes: &[u8]) {
    fn decode<'a, T: Deserialize<'a>>(input: &'a Input<'a>) {
        drop(input.decode::<T>());
    }
    let json = Input::Json(bytes);
    let query = Input::Query(Parameters::read(None, bytes).unwrap_or_default());
    for input in [&json, &query] {
        decode::<<SendMessage as Action>::Request<'_>>(input);
        decode::<<SendMessageBatch as Action>::Request<'_>>(input);
        decode::<<CreateQueue as Action>::Request<'_>>(input);
        decode::<<ReceiveMessage as Action>::Request<'_>>(input);
        decode::<<AddPermission as Action>::Request<'_>>(input);
        decode::<<TagQueue as Action>::Request<'_>>(input);
        decode::<<UntagQueue as Action>::Request<'_>>(input);
        decode::<<StartMessageMoveTask as Action>::Request<'_>>(input);
        decode::<<CancelMessageMoveTask as Action>::Request<'_>>(input);
    }
}
