//! A message as it stands in a snapshot: its header, then its history if it has one. Drawn in `docs/formats/state.md`.

use types::{LeaseToken, LogIndex, MessageId, QueueId, Sequence, Timestamp, WallTime};

use crate::codec::{DecodeError, Decoder, put_u32, put_u64};
use crate::header::{Delivery, Header};
use crate::history::{Histories, History, NO_HISTORY};

const FRESH: u8 = 0;
const HAS_HISTORY: u8 = 1;
const HAS_MESSAGE_ID: u8 = 2;

/// Writes a message. A history that says nothing is not written, so messages of equal meaning have equal bytes.
pub(crate) fn put(out: &mut Vec<u8>, header: &Header, history: &History) {
    put_u64(out, header.queue.0);
    if header.is_free() {
        return;
    }
    put_u64(out, header.sequence.0);
    put_u64(out, header.index.0);
    put_u32(out, header.ordinal);
    put_u32(out, header.content_bytes);
    put_u64(out, header.sent.as_millis());
    put_u64(out, header.age_from.as_millis());
    put_u32(out, header.group);
    out.push(header.delivery.code());
    put_history(out, &said(*history, header.delivery));
}

/// Returns the history without what says nothing.
fn said(history: History, delivery: Delivery) -> History {
    let visible_at = match delivery {
        Delivery::Available => Timestamp::ZERO,
        Delivery::Delayed | Delivery::InFlight => history.visible_at,
    };
    History {
        visible_at,
        timer_at: Timestamp::NEVER,
        ..history
    }
}

fn put_history(out: &mut Vec<u8>, history: &History) {
    if *history == History::NONE {
        return out.push(FRESH);
    }
    out.push(history.message_id.map_or(HAS_HISTORY, |_| HAS_MESSAGE_ID));
    put_u64(out, history.visible_at.as_millis());
    put_u64(out, history.leased_at.as_millis());
    put_u64(out, history.first_received.as_millis());
    put_u64(out, history.token.0);
    put_u64(out, history.origin.0);
    put_u32(out, history.receive_count);
    put_u32(out, history.receives_here);
    if let Some(message_id) = history.message_id {
        out.extend_from_slice(message_id.as_bytes());
    }
}

/// Reads what [`put`] wrote, and adds the history.
pub(crate) fn read(decoder: &mut Decoder<'_>, histories: &mut Histories) -> Result<Header, DecodeError> {
    let queue = QueueId(decoder.u64()?);
    if queue == QueueId(0) {
        return Ok(Header::FREE);
    }
    let header = Header {
        queue,
        sequence: Sequence(decoder.u64()?),
        index: LogIndex(decoder.u64()?),
        ordinal: decoder.u32()?,
        content_bytes: decoder.u32()?,
        sent: WallTime::from_millis(decoder.u64()?),
        age_from: Timestamp::from_millis(decoder.u64()?),
        group: decoder.u32()?,
        history: NO_HISTORY,
        delivery: delivery(decoder)?,
        marks: 0,
    };
    let history = history(decoder)?;
    Ok(add(histories, header, history))
}

fn history(decoder: &mut Decoder<'_>) -> Result<History, DecodeError> {
    let kind = decoder.u8()?;
    if kind == FRESH {
        return Ok(History::NONE);
    }
    Ok(History {
        visible_at: Timestamp::from_millis(decoder.u64()?),
        leased_at: Timestamp::from_millis(decoder.u64()?),
        first_received: WallTime::from_millis(decoder.u64()?),
        token: LeaseToken(decoder.u64()?),
        origin: QueueId(decoder.u64()?),
        receive_count: decoder.u32()?,
        receives_here: decoder.u32()?,
        message_id: match kind {
            HAS_HISTORY => None,
            HAS_MESSAGE_ID => Some(MessageId::from_bytes(decoder.array()?)),
            _ => return Err(DecodeError::Invalid("kind of history")),
        },
        timer_at: Timestamp::NEVER,
    })
}

/// Reads a message of a snapshot of version 1. One that a task moved has its id in its content there.
pub(crate) fn read_1(decoder: &mut Decoder<'_>, histories: &mut Histories) -> Result<Header, DecodeError> {
    let queue = QueueId(decoder.u64()?);
    if queue == QueueId(0) {
        return Ok(Header::FREE);
    }
    let (sequence, index) = (Sequence(decoder.u64()?), LogIndex(decoder.u64()?));
    let (ordinal, content_bytes) = (decoder.u32()?, decoder.u32()?);
    let sent = WallTime::from_millis(decoder.u64()?);
    let age_from = Timestamp::from_millis(decoder.u64()?);
    let history = History {
        visible_at: Timestamp::from_millis(decoder.u64()?),
        leased_at: Timestamp::from_millis(decoder.u64()?),
        first_received: WallTime::from_millis(decoder.u64()?),
        token: LeaseToken(decoder.u64()?),
        origin: QueueId(decoder.u64()?),
        receive_count: decoder.u32()?,
        receives_here: decoder.u32()?,
        message_id: None,
        timer_at: Timestamp::NEVER,
    };
    let header = Header {
        sequence,
        queue,
        index,
        ordinal,
        content_bytes,
        sent,
        age_from,
        group: decoder.u32()?,
        history: NO_HISTORY,
        delivery: delivery(decoder)?,
        marks: 0,
    };
    Ok(add(histories, header, history))
}

fn delivery(decoder: &mut Decoder<'_>) -> Result<Delivery, DecodeError> {
    Delivery::from_code(decoder.u8()?).ok_or(DecodeError::Invalid("delivery state"))
}

/// A hidden message has a history, whatever it says: its timer stands there.
fn add(histories: &mut Histories, header: Header, history: History) -> Header {
    let history = said(history, header.delivery);
    if header.delivery == Delivery::Available && history == History::NONE {
        return header;
    }
    Header {
        history: histories.insert(history),
        ..header
    }
}
