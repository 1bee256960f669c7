//! What waits to be written on one connection, and in which order it goes.
//!
//! Control frames go first, then bodies of priority, then the others; bodies of one priority take turns piece by
//! piece. Pieces of a stream keep their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::frame::{FIRST, Frame, Head, Kind, LAST, PRIORITY, STREAM};
use super::limits::{BATCH_BYTES, BODIES_AT_ONCE, PIECE_BYTES_MAX};

/// A body on its way.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) head: Head,
    pub(super) bytes: Bytes,
    /// Set as soon as its last piece is handed to the network.
    pub(super) sent: Option<Arc<AtomicBool>>,
}

impl Body {
    fn is_of_stream(&self) -> bool {
        self.kind == Kind::Piece || self.flags & STREAM != 0
    }
}

/// The queue between those who send and the one who writes.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    control: VecDeque<Frame>,
    priority: Lane,
    normal: Lane,
    queued_bytes: usize,
    is_finishing: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Lane {
    active: VecDeque<Outgoing>,
    waiting: VecDeque<Outgoing>,
}

/// The bodies of one call, of which the first may have begun.
#[derive(Debug)]
struct Outgoing {
    call: u64,
    has_begun: bool,
    bodies: VecDeque<Body>,
}

/// What there is to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Frames,
    Nothing,
    /// Nothing now, and nothing will come.
    Ended,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a frame before all bodies.
    pub(super) fn push_control(&self, frame: Frame) {
        let mut state = self.state();
        if !state.is_closed {
            state.control.push_back(frame);
            self.ready.notify_one();
        }
    }

    /// Answers a ping, once however many came.
    pub(super) fn push_pong(&self) {
        let mut state = self.state();
        let is_due = state.control.iter().all(|frame| frame.kind != Kind::Pong);
        if is_due && !state.is_closed {
            state.control.push_back(Frame::control(Kind::Pong, 0, &[]));
            self.ready.notify_one();
        }
    }

    /// Puts a body behind those of its priority.
    pub(super) fn push(&self, call: u64, body: Body) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        state.queued_bytes += body.bytes.len();
        state.lane(body.flags & PRIORITY != 0).push(call, body);
        self.ready.notify_one();
    }

    /// Takes back what was not written of a call.
    pub(super) fn remove(&self, call: u64) {
        self.remove_if(|outgoing| outgoing.call == call);
    }

    /// Takes back what was not written of a call if it is a stream.
    pub(super) fn remove_stream(&self, call: u64) {
        self.remove_if(|outgoing| outgoing.call == call && outgoing.bodies.iter().any(Body::is_of_stream));
    }

    fn remove_if(&self, is_removed: impl Fn(&Outgoing) -> bool) {
        let mut state = self.state();
        let freed = state.priority.remove(&is_removed) + state.normal.remove(&is_removed);
        state.queued_bytes -= freed;
    }

    /// Returns the bytes of the bodies that wait.
    pub(super) fn queued_bytes(&self) -> usize {
        self.state().queued_bytes
    }

    /// Returns how many calls and control frames wait.
    pub(super) fn len(&self) -> usize {
        let state = self.state();
        state.control.len() + state.priority.len() + state.normal.len()
    }

    /// Ends the connection once everything is written.
    pub(super) fn finish(&self) {
        self.state().is_finishing = true;
        self.ready.notify_one();
    }

    /// Ends the connection now: what waits is dropped, and nothing is taken any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        *state = State {
            is_closed: true,
            ..State::default()
        };
        self.ready.notify_one();
    }

    /// Waits until [`fill`](Self::fill) may have something.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Takes what goes into one write.
    pub(super) fn fill(&self, frames: &mut Vec<Frame>) -> Filled {
        let mut guard = self.state();
        let state = &mut *guard;
        frames.extend(state.control.drain(..));
        for lane in [&mut state.priority, &mut state.normal] {
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && let Some(frame) = lane.next()
            {
                state.queued_bytes -= frame.piece.len();
                bytes += frame.piece.len();
                frames.push(frame);
            }
        }
        match frames.is_empty() {
            false => Filled::Frames,
            true if state.is_closed || state.is_finishing => Filled::Ended,
            true => Filled::Nothing,
        }
    }
}

impl State {
    fn lane(&mut self, has_priority: bool) -> &mut Lane {
        if has_priority {
            &mut self.priority
        } else {
            &mut self.normal
        }
    }
}

impl Lane {
    fn len(&self) -> usize {
        self.active.len() + self.waiting.len()
    }

    fn push(&mut self, call: u64, body: Body) {
        let mut all = self.active.iter_mut().chain(&mut self.waiting);
        // Only streams have more than one body of a call, and few streams are under way.
        if let Some(same) = body
            .is_of_stream()
            .then(|| all.find(|outgoing| outgoing.call == call))
            .flatten()
        {
            same.bodies.push_back(body);
            return;
        }
        let bodies = VecDeque::from([body]);
        let has_begun = false;
        self.waiting.push_back(Outgoing {
            call,
            has_begun,
            bodies,
        });
    }

