//! The end of a connection that dialled: it asks, and waits for answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::condition::Condition;
use super::frame::{Assembly, FIRST, Frame, Goodbye, Head, Kind, LAST, PRIORITY, Received, STREAM, Status};
use super::late::{Awaited, LateAnswer, LateCalls, Response};
use super::limits::{DISCOVERY_KINDS_END, Limits};
use super::outbox::{Body, Outbox};
use super::stream::{PIECE_COST_BYTES, Pieces};
use super::{Cause, LinkError, Lost, Peer, Request};

/// How a connection is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// No new requests; those under way are answered.
    Retired(Goodbye),
    Ended(Lost),
}

/// Why a request did not begin.
#[derive(Debug)]
pub(super) enum NotBegun {
    /// This connection takes no more; another one may.
    Retired,
    Refused(Cause),
}

#[derive(Debug)]
pub(super) struct Asker {
    peer: Peer,
    outbox: Arc<Outbox>,
    limits: Limits,
    state: Mutex<State>,
    phase: Condition<Phase>,
}

#[derive(Debug)]
struct State {
    pending: BTreeMap<u64, Pending>,
    late: LateCalls,
    next_call: u64,
    used_at: Instant,
}

#[derive(Debug)]
struct Pending {
    response: Response,
    sent: Arc<AtomicBool>,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Once {
        answer: oneshot::Sender<Result<Bytes, LinkError>>,
        /// Hears it if the caller has gone.
        late: Option<LateAnswer>,
    },
    Stream {
        pieces: mpsc::UnboundedSender<Result<Bytes, LinkError>>,
        piece: Assembly,
        /// What the other end may still send.
        granted: Arc<AtomicU64>,
    },
}

/// A request under way. Dropping it cancels the request.
#[derive(Debug)]
pub(super) struct Ask {
    asker: Arc<Asker>,
    call: u64,
    sent: Arc<AtomicBool>,
}

