//! The header of a message as it stands in a snapshot: what every message has, then what it has only after a delay,
//! a receive or a move. Drawn in `docs/formats/state.md`.

use types::{LeaseToken, LogIndex, MessageId, QueueId, Sequence, Timestamp, WallTime};

use crate::codec::{DecodeError, Decoder, put_u32, put_u64};
use crate::header::{Delivery, Header};

const FRESH: u8 = 0;
const HAS_HISTORY: u8 = 1;
const HAS_MESSAGE_ID: u8 = 2;

/// Writes a header. What is not said of a message is not written, however it came to be so: two headers of equal
/// meaning have equal bytes.
pub(crate) fn put(out: &mut Vec<u8>, header: &Header) {
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
    let visible_at = match header.delivery {
        Delivery::Available => Timestamp::ZERO,
        Delivery::Delayed | Delivery::InFlight => header.visible_at,
    };
    let times = [
        visible_at.as_millis(),
        header.leased_at.as_millis(),
        header.first_received.as_millis(),
        header.token.0,
        header.origin.0,
    ];
    let counts = [header.receive_count, header.receives_here];
    match header.message_id {
        None if times == [0; 5] && counts == [0; 2] => return out.push(FRESH),
        None => out.push(HAS_HISTORY),
        Some(_) => out.push(HAS_MESSAGE_ID),
    }
    times.iter().for_each(|time| put_u64(out, *time));
    counts.iter().for_each(|count| put_u32(out, *count));
    if let Some(message_id) = header.message_id {
        out.extend_from_slice(message_id.as_bytes());
    }
}

/// Reads what [`put`] wrote.
pub(crate) fn read(decoder: &mut Decoder<'_>) -> Result<Header, DecodeError> {
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
        delivery: delivery(decoder)?,
        ..Header::FREE
    };
    let kind = decoder.u8()?;
    if kind == FRESH {
        return Ok(header);
    }
    Ok(Header {
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
            _ => return Err(DecodeError::Invalid("kind of header")),
        },
        ..header
    })
}

/// Reads a header of a snapshot of version 1. A message that a task moved has its id in its content there.
pub(crate) fn read_1(decoder: &mut Decoder<'_>) -> Result<Header, DecodeError> {
    let queue = QueueId(decoder.u64()?);
    if queue == QueueId(0) {
        return Ok(Header::FREE);
    }
    Ok(Header {
        queue,
        sequence: Sequence(decoder.u64()?),
        index: LogIndex(decoder.u64()?),
        ordinal: decoder.u32()?,
        content_bytes: decoder.u32()?,
        sent: WallTime::from_millis(decoder.u64()?),
        age_from: Timestamp::from_millis(decoder.u64()?),
        visible_at: Timestamp::from_millis(decoder.u64()?),
        leased_at: Timestamp::from_millis(decoder.u64()?),
        first_received: WallTime::from_millis(decoder.u64()?),
        token: LeaseToken(decoder.u64()?),
        origin: QueueId(decoder.u64()?),
        receive_count: decoder.u32()?,
        receives_here: decoder.u32()?,
        group: decoder.u32()?,
        delivery: delivery(decoder)?,
        message_id: None,
    })
}

fn delivery(decoder: &mut Decoder<'_>) -> Result<Delivery, DecodeError> {
    Delivery::from_code(decoder.u8()?).ok_or(DecodeError::Invalid("delivery state"))
}
