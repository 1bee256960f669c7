//! A request as bytes.

use queue_core::Handle;
use queue_core::codec::{
    DecodeError, Decoder, enqueue_entry, handle, postcard, put_block, put_enqueue_entry, put_handle,
    put_length, put_optional_u32, put_postcard, put_u32, put_u64, repeat,
};
use types::{QueueId, QueueKey};

use crate::forward::{
    VERSION, duration, kind as read_kind, most, optional, put_duration, put_most, put_optional, unknown,
};
use crate::request::{Receive, Request, WaiterId};

mod kind {
    pub(super) const CREATE_QUEUE: u8 = 1;
    pub(super) const DELETE_QUEUE: u8 = 2;
    pub(super) const SET_QUEUE_ATTRIBUTES: u8 = 3;
    pub(super) const PURGE_QUEUE: u8 = 4;
    pub(super) const ENQUEUE: u8 = 5;
    pub(super) const RECEIVE: u8 = 6;
    pub(super) const DELETE: u8 = 7;
    pub(super) const CHANGE_VISIBILITY: u8 = 8;
    pub(super) const TAG_QUEUE: u8 = 9;
    pub(super) const UNTAG_QUEUE: u8 = 10;
    pub(super) const START_MOVE_TASK: u8 = 11;
    pub(super) const CANCEL_MOVE_TASK: u8 = 12;
    pub(super) const GIVE_BACK: u8 = 13;
    pub(super) const WITHHOLD: u8 = 14;
    pub(super) const FIND_QUEUE: u8 = 15;
    pub(super) const LIST_QUEUES: u8 = 16;
    pub(super) const DESCRIBE_QUEUE: u8 = 17;
    pub(super) const LIST_MOVE_TASKS: u8 = 18;
    pub(super) const LIST_DEAD_LETTER_SOURCES: u8 = 19;
    pub(super) const ADVANCE_CLOCK: u8 = 20;
    /// Never decoded: what a node keeps to itself.
    pub(super) const NONE: u8 = 0;
}

/// Writes a request. What only a node itself asks its owner becomes bytes that no node takes.
pub fn encode_request(request: &Request) -> Vec<u8> {
    let mut bytes = vec![kind_of(request), VERSION];
    let out = &mut bytes;
    match request {
        Request::CreateQueue {
            key,
            attributes,
            tags,
        } => put_postcard(out, &(key, attributes, tags)),
        Request::SetQueueAttributes { key, attributes } => put_postcard(out, &(key, attributes)),
        Request::DeleteQueue { key }
        | Request::PurgeQueue { key }
        | Request::FindQueue { key }
        | Request::DescribeQueue { key } => put_postcard(out, key),
        Request::Enqueue { key, entries } => {
            put_postcard(out, key);
            put_length(out, entries.len());
            entries.iter().for_each(|entry| put_enqueue_entry(out, entry));
        }
        Request::Receive(receive) => put_receive(out, receive),
        Request::Delete { key, handles } => {
            put_postcard(out, key);
            put_handles(out, handles);
        }
        Request::ChangeVisibility { key, entries } => {
            put_postcard(out, key);
            put_timeouts(out, entries);
        }
        Request::GiveBack { queue, handles } | Request::Withhold { queue, handles } => {
            put_u64(out, queue.0);
            put_handles(out, handles);
        }
        Request::TagQueue { key, tags } => put_postcard(out, &(key, tags)),
        Request::UntagQueue { key, keys } => put_postcard(out, &(key, keys)),
        Request::StartMoveTask {
            source,
            task,
            destination,
            rate,
        } => put_postcard(out, &(source, task, destination, rate)),
        Request::CancelMoveTask { source, task } => put_postcard(out, &(source, task)),
        Request::ListQueues {
            tenant,
            prefix,
            after,
            max,
        } => {
            put_postcard(out, &(tenant, after));
            put_block(out, prefix.as_bytes());
            put_most(out, *max);
        }
        Request::ListMoveTasks { source, max } => {
            put_postcard(out, source);
            put_most(out, *max);
        }
        Request::ListDeadLetterSources { key, after, max } => {
            put_postcard(out, &(key, after));
            put_most(out, *max);
        }
        Request::AdvanceClock { by } => put_duration(out, by),
        Request::Cancel { .. } | Request::Internal(_) | Request::EndPolls => {}
    }
    bytes
}

const fn kind_of(request: &Request) -> u8 {
    match request {
        Request::CreateQueue { .. } => kind::CREATE_QUEUE,
        Request::DeleteQueue { .. } => kind::DELETE_QUEUE,
        Request::SetQueueAttributes { .. } => kind::SET_QUEUE_ATTRIBUTES,
        Request::PurgeQueue { .. } => kind::PURGE_QUEUE,
        Request::Enqueue { .. } => kind::ENQUEUE,
        Request::Receive(_) => kind::RECEIVE,
        Request::Delete { .. } => kind::DELETE,
        Request::ChangeVisibility { .. } => kind::CHANGE_VISIBILITY,
        Request::TagQueue { .. } => kind::TAG_QUEUE,
        Request::UntagQueue { .. } => kind::UNTAG_QUEUE,
        Request::StartMoveTask { .. } => kind::START_MOVE_TASK,
        Request::CancelMoveTask { .. } => kind::CANCEL_MOVE_TASK,
        Request::GiveBack { .. } => kind::GIVE_BACK,
        Request::Withhold { .. } => kind::WITHHOLD,
        Request::FindQueue { .. } => kind::FIND_QUEUE,
        Request::ListQueues { .. } => kind::LIST_QUEUES,
        Request::DescribeQueue { .. } => kind::DESCRIBE_QUEUE,
        Request::ListMoveTasks { .. } => kind::LIST_MOVE_TASKS,
        Request::ListDeadLetterSources { .. } => kind::LIST_DEAD_LETTER_SOURCES,
        Request::AdvanceClock { .. } => kind::ADVANCE_CLOCK,
        Request::Cancel { .. } | Request::Internal(_) | Request::EndPolls => kind::NONE,
    }
}