impl Asker {
    pub(super) fn new(peer: Peer, outbox: Arc<Outbox>, limits: Limits) -> Self {
        let state = State {
            pending: BTreeMap::new(),
            late: LateCalls::default(),
            next_call: 1,
            used_at: Instant::now(),
        };
        Self {
            peer,
            outbox,
            limits,
            state: Mutex::new(state),
            phase: Condition::new(Phase::Open),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Waits until it takes no new requests.
    pub(super) async fn over(&self) -> Phase {
        self.phase
            .wait(|phase| (*phase != Phase::Open).then(|| phase.clone()))
            .await
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase.look(|phase| *phase == Phase::Open)
    }

    /// When it was last used; `None` while it is.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        let state = self.state();
        state.pending.is_empty().then_some(state.used_at)
    }

    /// Begins a request that has one answer; if it comes when the caller has gone, `late` hears it.
    pub(super) fn call(
        self: &Arc<Self>,
        request: &Request,
        late: Option<LateAnswer>,
    ) -> Result<(Ask, Awaited), NotBegun> {
        let (sender, answer) = oneshot::channel();
        let awaited = Awaited {
            answer,
            late: late.clone(),
        };
        let answer = Answer::Once { answer: sender, late };
        Ok((self.begin(request, answer, 0)?, awaited))
    }

    /// Begins a request that is answered by a stream.
    pub(super) fn stream(self: &Arc<Self>, request: &Request) -> Result<Pieces, NotBegun> {
        let (sender, pieces) = mpsc::unbounded_channel();
        let window_bytes = self.limits.stream_window_bytes;
        let granted = Arc::new(AtomicU64::new(window_bytes as u64));
        let answer = Answer::Stream {
            pieces: sender,
            piece: Assembly::default(),
            granted: granted.clone(),
        };
        let ask = self.begin(request, answer, STREAM)?;
        let owed_bytes = 0;
        Ok(Pieces {
            ask,
            pieces,
            granted,
            owed_bytes,
            window_bytes,
        })
    }

    fn begin(self: &Arc<Self>, request: &Request, answer: Answer, flags: u8) -> Result<Ask, NotBegun> {
        let length = u32::try_from(request.body.len()).ok();
        let Some(length) = length.filter(|_| request.body.len() <= self.limits.body_bytes_max) else {
            return Err(NotBegun::Refused(Cause::TooLarge));
        };
        if request.kind >= DISCOVERY_KINDS_END && !self.peer.is_member {
            return Err(NotBegun::Refused(Cause::NotMember));
        }
        let mut state = self.state();
        if !self.is_open() {
            return Err(NotBegun::Retired);
        }
        let queued_bytes = self.outbox.queued_bytes() + request.body.len();
        if state.pending.len() >= self.limits.calls_max || queued_bytes > self.limits.queued_bytes_max {
            return Err(NotBegun::Refused(Cause::Busy));
        }
        let call = state.next_call;
        state.next_call += 1;
        let sent = Arc::new(AtomicBool::new(false));
        let pending = Pending {
            response: Response::awaited(),
            sent: sent.clone(),
            answer,
        };
        state.pending.insert(call, pending);
        let window = u32::try_from(self.limits.stream_window_bytes).unwrap_or(u32::MAX);
        let head = Head::default()
            .put(&request.kind.to_le_bytes())
            .put(&length.to_le_bytes())
            .put(&window.to_le_bytes());
        let priority = if request.has_priority { PRIORITY } else { 0 };
        let body = Body {
            kind: Kind::Request,
            flags: flags | priority,
            head,
            bytes: request.body.clone(),
            sent: Some(sent.clone()),
        };
        self.outbox.push(call, body);
        let asker = self.clone();
        Ok(Ask { asker, call, sent })
    }

    /// Takes a frame of the other end.
    pub(super) fn receive(&self, mut frame: Received) -> Result<(), Lost> {
        match frame.kind {
            Kind::Response => self.receive_response(frame),
            Kind::Piece => self.receive_piece(frame),
            Kind::Pong => Ok(()),
            Kind::Goodbye => {
                self.retire(Goodbye::from_code(frame.take_u8()?)?);
                Ok(())
            }
            Kind::Request | Kind::Cancel | Kind::Credit | Kind::Ping => {
                Err(Lost::Malformed("frame of one that dialled"))
            }
        }
    }

    fn receive_response(&self, frame: Received) -> Result<(), Lost> {
        let mut state = self.state();
        let (call, body_bytes_max) = (frame.call, self.limits.body_bytes_max);
        // What was cancelled may still be answered.
        let Some(pending) = state.pending.get_mut(&call) else {
            let completed = state.late.receive(frame, body_bytes_max)?;
            drop(state);
            if let Some((late, body)) = completed {
                late.hear(body);
            }
            return Ok(());
        };
        let Some((status, body)) = pending.response.add(frame, body_bytes_max)? else {
            return Ok(());
        };
        let Some(pending) = state.pending.remove(&call) else {
            return Ok(());
        };
        state.used_at = Instant::now();
        drop(state);
        match (pending.answer, outcome(status, body)) {
            (Answer::Once { answer, late }, result) => {
                if let (Err(Ok(body)), Some(late)) = (answer.send(result), late) {
                    late.hear(body);
                }
            }
            (Answer::Stream { .. }, Ok(_)) => {}
            (Answer::Stream { pieces, .. }, Err(error)) => drop(pieces.send(Err(error))),
        }
        self.finish_if_done();
        Ok(())
    }

    fn receive_piece(&self, mut frame: Received) -> Result<(), Lost> {
        let mut state = self.state();
        let Some(pending) = state.pending.get_mut(&frame.call) else {
            return Ok(());
        };
        let Answer::Stream {
            pieces,
            piece,
            granted,
        } = &mut pending.answer
        else {
            return Err(Lost::Malformed("piece for a request without a stream"));
        };
        if frame.has(FIRST) {
            let length = frame.take_u32()?;
            let cost = u64::from(length) + PIECE_COST_BYTES as u64;
            let left = granted.load(Ordering::Acquire).checked_sub(cost);
            if left.is_none() {
                return Err(Lost::Malformed("piece beyond the credit"));
            }
            granted.fetch_sub(cost, Ordering::AcqRel);
            piece.begin(length, self.limits.stream_window_bytes)?;
        }
        if let Some(whole) = piece.add(frame.payload, frame.flags & LAST != 0)? {
            // A receiver that has gone cancels the stream itself.
            drop(pieces.send(Ok(whole)));
        }
        Ok(())
    }

    /// Takes no new requests; ends when those under way are answered.
    pub(super) fn retire(&self, goodbye: Goodbye) {
        self.phase.change(|phase| {
            if *phase == Phase::Open {
                *phase = Phase::Retired(goodbye);
            }
        });
        self.finish_if_done();
    }

    fn finish_if_done(&self) {
        let is_done = self.state().pending.is_empty();
        if is_done && self.phase.look(|phase| matches!(phase, Phase::Retired(_))) {
            self.outbox
                .push_control(Frame::control(Kind::Goodbye, 0, &[Goodbye::Done.code()]));
            self.outbox.finish();
        }
    }

    /// Ends every request: the connection is gone.
    pub(super) fn end(&self, lost: &Lost) {
        self.phase.change(|phase| *phase = Phase::Ended(lost.clone()));
        self.outbox.close();
        let pending = std::mem::take(&mut self.state().pending);
        for pending in pending.into_values() {
            let error = undelivered(&pending.sent, Cause::Lost(lost.clone()));
            match pending.answer {
                Answer::Once { answer, .. } => drop(answer.send(Err(error))),
                Answer::Stream { pieces, .. } => drop(pieces.send(Err(error))),
            }
        }
    }

    fn cancel(&self, call: u64) {
        let mut state = self.state();
        let Some(pending) = state.pending.remove(&call) else {
            return;
        };
        if let Answer::Once { late: Some(late), .. } = pending.answer {
            state.late.remember(call, pending.response, late);
        }
        state.used_at = Instant::now();
        drop(state);
        self.outbox.remove(call);
        self.outbox.push_control(Frame::control(Kind::Cancel, call, &[]));
        self.finish_if_done();
    }
}

fn outcome(status: Status, mut body: Bytes) -> Result<Bytes, LinkError> {
    let not_sent = |cause| Err(LinkError::NotSent(cause));
    match status {
        Status::Done => Ok(body),
        Status::UnknownKind => not_sent(Cause::UnknownKind),
        Status::Busy => not_sent(Cause::Busy),
        Status::NotMember => not_sent(Cause::NotMember),
        Status::ShuttingDown => not_sent(Cause::ShuttingDown),
        Status::Failed => {
            body.truncate(super::limits::FAILURE_BYTES_MAX);
            let text = String::from_utf8_lossy(body.chunk()).into_owned();
            Err(LinkError::Unknown(Cause::Failed(text)))
        }
    }
}

fn undelivered(sent: &AtomicBool, cause: Cause) -> LinkError {
    if sent.load(Ordering::Acquire) {
        LinkError::Unknown(cause)
    } else {
        LinkError::NotSent(cause)
    }
}

impl Ask {
    pub(super) fn call(&self) -> u64 {
        self.call
    }

    pub(super) fn send(&self, frame: Frame) {
        self.asker.outbox.push_control(frame);
    }

    /// Cancels the request, and says whether it may have been delivered.
    pub(super) fn give_up(self, cause: Cause) -> LinkError {
        self.asker.cancel(self.call);
        undelivered(&self.sent, cause)
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.asker.cancel(self.call);
    }
}
