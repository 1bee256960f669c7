//! The decoders of this crate, for fuzz targets: what they read and whether two readings agree, nothing of the types.
//!
//! Behind the feature `fuzzing`, and no part of the API: it changes whenever the decoders do. Nothing here carries a
//! request out, and nothing checks it further than its types do.

use queue_core::RedrivePolicy;
use types::{QueueKey, Region};

use crate::ApiOptions;
use crate::actions::{Action, testing as a};
use crate::redrive;
use crate::wire::{Input, Parameters};

/// How the request of one action is read.
struct Reader {
    action: &'static str,
    read: fn(&Input<'_>) -> Result<(), String>,
    read_both: fn(&Input<'_>, &Input<'_>) -> Result<bool, String>,
}

impl Reader {
    const fn of<A: Action>() -> Self
    where
        for<'a> A::Request<'a>: PartialEq,
    {
        Self {
            action: A::NAME,
            read: |input| match input.decode::<A::Request<'_>>() {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
            read_both: |one, other| {
                let one = one.decode::<A::Request<'_>>();
                let other = other.decode::<A::Request<'_>>();
                let (one, other) = (one.map_err(|e| e.to_string())?, other.map_err(|e| e.to_string())?);
                Ok(one == other)
            },
        }
    }
}

static READERS: [Reader; 23] = [
    Reader::of::<a::AddPermission>(),
    Reader::of::<a::CancelMessageMoveTask>(),
    Reader::of::<a::ChangeMessageVisibility>(),
    Reader::of::<a::ChangeMessageVisibilityBatch>(),
    Reader::of::<a::CreateQueue>(),
    Reader::of::<a::DeleteMessage>(),
    Reader::of::<a::DeleteMessageBatch>(),
    Reader::of::<a::DeleteQueue>(),
    Reader::of::<a::GetQueueAttributes>(),
    Reader::of::<a::GetQueueUrl>(),
    Reader::of::<a::ListDeadLetterSourceQueues>(),
    Reader::of::<a::ListMessageMoveTasks>(),
    Reader::of::<a::ListQueueTags>(),
    Reader::of::<a::ListQueues>(),
    Reader::of::<a::PurgeQueue>(),
    Reader::of::<a::ReceiveMessage>(),
    Reader::of::<a::RemovePermission>(),
    Reader::of::<a::SendMessage>(),
    Reader::of::<a::SendMessageBatch>(),
    Reader::of::<a::SetQueueAttributes>(),
    Reader::of::<a::StartMessageMoveTask>(),
    Reader::of::<a::TagQueue>(),
    Reader::of::<a::UntagQueue>(),
];

fn reader(action: &str) -> Result<&'static Reader, String> {
    let reader = READERS.iter().find(|reader| reader.action == action);
    reader.ok_or_else(|| format!("there is no action {action}"))
}

/// Reads a JSON body as the request of an action, or says why it is refused.
pub fn read_json(action: &str, body: &[u8]) -> Result<(), String> {
    (reader(action)?.read)(&Input::Json(body))
}

/// Reads a form as the request of an action, or says why it is refused.
pub fn read_form(action: &str, form: &[u8]) -> Result<(), String> {
    let parameters = Parameters::read(None, form).map_err(|error| error.to_string())?;
    (reader(action)?.read)(&Input::Query(parameters))
}

/// Whether a JSON body and a form are the same request of an action; an error if either is none.
pub fn read_alike(action: &str, body: &[u8], form: &[u8]) -> Result<bool, String> {
    let parameters = Parameters::read(None, form).map_err(|error| error.to_string())?;
    (reader(action)?.read_both)(&Input::Json(body), &Input::Query(parameters))
}

/// Whether two forms are the same request of an action; an error if either is none.
pub fn forms_alike(action: &str, one: &[u8], other: &[u8]) -> Result<bool, String> {
    let one = Parameters::read(None, one).map_err(|error| error.to_string())?;
    let other = Parameters::read(None, other).map_err(|error| error.to_string())?;
    (reader(action)?.read_both)(&Input::Query(one), &Input::Query(other))
}

/// Reads a RedrivePolicy of a queue on a server that knows its own region alone.
pub fn redrive_policy(text: &str, source: &QueueKey, region: &Region) -> Option<RedrivePolicy> {
    let options = ApiOptions {
        region: region.clone(),
        public_url: None,
        is_dev: false,
    };
    redrive::parse_policy(text, source, &options).ok()
}

/// Returns the canonical text of a RedrivePolicy.
pub fn redrive_policy_text(policy: &RedrivePolicy, region: &Region) -> String {
    redrive::policy_text(policy, region)
}

/// Reads a RedriveAllowPolicy and returns its canonical text.
pub fn redrive_allow_policy(text: &str) -> Option<String> {
    redrive::parse_allow_policy(text).ok()
}

/// Whether a RedriveAllowPolicy lets a queue use the one that it belongs to.
pub fn redrive_allows(policy_text: &str, source: &QueueKey) -> bool {
    redrive::allows(Some(policy_text), source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ACTIONS;

    #[test]
    fn every_action_can_be_read() {
        assert_eq!(READERS.each_ref().map(|reader| reader.action), ACTIONS);
        for action in ACTIONS {
            assert_eq!(read_json(action, b"{}"), Ok(()), "{action}");
            assert_eq!(read_form(action, b""), Ok(()), "{action}");
            assert_eq!(read_alike(action, b"{}", b""), Ok(true), "{action}");
        }
        assert!(read_json("Unknown", b"{}").is_err());
        let body = br#"{"QueueUrl":"q","MessageBody":"hi"}"#;
        assert_eq!(
            read_alike("SendMessage", body, b"QueueUrl=q&MessageBody=ho"),
            Ok(false)
        );
        assert!(read_alike("SendMessage", body, b"DelaySeconds=x").is_err());
    }
}