    /// Drops what is left of calls; returns its bytes.
    fn remove(&mut self, is_removed: impl Fn(&Outgoing) -> bool) -> usize {
        let mut freed = 0;
        let mut keep = |outgoing: &Outgoing| {
            let is_kept = !is_removed(outgoing);
            if !is_kept {
                freed += outgoing.bodies.iter().map(|body| body.bytes.len()).sum::<usize>();
            }
            is_kept
        };
        self.active.retain(&mut keep);
        self.waiting.retain(&mut keep);
        freed
    }

    /// Takes the next piece of whose turn it is.
    fn next(&mut self) -> Option<Frame> {
        while self.active.len() < BODIES_AT_ONCE
            && let Some(outgoing) = self.waiting.pop_front()
        {
            self.active.push_back(outgoing);
        }
        let mut outgoing = self.active.pop_front()?;
        let body = outgoing.bodies.front_mut()?;
        let piece = body.bytes.split_to(body.bytes.len().min(PIECE_BYTES_MAX));
        let is_last = body.bytes.is_empty();
        let mut flags = body.flags;
        let mut head = Head::default();
        if !outgoing.has_begun {
            flags |= FIRST;
            head = body.head;
        }
        if is_last {
            flags |= LAST;
        }
        let (kind, call) = (body.kind, outgoing.call);
        outgoing.has_begun = !is_last;
        if is_last && let Some(sent) = outgoing.bodies.pop_front().and_then(|body| body.sent) {
            sent.store(true, Ordering::Release);
        }
        if !outgoing.bodies.is_empty() {
            self.active.push_back(outgoing);
        }
        Some(Frame {
            kind,
            flags,
            call,
            head,
            piece,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: Kind, flags: u8, bytes: usize) -> Body {
        Body {
            kind,
            flags,
            head: Head::default().put(&[9]),
            bytes: Bytes::from(vec![0; bytes]),
            sent: None,
        }
    }

    fn written(outbox: &Outbox) -> Vec<(u64, u8)> {
        let mut frames = Vec::new();
        let mut seen = Vec::new();
        while outbox.fill(&mut frames) == Filled::Frames {
            seen.extend(frames.drain(..).map(|frame| (frame.call, frame.flags)));
        }
        seen
    }

    #[test]
    fn control_then_priority_then_turns() {
        let outbox = Outbox::default();
        outbox.push(1, body(Kind::Request, 0, 3 * PIECE_BYTES_MAX));
        outbox.push(2, body(Kind::Request, 0, 10));
        outbox.push(3, body(Kind::Request, PRIORITY, 10));
        outbox.push_control(Frame::control(Kind::Cancel, 4, &[]));
        let seen = written(&outbox);
        let calls: Vec<u64> = seen.iter().map(|(call, _)| *call).collect();
        assert_eq!(calls, [4, 3, 1, 2, 1, 1]);
        assert_eq!(seen[2].1, FIRST);
        assert_eq!(seen[4].1, 0);
        assert_eq!(seen[5].1, LAST);
        assert_eq!(outbox.queued_bytes(), 0);
    }

    #[test]
    fn pieces_of_a_stream_stay_in_order_and_few_bodies_are_open() {
        let outbox = Outbox::default();
        outbox.push(1, body(Kind::Piece, 0, 2 * PIECE_BYTES_MAX));
        outbox.push(1, body(Kind::Piece, 0, 1));
        for call in 2..40 {
            outbox.push(call, body(Kind::Response, 0, 2 * PIECE_BYTES_MAX));
        }
        let mut open = Vec::new();
        let mut of_stream = Vec::new();
        for (call, flags) in written(&outbox) {
            if call == 1 {
                of_stream.push(flags);
            }
            if flags & FIRST != 0 {
                open.push(call);
            }
            assert!(open.contains(&call) && open.len() <= BODIES_AT_ONCE);
            if flags & LAST != 0 {
                open.retain(|open| *open != call);
            }
        }
        assert_eq!(of_stream, [FIRST, LAST, FIRST | LAST]);
    }

    #[test]
    fn what_is_taken_back_is_not_written() {
        let outbox = Outbox::default();
        outbox.push(1, body(Kind::Request, 0, 100));
        outbox.push(2, body(Kind::Request, 0, 2 * PIECE_BYTES_MAX));
        outbox.remove(1);
        let mut frames = Vec::new();
        assert_eq!(outbox.fill(&mut frames), Filled::Frames);
        outbox.remove(2);
        assert_eq!(outbox.queued_bytes(), 0);
        assert_eq!(written(&outbox), []);
        outbox.finish();
        assert_eq!(outbox.fill(&mut Vec::new()), Filled::Ended);
    }

    #[test]
    fn pings_are_answered_once_until_it_is_written() {
        let outbox = Outbox::default();
        for _ in 0..1000 {
            outbox.push_pong();
        }
        assert_eq!(outbox.len(), 1);
        assert_eq!(written(&outbox).len(), 1);
    }
}
