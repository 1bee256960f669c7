//! The actions of SQS, one file each, and the table of them all.
//!
//! An action checks what needs no state, asks the broker, and writes its answer. Everything that is listed per
//! action (labels, the reference page, the names that a policy can allow) comes from the table.

mod add_permission;
mod cancel_message_move_task;
mod change_message_visibility;
mod change_message_visibility_batch;
mod create_queue;
mod delete_message;
mod delete_message_batch;
mod delete_queue;
mod get_queue_attributes;
mod get_queue_url;
mod list_dead_letter_source_queues;
mod list_message_move_tasks;
mod list_queue_tags;
mod list_queues;
mod purge_queue;
mod receive_message;
mod remove_permission;
mod send_message;
mod send_message_batch;
mod set_queue_attributes;
mod start_message_move_task;
mod tag_queue;
mod untag_queue;

use std::pin::Pin;

use serde::Deserialize;

use crate::wire::Input;
use crate::{Access, ApiError, Code, Context, Reply};

/// One operation of the SQS API.
pub(crate) trait Action {
    /// The name on the wire.
    const NAME: &'static str;
    /// Whether the action is about one queue, so that it can be called at that queue's URL.
    const IS_FOR_QUEUE: bool = true;
    /// Who may call it.
    const ACCESS: Access = Access::Owner;
    /// What the reference page says.
    const DOC: Doc;
    /// The typed input, the same from both protocols.
    type Request<'a>: Deserialize<'a> + Send;

    /// Carries the action out.
    fn run<'a>(
        context: &'a Context<'a>,
        request: Self::Request<'a>,
    ) -> impl Future<Output = Result<Reply, ApiError>> + Send + 'a;
}

/// What the reference page says of an action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doc {
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// The errors that are its own; those that every action has stand once on the page.
    pub(crate) errors: &'static [Code],
    /// How it differs from AWS, or what is easily misread.
    pub(crate) notes: &'static [&'static str],
}

/// A parameter of an action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) is_required: bool,
    pub(crate) meaning: &'static str,
}

const fn required(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter {
        name,
        is_required: true,
        meaning,
    }
}

const fn optional(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter {
        name,
        is_required: false,
        meaning,
    }
}

/// The parameter that every action about a queue has.
const QUEUE_URL: Parameter = required(
    "QueueUrl",
    "The queue: a URL with any host, a path, or the bare name. At the queue's own URL it can be left out.",
);

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) is_for_queue: bool,
    pub(crate) access: Access,
    pub(crate) doc: Doc,
    pub(crate) call: for<'a> fn(&'a Context<'a>, &'a Input<'a>) -> Pending<'a>,
}

/// An action under way. Boxed, so that the answer to a short action does not carry the room of the longest.
pub(crate) type Pending<'a> = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send + 'a>>;

impl Entry {
    const fn of<A: Action>() -> Self {
        Self {
            name: A::NAME,
            is_for_queue: A::IS_FOR_QUEUE,
            access: A::ACCESS,
            doc: A::DOC,
            call: |context, input| Box::pin(async move { A::run(context, input.decode()?).await }),
        }
    }
}

/// The actions of this version, by name.
pub(crate) static TABLE: [Entry; 23] = [
    Entry::of::<add_permission::AddPermission>(),
    Entry::of::<cancel_message_move_task::CancelMessageMoveTask>(),
    Entry::of::<change_message_visibility::ChangeMessageVisibility>(),
    Entry::of::<change_message_visibility_batch::ChangeMessageVisibilityBatch>(),
    Entry::of::<create_queue::CreateQueue>(),
    Entry::of::<delete_message::DeleteMessage>(),
    Entry::of::<delete_message_batch::DeleteMessageBatch>(),
    Entry::of::<delete_queue::DeleteQueue>(),
    Entry::of::<get_queue_attributes::GetQueueAttributes>(),
    Entry::of::<get_queue_url::GetQueueUrl>(),
    Entry::of::<list_dead_letter_source_queues::ListDeadLetterSourceQueues>(),
    Entry::of::<list_message_move_tasks::ListMessageMoveTasks>(),
    Entry::of::<list_queue_tags::ListQueueTags>(),
    Entry::of::<list_queues::ListQueues>(),
    Entry::of::<purge_queue::PurgeQueue>(),
    Entry::of::<receive_message::ReceiveMessage>(),
    Entry::of::<remove_permission::RemovePermission>(),
    Entry::of::<send_message::SendMessage>(),
    Entry::of::<send_message_batch::SendMessageBatch>(),
    Entry::of::<set_queue_attributes::SetQueueAttributes>(),
    Entry::of::<start_message_move_task::StartMessageMoveTask>(),
    Entry::of::<tag_queue::TagQueue>(),
    Entry::of::<untag_queue::UntagQueue>(),
];

