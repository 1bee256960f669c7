//! The JSON that a Query client gets who asks for it by `Accept: application/json`.
//!
//! It is the XML's structure, not that of AWS JSON: a root named after the action, maps as lists of their entries,
//! and lists under the names of the service's model. Rare, so it goes by way of a value tree.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::members::{self, Shape};

/// Returns the text of an answer.
pub(super) fn result_text(action: &str, request_id: &str, answer: &impl Serialize) -> Vec<u8> {
    let answer = serde_json::to_value(answer).expect("answers are made of what JSON can hold");
    let mut root = Map::new();
    if !answer.is_null() {
        root.insert(format!("{action}Result"), reshape(answer));
    }
    root.insert("ResponseMetadata".to_owned(), json!({ "RequestId": request_id }));
    json!({ format!("{action}Response"): root })
        .to_string()
        .into_bytes()
}

/// Returns the text of an error.
pub(super) fn error_text(fault: &str, code: &str, message: &str, request_id: &str) -> Vec<u8> {
    json!({
        "Error": { "Type": fault, "Code": code, "Message": message },
        "RequestId": request_id,
    })
    .to_string()
    .into_bytes()
}

fn reshape(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(members.into_iter().map(reshape_member).collect()),
        Value::Array(items) => Value::Array(items.into_iter().map(reshape).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn reshape_member((name, value): (String, Value)) -> (String, Value) {
    let map = match name.as_str() {
        "Attributes" => members::of_answer("Attributes").1,
        "MessageAttributes" => members::of_answer("MessageAttributes").1,
        "Tags" => members::of_answer("Tags").1,
        _ => Shape::One,
    };
    match (map, value) {
        (
            Shape::Map {
                key,
                value: value_name,
            },
            Value::Object(entries),
        ) => {
            let entries = entries
                .into_iter()
                .map(|(entry, value)| json!({ key: entry, value_name: reshape(value) }))
                .collect();
            (name, Value::Array(entries))
        }
        (_, value) => {
            let name = match name.as_str() {
                "Messages" => "messages".to_owned(),
                "QueueUrls" => "queueUrls".to_owned(),
                _ => name,
            };
            (name, reshape(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &Value, expected: &Value) {
        let text = result_text("A", "id", answer);
        assert_eq!(&serde_json::from_slice::<Value>(&text).unwrap(), expected);
    }

    #[test]
    fn the_structure_is_that_of_the_xml() {
        check(
            &Value::Null,
            &json!({"AResponse": {"ResponseMetadata": {"RequestId": "id"}}}),
        );
        check(
            &json!({"Attributes": {"a": "1"}}),
            &json!({"AResponse": {
                "AResult": {"Attributes": [{"Name": "a", "Value": "1"}]},
                "ResponseMetadata": {"RequestId": "id"},
            }}),
        );
        check(
            &json!({"Messages": [{"Body": "b", "MessageAttributes": {"n": {"DataType": "String"}}}]}),
            &json!({"AResponse": {
                "AResult": {"messages": [
                    {"Body": "b", "MessageAttributes": [{"Name": "n", "Value": {"DataType": "String"}}]},
                ]},
                "ResponseMetadata": {"RequestId": "id"},
            }}),
        );
    }
}
