//! Short ways to write requests.

use std::time::Duration;

use broker::{Receive, Request, WaiterId};
use queue_core::{AttributeChange, Deduplication, EnqueueEntry, Handle, RedrivePolicy};
use types::{MessageId, QueueKey, TenantId};

pub(crate) fn key(name: &str) -> QueueKey {
    QueueKey {
        tenant: TenantId::DEV,
        name: name.parse().unwrap(),
    }
}

pub(crate) fn create(name: &str, attributes: &[AttributeChange]) -> Request {
    Request::CreateQueue {
        key: key(name),
        attributes: attributes.to_vec(),
        tags: Vec::new(),
    }
}

/// Makes a queue whose messages go to another after one receive.
pub(crate) fn create_source(name: &str, dead_letter_queue: &str) -> Request {
    let policy = RedrivePolicy {
        dead_letter_queue: key(dead_letter_queue),
        max_receive_count: 1,
    };
    create(name, &[AttributeChange::RedrivePolicy(Some(policy))])
}

/// Makes a message whose content is the text.
pub(crate) fn entry(text: &str) -> EnqueueEntry {
    let mut id = [0; 16];
    text.bytes().zip(&mut id).for_each(|(from, to)| *to = from);
    EnqueueEntry {
        message_id: MessageId::from_random(id),
        content: text.as_bytes().into(),
        size_bytes: u32::try_from(text.len()).unwrap(),
        delay_seconds: None,
        group: None,
        deduplication: None,
    }
}

pub(crate) fn fifo_entry(group: &str, text: &str) -> EnqueueEntry {
    EnqueueEntry {
        group: Some(group.into()),
        deduplication: Some(Deduplication::Id(text.into())),
        ..entry(text)
    }
}

pub(crate) fn send(name: &str, texts: &[&str]) -> Request {
    Request::Enqueue {
        key: key(name),
        entries: texts.iter().map(|text| entry(text)).collect(),
    }
}

pub(crate) fn send_delayed(name: &str, text: &str, delay_seconds: u32) -> Request {
    Request::Enqueue {
        key: key(name),
        entries: vec![EnqueueEntry {
            delay_seconds: Some(delay_seconds),
            ..entry(text)
        }],
    }
}

pub(crate) fn send_fifo(name: &str, group: &str, texts: &[&str]) -> Request {
    Request::Enqueue {
        key: key(name),
        entries: texts.iter().map(|text| fifo_entry(group, text)).collect(),
    }
}

/// A receive of one message with the queue's visibility timeout; `waiter` names it.
pub(crate) fn receive(waiter: u64, name: &str, wait_seconds: u32) -> Receive {
    Receive {
        waiter: WaiterId(waiter),
        key: key(name),
        max: 1,
        visibility_timeout_seconds: None,
        wait: Some(Duration::from_secs(wait_seconds.into())),
        attempt: None,
    }
}

pub(crate) fn delete(name: &str, handles: &[Handle]) -> Request {
    Request::Delete {
        key: key(name),
        handles: handles.to_vec(),
    }
}

pub(crate) fn change_visibility(name: &str, handle: Handle, seconds: u32) -> Request {
    Request::ChangeVisibility {
        key: key(name),
        entries: vec![(handle, seconds)],
    }
}

pub(crate) fn describe(name: &str) -> Request {
    Request::DescribeQueue { key: key(name) }
}