/// The names of the actions, as metrics and other lists label them.
pub static ACTIONS: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TABLE[at].name;
        at += 1;
    }
    names
};

/// Looks a name up.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    let at = TABLE.binary_search_by(|entry| entry.name.cmp(name));
    at.ok().map(|at| &TABLE[at])
}

/// The actions, for what reads requests without carrying them out.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod testing {
    pub(crate) use super::add_permission::AddPermission;
    pub(crate) use super::cancel_message_move_task::CancelMessageMoveTask;
    pub(crate) use super::change_message_visibility::ChangeMessageVisibility;
    pub(crate) use super::change_message_visibility_batch::ChangeMessageVisibilityBatch;
    pub(crate) use super::create_queue::CreateQueue;
    pub(crate) use super::delete_message::DeleteMessage;
    pub(crate) use super::delete_message_batch::DeleteMessageBatch;
    pub(crate) use super::delete_queue::DeleteQueue;
    pub(crate) use super::get_queue_attributes::GetQueueAttributes;
    pub(crate) use super::get_queue_url::GetQueueUrl;
    pub(crate) use super::list_dead_letter_source_queues::ListDeadLetterSourceQueues;
    pub(crate) use super::list_message_move_tasks::ListMessageMoveTasks;
    pub(crate) use super::list_queue_tags::ListQueueTags;
    pub(crate) use super::list_queues::ListQueues;
    pub(crate) use super::purge_queue::PurgeQueue;
    pub(crate) use super::receive_message::ReceiveMessage;
    pub(crate) use super::remove_permission::RemovePermission;
    pub(crate) use super::send_message::SendMessage;
    pub(crate) use super::send_message_batch::SendMessageBatch;
    pub(crate) use super::set_queue_attributes::SetQueueAttributes;
    pub(crate) use super::start_message_move_task::StartMessageMoveTask;
    pub(crate) use super::tag_queue::TagQueue;
    pub(crate) use super::untag_queue::UntagQueue;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Turns `SendMessage` into `send_message`.
    fn file_stem(name: &str) -> String {
        let mut stem = String::new();
        for character in name.chars() {
            if character.is_ascii_uppercase() && !stem.is_empty() {
                stem.push('_');
            }
            stem.push(character.to_ascii_lowercase());
        }
        stem
    }

    fn stems_in(folder: &str, suffix: &str) -> BTreeSet<String> {
        let folder = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|file| {
                file.unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .strip_suffix(suffix)
                    .map(str::to_owned)
            })
            .collect()
    }

    #[test]
    fn every_action_has_its_line_its_file_and_its_case() {
        let in_table: BTreeSet<String> = TABLE.iter().map(|entry| file_stem(entry.name)).collect();
        let mut files = stems_in("src/actions", ".rs");
        assert!(files.remove("mod"));
        assert_eq!(files, in_table);
        let cases = stems_in("tests/it/cases", ".txt");
        for stem in in_table {
            assert!(cases.contains(&stem), "no case file {stem}.txt");
        }
    }

    #[test]
    fn names_are_sorted_and_each_is_known_once() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        assert!(TABLE.iter().all(|entry| find(entry.name).is_some()));
        assert!(find("sendmessage").is_none());
    }
}
