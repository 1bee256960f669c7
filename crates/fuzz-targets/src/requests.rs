//! Bodies of requests: no bytes panic, and the JSON and the Query form of one request are the same request, as are two
//! spellings of one form.
//!
//! An input is the name of an action, a line end, and the body; without the name every action reads the body.

use serde_json::Value;
use sqs_api::{ACTIONS, fuzzing};

use crate::flat;

/// Checks the reading of JSON bodies.
pub fn json_body(input: &[u8]) {
    let (actions, body) = parts(input);
    for action in actions {
        // Whether it is refused does not matter, only that it is an answer.
        let _is_read = fuzzing::read_json(action, body).is_ok();
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            check_forms(action, value);
        }
    }
}

/// Checks the reading of forms.
pub fn query_form(input: &[u8]) {
    let (actions, form) = parts(input);
    for action in actions {
        let is_read = fuzzing::read_form(action, form).is_ok();
        let pairs: Vec<_> = form_urlencoded::parse(form).collect();
        // Lossless text alone: what is no UTF-8 is refused, and must not become something else.
        if pairs
            .iter()
            .any(|(name, value)| format!("{name}{value}").contains('\u{fffd}'))
        {
            continue;
        }
        let rewritten = flat::write(pairs);
        let alike = fuzzing::forms_alike(action, form, rewritten.as_bytes());
        assert!(
            alike.unwrap_or(!is_read),
            "{action} reads {rewritten} differently"
        );
    }
}

/// A request that JSON can say and a form can say, too, is read alike.
fn check_forms(action: &str, value: Value) {
    let Some(value) = flat::sayable(value) else {
        return;
    };
    let body = value.to_string();
    if fuzzing::read_json(action, body.as_bytes()).is_err() {
        return;
    }
    let Some(form) = flat::form(action, &value) else {
        return;
    };
    let alike = fuzzing::read_alike(action, body.as_bytes(), form.as_bytes());
    assert_eq!(alike, Ok(true), "{action}: {body} and {form}");
}

fn parts(input: &[u8]) -> (&'static [&'static str], &[u8]) {
    let named = input.iter().position(|byte| *byte == b'\n').and_then(|end| {
        let at = ACTIONS
            .iter()
            .position(|action| action.as_bytes() == &input[..end])?;
        Some((&ACTIONS[at..=at], &input[end + 1..]))
    });
    named.unwrap_or((&ACTIONS, input))
}
