//! The reference page of the actions, made from their table.

use std::fmt::Write;

use crate::Code;
use crate::actions::{Entry, NOT_SUPPORTED, TABLE};

/// The errors that every action can answer with.
const COMMON: [Code; 17] = [
    Code::IncompleteSignature,
    Code::InternalFailure,
    Code::InvalidAction,
    Code::InvalidClientTokenId,
    Code::InvalidParameterValue,
    Code::MalformedQueryString,
    Code::MethodNotAllowed,
    Code::MissingAction,
    Code::MissingAuthenticationToken,
    Code::MissingParameter,
    Code::RequestExpired,
    Code::RequestTimeout,
    Code::RequestTooLarge,
    Code::Serialization,
    Code::ServiceUnavailable,
    Code::SignatureDoesNotMatch,
    Code::UnsupportedOperation,
];

const HEAD: &str = "\
# Actions

<!-- Made from the table of actions; a test compares the two. UPDATE_REFERENCE=1 writes it anew. -->

Every action can be called in both protocols of SQS: AWS JSON 1.0, and Query (GET or POST, answered in XML, or in JSON
with `Accept: application/json`). An action about a queue can be called at `/` or at the queue's own URL; CreateQueue
and ListQueues at `/` only in Query. A queue is found by account and name; host, port and scheme of its URL do not
matter. A queue of another account gets the answer of a missing queue.

";

/// Returns the page as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for entry in &TABLE {
        write_action(&mut page, entry);
    }
    page.push_str("## Not in this version\n\n");
    page.push_str("These actions of SQS are known and answer `UnsupportedOperation`: ");
    page.push_str(&NOT_SUPPORTED.join(", "));
    page.push_str(".\n\n## Errors of every action\n\n");
    write_errors(&mut page, &COMMON);
    page.push_str(
        "\nA 503 can be tried again after the seconds in `Retry-After`. It is not always known then whether the \
         request was carried out: a send may be there twice, which deduplication on a FIFO queue prevents.\n",
    );
    page
}

fn write_action(page: &mut String, entry: &Entry) {
    let doc = &entry.doc;
    let mut line = |text: String| {
        page.push_str(&text);
        page.push('\n');
    };
    line(format!("## {}\n\n{}\n", entry.name, doc.summary));
    line("| Parameter | | Meaning |\n|---|---|---|".to_owned());
    for parameter in doc.parameters {
        let necessity = if parameter.is_required { "required" } else { "" };
        line(format!(
            "| `{}` | {necessity} | {} |",
            parameter.name, parameter.meaning
        ));
    }
    line(String::new());
    if !doc.errors.is_empty() {
        line("Errors of its own:\n".to_owned());
        write_errors(page, doc.errors);
        page.push('\n');
    }
    for note in doc.notes {
        page.push_str("- ");
        page.push_str(note);
        page.push('\n');
    }
    if !doc.notes.is_empty() {
        page.push('\n');
    }
}

fn write_errors(page: &mut String, errors: &[Code]) {
    page.push_str("| Status | Query code | JSON type |\n|---|---|---|\n");
    for code in errors {
        let wire = code.wire();
        let json_name = wire
            .json_type
            .split_once('#')
            .map_or(wire.json_type, |(_, name)| name);
        writeln!(page, "| {} | `{}` | `{json_name}` |", wire.status, wire.query)
            .expect("a String takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/actions.md");
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == reference(),
            "docs/reference/actions.md is out of date; run with UPDATE_REFERENCE=1"
        );
    }
}
