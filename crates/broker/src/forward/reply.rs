//! A reply as bytes.

use std::sync::Arc;

use queue_core::codec::{
    DecodeError, Decoder, handle, postcard, put_block, put_handle, put_length, put_optional_u32,
    put_postcard, put_u32, put_u64, repeat,
};
use queue_core::{Counters, Delivery, Enqueued, PayloadId, QueueError};
use types::{LogIndex, MessageId, QueueName, Sequence, Slot, WallTime};

use crate::contents::Held;
use crate::forward::refusal::{error, put_error};
use crate::forward::{VERSION, duration, kind as read_kind, optional, put_duration, put_optional, unknown};
use crate::request::{QueueDescription, QueuePage, Reply, Taken};

mod kind {
    pub(super) const DONE: u8 = 1;
    pub(super) const ENQUEUED: u8 = 2;
    pub(super) const RECEIVED: u8 = 3;
    pub(super) const ENTRIES: u8 = 4;
    pub(super) const MOVED: u8 = 5;
    pub(super) const TASKS: u8 = 6;
    pub(super) const PAGE: u8 = 7;
    pub(super) const DESCRIPTION: u8 = 8;
    pub(super) const REFUSED: u8 = 9;
    pub(super) const UNKNOWN: u8 = 10;
    pub(super) const NOT_TAKEN: u8 = 11;
    pub(super) const NO_ROOM: u8 = 12;
    pub(super) const NOT_LEADER: u8 = 13;
}

const fn kind_of(reply: &Reply) -> u8 {
    match reply {
        Reply::Done => kind::DONE,
        Reply::Enqueued(_) => kind::ENQUEUED,
        Reply::Received(_) => kind::RECEIVED,
        Reply::Entries(_) => kind::ENTRIES,
        Reply::Moved(_) => kind::MOVED,
        Reply::Tasks(_) => kind::TASKS,
        Reply::Page(_) => kind::PAGE,
        Reply::Description(_) => kind::DESCRIPTION,
        Reply::Refused(_) => kind::REFUSED,
        Reply::Unknown => kind::UNKNOWN,
        Reply::NotTaken => kind::NOT_TAKEN,
        Reply::NoRoom => kind::NO_ROOM,
        Reply::NotLeader { .. } => kind::NOT_LEADER,
    }
}

/// Writes a reply. The contents of received messages travel with it, so they must be in memory: a message whose content
/// is not is left out.
pub fn encode_reply(reply: &Reply) -> Vec<u8> {
    let mut bytes = vec![kind_of(reply), VERSION];
    let out = &mut bytes;
    match reply {
        Reply::Enqueued(results) => put_results(out, results, put_enqueued),
        Reply::Received(taken) => put_taken(out, taken),
        Reply::Entries(results) => put_results(out, results, |_, ()| {}),
        Reply::Moved(moved) => put_u64(out, *moved),
        Reply::Tasks(tasks) => put_postcard(out, tasks),
        Reply::Page(page) => {
            put_length(out, page.names.len());
            let names = page.names.iter().map(|name| name.as_str().as_bytes());
            names.for_each(|name| put_block(out, name));
            out.push(u8::from(page.has_more));
        }
        Reply::Description(description) => put_description(out, description),
        Reply::Refused(error) => put_error(out, error),
        Reply::NotLeader { wait_left } => put_optional(out, wait_left.as_ref(), put_duration),
        Reply::Done | Reply::Unknown | Reply::NotTaken | Reply::NoRoom => {}
    }
    bytes
}

/// Reads a reply. Received messages have their contents in memory.
pub fn decode_reply(bytes: &[u8]) -> Result<Reply, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let kind = read_kind(&mut decoder)?;
    let reply = match kind {
        kind::DONE => Reply::Done,
        kind::ENQUEUED => Reply::Enqueued(results(&mut decoder, enqueued)?),
        kind::RECEIVED => Reply::Received(repeat(&mut decoder, taken)?),
        kind::ENTRIES => Reply::Entries(results(&mut decoder, |_| Ok(()))?),
        kind::MOVED => Reply::Moved(decoder.u64()?),
        kind::TASKS => Reply::Tasks(postcard(&mut decoder)?),
        kind::PAGE => Reply::Page(QueuePage {
            names: repeat(&mut decoder, queue_name)?,
            has_more: decoder.bool()?,
        }),
        kind::DESCRIPTION => Reply::Description(Box::new(description(&mut decoder)?)),
        kind::REFUSED => Reply::Refused(error(&mut decoder)?),
        kind::UNKNOWN => Reply::Unknown,
        kind::NOT_TAKEN => Reply::NotTaken,
        kind::NO_ROOM => Reply::NoRoom,
        kind::NOT_LEADER => Reply::NotLeader {
            wait_left: optional(&mut decoder, duration)?,
        },
        _ => return Err(unknown(kind)),
    };
    decoder.finish()?;
    Ok(reply)
}

