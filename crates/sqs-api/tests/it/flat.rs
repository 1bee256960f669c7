//! From the JSON of a request to the flat parameters of the same request, written without the API's own tables.

use serde_json::Value;

/// Returns the form of a request. Facts 18 and 20: without a Version, and with the names of the older model.
pub(crate) fn form(action: &str, request: &Value) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Action", action);
    for (name, value) in request.as_object().expect("a request is an object") {
        let name = match name.as_str() {
            "Entries" => format!("{action}RequestEntry"),
            // CreateQueue reads this spelling too, and so it is left as it is there.
            "Tags" if action == "TagQueue" => "tags".to_owned(),
            other => other.to_owned(),
        };
        append(&mut form, "", &name, value);
    }
    form.finish()
}

fn append(form: &mut form_urlencoded::Serializer<'_, String>, prefix: &str, name: &str, value: &Value) {
    let (key, value_name) = if name.eq_ignore_ascii_case("tags") {
        ("Key", "Value")
    } else {
        ("Name", "Value")
    };
    let singular = match name {
        "tags" => "Tag",
        "Actions" => "ActionName",
        "AWSAccountIds"
        | "TagKeys"
        | "AttributeNames"
        | "Attributes"
        | "MessageAttributeNames"
        | "MessageAttributes"
        | "MessageSystemAttributeNames"
        | "MessageSystemAttributes" => &name[..name.len() - 1],
        other => other,
    };
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => {
            form.append_pair(&format!("{prefix}{name}"), &value.to_string());
        }
        Value::String(text) => {
            form.append_pair(&format!("{prefix}{name}"), text);
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let place = format!("{singular}.{}", at + 1);
                append_item(form, prefix, &place, item);
            }
        }
        Value::Object(entries) => {
            for (at, (entry, value)) in entries.iter().enumerate() {
                let place = format!("{prefix}{singular}.{}.", at + 1);
                form.append_pair(&format!("{place}{key}"), entry);
                append_item(form, &place, value_name, value);
            }
        }
    }
}

/// Appends one entry of a list or map: a plain value, or the members of a structure.
fn append_item(form: &mut form_urlencoded::Serializer<'_, String>, prefix: &str, name: &str, item: &Value) {
    let Some(members) = item.as_object() else {
        return append(form, prefix, name, item);
    };
    for (member, value) in members {
        append(form, &format!("{prefix}{name}."), member, value);
    }
}