/// Reads a request. The waiter of a receive has no name yet: names are of one node.
pub fn decode_request(bytes: &[u8]) -> Result<Request, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let kind = read_kind(&mut decoder)?;
    let request = match kind {
        kind::ENQUEUE => Request::Enqueue {
            key: postcard(&mut decoder)?,
            entries: repeat(&mut decoder, enqueue_entry)?,
        },
        kind::RECEIVE => receive(&mut decoder)?,
        kind::DELETE => Request::Delete {
            key: postcard(&mut decoder)?,
            handles: repeat(&mut decoder, handle)?,
        },
        kind::CHANGE_VISIBILITY => Request::ChangeVisibility {
            key: postcard(&mut decoder)?,
            entries: repeat(&mut decoder, |decoder| Ok((handle(decoder)?, decoder.u32()?)))?,
        },
        kind::GIVE_BACK => Request::GiveBack {
            queue: QueueId(decoder.u64()?),
            handles: repeat(&mut decoder, handle)?,
        },
        kind::WITHHOLD => Request::Withhold {
            queue: QueueId(decoder.u64()?),
            handles: repeat(&mut decoder, handle)?,
        },
        kind::ADVANCE_CLOCK => Request::AdvanceClock {
            by: duration(&mut decoder)?,
        },
        kind::FIND_QUEUE..=kind::LIST_DEAD_LETTER_SOURCES => read(kind, &mut decoder)?,
        _ => upkeep(kind, &mut decoder)?,
    };
    decoder.finish()?;
    Ok(request)
}

/// Reads a request that changes a queue itself.
fn upkeep(kind: u8, decoder: &mut Decoder<'_>) -> Result<Request, DecodeError> {
    Ok(match kind {
        kind::CREATE_QUEUE => {
            let (key, attributes, tags) = postcard(decoder)?;
            Request::CreateQueue {
                key,
                attributes,
                tags,
            }
        }
        kind::DELETE_QUEUE => Request::DeleteQueue {
            key: postcard(decoder)?,
        },
        kind::SET_QUEUE_ATTRIBUTES => {
            let (key, attributes) = postcard(decoder)?;
            Request::SetQueueAttributes { key, attributes }
        }
        kind::PURGE_QUEUE => Request::PurgeQueue {
            key: postcard(decoder)?,
        },
        kind::TAG_QUEUE => {
            let (key, tags) = postcard(decoder)?;
            Request::TagQueue { key, tags }
        }
        kind::UNTAG_QUEUE => {
            let (key, keys) = postcard(decoder)?;
            Request::UntagQueue { key, keys }
        }
        kind::START_MOVE_TASK => {
            let (source, task, destination, rate) = postcard(decoder)?;
            Request::StartMoveTask {
                source,
                task,
                destination,
                rate,
            }
        }
        kind::CANCEL_MOVE_TASK => {
            let (source, task) = postcard(decoder)?;
            Request::CancelMoveTask { source, task }
        }
        _ => return Err(unknown(kind)),
    })
}

/// Reads a request that changes nothing.
fn read(kind: u8, decoder: &mut Decoder<'_>) -> Result<Request, DecodeError> {
    Ok(match kind {
        kind::FIND_QUEUE => Request::FindQueue {
            key: postcard(decoder)?,
        },
        kind::DESCRIBE_QUEUE => Request::DescribeQueue {
            key: postcard(decoder)?,
        },
        kind::LIST_QUEUES => {
            let (tenant, after) = postcard(decoder)?;
            Request::ListQueues {
                tenant,
                after,
                prefix: decoder.text()?.to_owned(),
                max: most(decoder)?,
            }
        }
        kind::LIST_MOVE_TASKS => Request::ListMoveTasks {
            source: postcard(decoder)?,
            max: most(decoder)?,
        },
        kind::LIST_DEAD_LETTER_SOURCES => {
            let (key, after) = postcard(decoder)?;
            let max = most(decoder)?;
            Request::ListDeadLetterSources { key, after, max }
        }
        _ => return Err(unknown(kind)),
    })
}

fn put_receive(out: &mut Vec<u8>, receive: &Receive) {
    put_postcard(out, &receive.key);
    put_u32(out, receive.max);
    put_optional_u32(out, receive.visibility_timeout_seconds);
    put_optional(out, receive.wait.as_ref(), put_duration);
    put_optional(out, receive.attempt.as_ref(), |out, attempt| {
        out.extend_from_slice(attempt);
    });
}

fn receive(decoder: &mut Decoder<'_>) -> Result<Request, DecodeError> {
    Ok(Request::Receive(Receive {
        waiter: WaiterId(0),
        key: postcard::<QueueKey>(decoder)?,
        max: decoder.u32()?,
        visibility_timeout_seconds: decoder.optional_u32()?,
        wait: optional(decoder, duration)?,
        attempt: optional(decoder, Decoder::array)?,
    }))
}

fn put_handles(out: &mut Vec<u8>, handles: &[Handle]) {
    put_length(out, handles.len());
    handles.iter().for_each(|handle| put_handle(out, handle));
}

fn put_timeouts(out: &mut Vec<u8>, timeouts: &[(Handle, u32)]) {
    put_length(out, timeouts.len());
    for (handle, seconds) in timeouts {
        put_handle(out, handle);
        put_u32(out, *seconds);
    }
}
