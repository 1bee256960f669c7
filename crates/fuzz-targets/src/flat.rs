//! A request as the parameters of a form, written from what the service's model says and not from our reader.

use serde_json::{Map, Value};

/// Most parameters that a form may have.
const PARAMETERS_MAX: usize = 2_000;
const TEXTS: [&str; 18] = [
    "BinaryValue",
    "DataType",
    "DestinationArn",
    "Id",
    "Label",
    "MessageBody",
    "MessageDeduplicationId",
    "MessageGroupId",
    "NextToken",
    "QueueName",
    "QueueNamePrefix",
    "QueueOwnerAWSAccountId",
    "QueueUrl",
    "ReceiptHandle",
    "ReceiveRequestAttemptId",
    "SourceArn",
    "StringValue",
    "TaskHandle",
];
const NUMBERS: [&str; 6] = [
    "DelaySeconds",
    "MaxNumberOfMessages",
    "MaxNumberOfMessagesPerSecond",
    "MaxResults",
    "VisibilityTimeout",
    "WaitTimeSeconds",
];
/// Members of structures, each with the name that an element has in a form.
const LISTS: [(&str, &str); 6] = [
    ("AWSAccountIds", "AWSAccountId"),
    ("Actions", "ActionName"),
    ("AttributeNames", "AttributeName"),
    ("MessageAttributeNames", "MessageAttributeName"),
    ("MessageSystemAttributeNames", "MessageSystemAttributeName"),
    ("TagKeys", "TagKey"),
];
/// Members of structures, each with the name that an entry has in a form, and the name of an entry's key.
const MAPS: [(&str, &str, &str); 3] = [
    ("Attributes", "Attribute", "Name"),
    ("Tags", "Tags", "Key"),
    ("tags", "Tag", "Key"),
];
const ATTRIBUTE_MAPS: [(&str, &str, &str); 2] = [
    ("MessageAttributes", "MessageAttribute", "Name"),
    ("MessageSystemAttributes", "MessageSystemAttribute", "Name"),
];
const ENTRIES: &str = "Entries";

/// Writes parameters.
pub(crate) fn write(pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(pairs);
    form.finish()
}

/// Returns what of a structure both protocols can say: members of known names, without empty lists, empty maps and
/// nulls, for which a form has no word.
pub(crate) fn sayable(value: Value) -> Option<Value> {
    let Value::Object(mut members) = value else {
        return None;
    };
    // Two names of one member, of which a request may use either.
    if members.contains_key("tags") {
        members.remove("Tags");
    }
    let members: Map<String, Value> = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.clone(), sayable_member(&name, value)?)))
        .collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

fn sayable_member(name: &str, value: Value) -> Option<Value> {
    let is_attributes = ATTRIBUTE_MAPS.iter().any(|(member, ..)| *member == name);
    match value {
        Value::String(_) => TEXTS.contains(&name).then_some(value),
        Value::Number(_) => NUMBERS.contains(&name).then_some(value),
        Value::Array(items) if name == ENTRIES => {
            let items: Vec<Value> = items.into_iter().filter_map(sayable).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Array(ref items) => {
            let is_list = LISTS.iter().any(|(member, _)| *member == name);
            (is_list && !items.is_empty() && items.iter().all(Value::is_string)).then_some(value)
        }
        Value::Object(entries) if is_attributes => {
            let entries: Map<String, Value> = entries
                .into_iter()
                .filter_map(|(key, value)| Some((key, sayable(value)?)))
                .collect();
            (!entries.is_empty()).then_some(Value::Object(entries))
        }
        Value::Object(ref entries) => {
            let is_map = MAPS.iter().any(|(member, ..)| *member == name);
            (is_map && !entries.is_empty() && entries.values().all(Value::is_string)).then_some(value)
        }
        Value::Null | Value::Bool(_) => None,
    }
}

/// Returns the form of a structure that is [`sayable`], unless it is longer than a form may be.
pub(crate) fn form(action: &str, value: &Value) -> Option<String> {
    let mut pairs = Vec::new();
    add_members(&mut pairs, action, "", value);
    (pairs.len() <= PARAMETERS_MAX).then(|| write(pairs))
}

fn add_members(pairs: &mut Vec<(String, String)>, action: &str, place: &str, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        add_member(pairs, action, place, name, value);
    }
}

fn add_member(pairs: &mut Vec<(String, String)>, action: &str, place: &str, name: &str, value: &Value) {
    match value {
        Value::String(text) => pairs.push((format!("{place}{name}"), text.clone())),
        Value::Array(items) => {
            let list = LISTS.iter().find(|(member, _)| *member == name);
            let element = list.map_or_else(
                || format!("{action}RequestEntry"),
                |(_, element)| (*element).to_owned(),
            );
            for (item, number) in items.iter().zip(1..) {
                let place = format!("{place}{element}.{number}");
                match item.as_str() {
                    Some(text) => pairs.push((place, text.to_owned())),
                    None => add_members(pairs, action, &format!("{place}."), item),
                }
            }
        }
        Value::Object(entries) => {
            let map = MAPS
                .iter()
                .chain(&ATTRIBUTE_MAPS)
                .find(|(member, ..)| *member == name);
            let Some((_, element, key_name)) = map else {
                return;
            };
            for ((key, value), number) in entries.iter().zip(1..) {
                let place = format!("{place}{element}.{number}");
                pairs.push((format!("{place}.{key_name}"), key.clone()));
                match value.as_str() {
                    Some(text) => pairs.push((format!("{place}.Value"), text.to_owned())),
                    None => add_members(pairs, action, &format!("{place}.Value."), value),
                }
            }
        }
        Value::Number(number) => pairs.push((format!("{place}{name}"), number.to_string())),
        Value::Null | Value::Bool(_) => {}
    }
}
