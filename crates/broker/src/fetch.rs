//! Reads contents from the disk for an answer, on the side of the client: a slow disk holds up no commit.
//!
//! What the system has in memory is read at once. Everything else is read on a thread that may wait.

use std::sync::Arc;

use queue_core::content::Content as Decoded;
use tokio::runtime::Handle;
use tracing::error;

use crate::contents::{Held, Stored};
use crate::request::{ReceivedMessage, Taken};

/// What became of the messages of one receive.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) messages: Vec<ReceivedMessage>,
    /// Those whose content is not what was stored, or cannot be read.
    pub(crate) damaged: Vec<queue_core::Handle>,
    /// Those of a group that stand behind one that is damaged: they may not pass it.
    pub(crate) blocked: Vec<queue_core::Handle>,
}

/// Brings the contents of taken messages into memory.
pub(crate) async fn fetch(taken: Vec<Taken>) -> Fetched {
    let mut contents: Vec<_> = taken.iter().map(read_now).collect();
    let slow: Vec<_> = contents
        .iter()
        .zip(&taken)
        .enumerate()
        .filter(|(_, (content, _))| matches!(content, Content::MayWait))
        .map(|(at, (_, taken))| (at, taken.clone()))
        .collect();
    if !slow.is_empty() {
        let places: Vec<_> = slow.iter().map(|(at, _)| *at).collect();
        let read = move || {
            slow.iter()
                .map(|(_, taken)| read_slowly(taken))
                .collect::<Vec<_>>()
        };
        let read = match Handle::try_current() {
            // A thread that panicked has read nothing: those messages are left out of the answer.
            Ok(runtime) => runtime.spawn_blocking(read).await.unwrap_or_default(),
            Err(_) => read(),
        };
        for (at, content) in places.into_iter().zip(read) {
            contents[at] = content;
        }
    }
    let mut fetched = Fetched::default();
    for (Taken { delivery, .. }, content) in taken.into_iter().zip(contents) {
        match content {
            Content::Good(content) if !fetched.damaged.is_empty() && has_group(&content) => {
                fetched.blocked.push(delivery.handle);
            }
            Content::Good(content) => fetched.messages.push(ReceivedMessage { delivery, content }),
            Content::Damaged | Content::MayWait => fetched.damaged.push(delivery.handle),
        }
    }
    fetched
}

fn has_group(content: &[u8]) -> bool {
    Decoded::decode(content).is_ok_and(|content| content.group.is_some())
}

enum Content {
    Good(Arc<[u8]>),
    Damaged,
    /// It is not in memory.
    MayWait,
}

fn read_now(taken: &Taken) -> Content {
    match &taken.content {
        Held::Memory(content) => Content::Good(content.clone()),
        Held::Disk(stored) => read(taken, *stored, false),
        Held::Nowhere => {
            error!(payload = ?taken.delivery.payload, "a message has no content: it is left out of the answer");
            Content::Damaged
        }
    }
}

fn read_slowly(taken: &Taken) -> Content {
    match &taken.content {
        Held::Disk(stored) => read(taken, *stored, true),
        Held::Memory(_) | Held::Nowhere => read_now(taken),
    }
}

fn read(taken: &Taken, stored: Stored, may_wait: bool) -> Content {
    let Some(file) = &taken.file else {
        return damaged(taken, stored, "the segment is not there");
    };
    let mut content: Arc<[u8]> = std::iter::repeat_n(0, stored.bytes as usize).collect();
    let buffer = Arc::get_mut(&mut content).expect("nobody else has seen it yet");
    let offset = u64::from(stored.place.offset);
    let read = if may_wait {
        file.read_at(buffer, offset).map(Some)
    } else {
        file.read_cached_at(buffer, offset)
    };
    match read {
        Ok(Some(_)) if stored.fits(&content) => Content::Good(content),
        Ok(Some(read)) if may_wait || read == content.len() => {
            damaged(taken, stored, "the bytes there are not those that were stored")
        }
        Ok(_) => Content::MayWait,
        Err(failure) => damaged(taken, stored, &failure.to_string()),
    }
}

fn damaged(taken: &Taken, stored: Stored, reason: &str) -> Content {
    error!(
        segment = stored.place.segment,
        offset = stored.place.offset,
        bytes = stored.bytes,
        payload = ?taken.delivery.payload,
        reason,
        "a content is damaged: its message is left out of the answer and not counted as received"
    );
    Content::Damaged
}
