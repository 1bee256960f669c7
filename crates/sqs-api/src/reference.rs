//! The reference page of the actions, made from their table.

use std::fmt::Write;

use crate::actions::{Entry, TABLE};
use crate::{Access, Code};

/// The errors that every action can answer with.
const COMMON: [Code; 16] = [
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
];

const HEAD: &str = "\
# Actions

<!-- Made from the table of actions; a test compares the two. UPDATE_REFERENCE=1 writes it anew. -->

Every action can be called in both protocols of SQS: AWS JSON 1.0, and Query (GET or POST, answered in XML, or in JSON
with `Accept: application/json`). An action about a queue can be called at `/` or at the queue's own URL; CreateQueue
and ListQueues at `/` only in Query. A queue is found by account and name; host, port and scheme of its URL do not
matter. A queue of another account gets the answer of a missing queue, unless its policy allows the action.

";

const ACCESS: &str = "\
## Access

A queue's `Policy` says which other accounts may use it, and can deny actions to its owner too. Effect, Principal,
Action, Resource and their `Not` forms are evaluated, with `*` and `?`; an explicit Deny wins over every Allow. A
statement with a Condition, or about a single user or role, never allows and always denies: accounts are all that is
known here. A text that is no policy is stored and allows nothing.

- An action is asked for under the name in its own section; batch actions under that of the single one.
- An account that a policy does not allow gets the answer of a missing queue, so that nobody learns which queues others
  have. An owner whom the policy denies an action gets AccessDenied.
- All other actions are the owner's alone. No policy can give them away, and none can lock the owner out of them:
  whoever denies everything to everybody can still change the policy or delete the queue.
- A receipt handle is good for every account that may use it on the queue it is from.

";

/// Where this server answers otherwise than AWS on purpose, with the reason.
const DIFFERENCES: [&str; 12] = [
    "Counters are exact and say how it is now. Those of AWS are approximate and up to a minute late.",
    "A queue that was deleted is gone at once, and a purge has happened when its answer comes. AWS takes up to 60 \
     seconds for each.",
    "A queue of another account, and a missing permission for it, are `NonExistentQueue`. AWS says AccessDenied, which \
     tells a stranger that the queue exists.",
    "ListDeadLetterSourceQueues is the owner's alone; a policy can give it to others on AWS. What another account may \
     use, it may use without knowing which queues stand behind it.",
    "Conditions, users and roles in policies never allow and always deny, since there is no IAM to ask.",
    "`KmsMasterKeyId`, `KmsDataKeyReusePeriodSeconds` and `SqsManagedSseEnabled` are stored and shown; they encrypt \
     nothing. Encrypt the disk.",
    "There is no quota on requests: `FifoThroughputLimit` is shown and limits nothing.",
    "`SenderId` is the id of the access key; AWS has the id of an IAM user or role there.",
    "A message move task without a rate moves as fast as it can; AWS chooses a rate.",
    "A server answers for one region, its own. With `--dev` it takes ARNs of any region as its own.",
    "A queue with the name of one that was deleted less than 60 seconds ago, and a second purge within 60 seconds, are \
     refused as on AWS, unless the limits are relaxed as in `--dev`.",
    "What ran against the real libraries is in the compatibility tests. For Laravel, Symfony, Spring and MassTransit \
     the requests that they send are tested, not the libraries: their runtimes are not at hand. The provider of \
     Terraform is not tested either.",
];

/// How many actions SQS has.
const ACTIONS_OF_SQS: usize = 23;

/// Returns the page as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    writeln!(
        page,
        "Supported are {} of the {ACTIONS_OF_SQS} actions of SQS.\n",
        TABLE.len()
    )
    .expect("a String takes everything");
    for entry in &TABLE {
        write_action(&mut page, entry);
    }
    page.push_str(ACCESS);
    page.push_str("## Known differences from AWS\n\n");
    for difference in DIFFERENCES {
        writeln!(page, "- {difference}").expect("a String takes everything");
    }
    page.push_str("\n## Errors of every action\n\n");
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
    line(match entry.access {
        Access::Owner => "Access: the owner alone.\n".to_owned(),
        Access::OwnerOrAllowed(action) => {
            format!("Access: the owner, and others whom the queue's policy allows `sqs:{action}`.\n")
        }
        Access::Policy(action) => format!(
            "Access: the owner, unless the queue's policy denies `sqs:{action}`, and others whom it allows it.\n"
        ),
    });
    let mut errors = doc.errors.to_vec();
    errors.extend(matches!(entry.access, Access::Policy(_)).then_some(Code::AccessDenied));
    if !errors.is_empty() {
        line("Errors of its own:\n".to_owned());
        write_errors(page, &errors);
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