fn put_results<T>(
    out: &mut Vec<u8>,
    results: &[Result<T, QueueError>],
    mut put: impl FnMut(&mut Vec<u8>, &T),
) {
    put_length(out, results.len());
    for result in results {
        out.push(u8::from(result.is_ok()));
        match result {
            Ok(value) => put(out, value),
            Err(refusal) => put_error(out, refusal),
        }
    }
}

fn results<T>(
    decoder: &mut Decoder<'_>,
    mut read: impl FnMut(&mut Decoder<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<Result<T, QueueError>>, DecodeError> {
    repeat(decoder, |decoder| match decoder.bool()? {
        true => read(decoder).map(Ok),
        false => error(decoder).map(Err),
    })
}

fn put_enqueued(out: &mut Vec<u8>, enqueued: &Enqueued) {
    out.extend_from_slice(enqueued.message_id.as_bytes());
    put_u64(out, enqueued.sequence.0);
    put_optional_u32(out, enqueued.slot.map(|slot| slot.0));
}

fn enqueued(decoder: &mut Decoder<'_>) -> Result<Enqueued, DecodeError> {
    Ok(Enqueued {
        message_id: MessageId::from_bytes(decoder.array()?),
        sequence: Sequence(decoder.u64()?),
        slot: decoder.optional_u32()?.map(Slot),
    })
}

fn put_taken(out: &mut Vec<u8>, taken: &[Taken]) {
    let in_memory = taken.iter().filter_map(|taken| match &taken.content {
        Held::Memory(content) => Some((&taken.delivery, content)),
        Held::Disk(_) | Held::Nowhere => None,
    });
    let in_memory: Vec<_> = in_memory.collect();
    put_length(out, in_memory.len());
    for (delivery, content) in in_memory {
        put_delivery(out, delivery);
        put_block(out, content);
    }
}

fn taken(decoder: &mut Decoder<'_>) -> Result<Taken, DecodeError> {
    Ok(Taken {
        delivery: delivery(decoder)?,
        content: Held::Memory(Arc::from(decoder.block()?)),
        file: None,
    })
}

fn put_delivery(out: &mut Vec<u8>, delivery: &Delivery) {
    put_handle(out, &delivery.handle);
    put_u32(out, delivery.receive_count);
    put_u64(out, delivery.sent.as_millis());
    put_u64(out, delivery.first_received.as_millis());
    put_optional(out, delivery.dead_letter_source.as_ref(), put_postcard);
    put_u64(out, delivery.payload.index.0);
    put_u32(out, delivery.payload.ordinal);
    put_u32(out, delivery.content_bytes);
    put_optional(out, delivery.message_id.as_ref(), |out, id| {
        out.extend_from_slice(id.as_bytes());
    });
}

fn delivery(decoder: &mut Decoder<'_>) -> Result<Delivery, DecodeError> {
    Ok(Delivery {
        handle: handle(decoder)?,
        receive_count: decoder.u32()?,
        sent: WallTime::from_millis(decoder.u64()?),
        first_received: WallTime::from_millis(decoder.u64()?),
        dead_letter_source: optional(decoder, postcard)?,
        payload: PayloadId {
            index: LogIndex(decoder.u64()?),
            ordinal: decoder.u32()?,
        },
        content_bytes: decoder.u32()?,
        message_id: optional(decoder, |decoder| decoder.array().map(MessageId::from_bytes))?,
    })
}

fn queue_name(decoder: &mut Decoder<'_>) -> Result<QueueName, DecodeError> {
    let name = decoder.text()?.parse();
    name.map_err(|_| DecodeError::Invalid("queue name"))
}

fn put_description(out: &mut Vec<u8>, description: &QueueDescription) {
    put_postcard(out, &(&description.attributes, &description.tags));
    let Counters {
        visible,
        delayed,
        in_flight,
    } = description.counters;
    [visible, delayed, in_flight]
        .into_iter()
        .for_each(|count| put_u64(out, count));
    put_u64(out, description.created.as_millis());
    put_u64(out, description.modified.as_millis());
}

fn description(decoder: &mut Decoder<'_>) -> Result<QueueDescription, DecodeError> {
    let (attributes, tags) = postcard(decoder)?;
    Ok(QueueDescription {
        attributes,
        tags,
        counters: Counters {
            visible: decoder.u64()?,
            delayed: decoder.u64()?,
            in_flight: decoder.u64()?,
        },
        created: WallTime::from_millis(decoder.u64()?),
        modified: WallTime::from_millis(decoder.u64()?),
    })
}
