//! The end of a connection that was dialled: it serves requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::task::AbortHandle;

use super::frame::{Assembly, FIRST, Frame, Goodbye, Head, Kind, LAST, PRIORITY, Received, STREAM, Status};
use super::handler::AnyHandler;
use super::limits::{BODIES_AT_ONCE, DISCOVERY_KINDS_END, FAILURE_BYTES_MAX, Limits};
use super::outbox::{Body, Outbox};
use super::stream::{Credit, PIECE_COST_BYTES, PieceSender};
use super::{HandlerError, Lost, Peer};

pub(super) struct Served {
    peer: Peer,
    outbox: Arc<Outbox>,
    limits: Limits,
    handler: Arc<dyn AnyHandler>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    incoming: BTreeMap<u64, Incoming>,
    running: BTreeMap<u64, Running>,
    /// The bytes of the requests that run.
    running_bytes: usize,
    is_draining: bool,
}

/// A request whose body is not complete.
struct Incoming {
    kind: u16,
    flags: u8,
    window_bytes: u32,
    body: Assembly,
}

/// A request whose handler runs.
struct Running {
    task: AbortHandle,
    bytes: usize,
    credit: Option<Arc<Credit>>,
}

impl Served {
    pub(super) fn new(peer: Peer, outbox: Arc<Outbox>, limits: Limits, handler: Arc<dyn AnyHandler>) -> Self {
        let state = Mutex::default();
        Self {
            peer,
            outbox,
            limits,
            handler,
            state,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Takes a frame of the other end.
    pub(super) fn receive(self: &Arc<Self>, mut frame: Received) -> Result<(), Lost> {
        match frame.kind {
            Kind::Request => self.receive_request(frame),
            Kind::Cancel => {
                self.cancel(frame.call);
                Ok(())
            }
            Kind::Credit => {
                let bytes = frame.take_u32()? as usize;
                let state = self.state();
                let credit = state
                    .running
                    .get(&frame.call)
                    .and_then(|running| running.credit.as_ref());
                match credit.is_none_or(|credit| credit.grant(bytes)) {
                    true => Ok(()),
                    false => Err(Lost::Malformed("more credit than the window")),
                }
            }
            Kind::Ping => {
                self.outbox.push_pong();
                Ok(())
            }
            // It closes the connection next.
            Kind::Goodbye => Goodbye::from_code(frame.take_u8()?).map(drop),
            Kind::Response | Kind::Piece | Kind::Pong => {
                Err(Lost::Malformed("frame of one that was dialled"))
            }
        }
    }

    fn receive_request(self: &Arc<Self>, mut frame: Received) -> Result<(), Lost> {
        let mut state = self.state();
        let call = frame.call;
        if frame.has(FIRST) {
            let kind = frame.take_u16()?;
            let length = frame.take_u32()?;
            let window_bytes = frame.take_u32()?;
            let flags = frame.flags & (PRIORITY | STREAM);
            let mut body = Assembly::default();
            body.begin(length, self.limits.body_bytes_max)?;
            if state.running.contains_key(&call) || state.incoming.contains_key(&call) {
                return Err(Lost::Malformed("two requests of one number"));
            }
            let of_lane = |incoming: &&Incoming| (incoming.flags ^ flags) & PRIORITY == 0;
            if state.incoming.values().filter(of_lane).count() >= BODIES_AT_ONCE {
                return Err(Lost::Malformed("too many unfinished bodies"));
            }
            state.incoming.insert(
                call,
                Incoming {
                    kind,
                    flags,
                    window_bytes,
                    body,
                },
            );
        }
        let is_last = frame.has(LAST);
        let Some(incoming) = state.incoming.get_mut(&call) else {
            return Err(Lost::Malformed("piece of a body that has not begun"));
        };
        let Some(body) = incoming.body.add(frame.payload, is_last)? else {
            return Ok(());
        };
        match state.incoming.remove(&call) {
            Some(incoming) => self.begin(&mut state, call, &incoming, body),
            None => Ok(()),
        }
    }

    /// Starts the handler of a whole request, or answers that it will not.
    fn begin(
        self: &Arc<Self>,
        state: &mut State,
        call: u64,
        incoming: &Incoming,
        body: Bytes,
    ) -> Result<(), Lost> {
        // Answers that nobody reads would pile up otherwise.
        if self.outbox.len() > 2 * self.limits.calls_max {
            return Err(Lost::Malformed("answers are not read"));
        }
        let is_stream = incoming.flags & STREAM != 0;
        let window_bytes = (incoming.window_bytes as usize).min(self.limits.stream_window_bytes);
        // What a stream may have in its window counts as well.
        let bytes = body.len() + if is_stream { window_bytes } else { 0 };
        let is_busy = state.running.len() >= self.limits.calls_max
            || state.running_bytes + bytes > self.limits.queued_bytes_max
            || self.outbox.queued_bytes() > self.limits.queued_bytes_max;
        let refusal = if incoming.kind >= DISCOVERY_KINDS_END && !self.peer.is_member {
            Some(Status::NotMember)
        } else if state.is_draining {
            Some(Status::ShuttingDown)
        } else {
            is_busy.then_some(Status::Busy)
        };
        if let Some(status) = refusal {
            self.answer(call, incoming.flags, status, Bytes::new());
            return Ok(());
        }
        state.running_bytes += bytes;
        let credit = is_stream.then(|| Arc::new(Credit::new(window_bytes)));
        let task = self.run(call, incoming, body, credit.clone());
        state.running.insert(call, Running { task, bytes, credit });
        Ok(())
    }

    /// Runs the handler. The task takes itself out of the state, which is locked until it is in there.
    fn run(
        self: &Arc<Self>,
        call: u64,
        incoming: &Incoming,
        body: Bytes,
        credit: Option<Arc<Credit>>,
    ) -> AbortHandle {
        let (served, kind, flags) = (self.clone(), incoming.kind, incoming.flags);
        let task = async move {
            let mut unanswered = Unanswered {
                served: &served,
                call,
                flags,
                is_answered: false,
            };
            let peer = served.peer.clone();
            let result = match credit {
                None => served.handler.call(peer, kind, body).await,
                Some(credit) => {
                    let pieces = served.pieces(call, flags, credit);
                    let done = served.handler.stream(peer, kind, body, pieces).await;
                    done.map(|()| Bytes::new())
                }
            };
            unanswered.is_answered = true;
            served.finish(call, flags, result);
        };
        tokio::spawn(task).abort_handle()
    }

    fn pieces(&self, call: u64, flags: u8, credit: Arc<Credit>) -> PieceSender {
        let window_bytes = credit.window_bytes().saturating_sub(PIECE_COST_BYTES);
        PieceSender {
            call,
            flags,
            outbox: self.outbox.clone(),
            credit,
            piece_bytes_max: window_bytes.min(self.limits.body_bytes_max),
        }
    }

    /// Answers a request, unless it was cancelled before it was done.
    fn finish(&self, call: u64, flags: u8, result: Result<Bytes, HandlerError>) {
        let mut state = self.state();
        match state.running.remove(&call) {
            Some(running) => state.running_bytes -= running.bytes,
            // Cancelled at this moment, and done: the one that asked may have to undo it.
            None if result.is_ok() && flags & STREAM == 0 => {}
            None => return,
        }
        drop(state);
        let (status, body) = match result {
            Ok(body) if body.len() > self.limits.body_bytes_max => {
                (Status::Failed, Bytes::from_static(b"the answer is too large"))
            }
            Ok(body) => (Status::Done, body),
            Err(HandlerError::UnknownKind) => (Status::UnknownKind, Bytes::new()),
            Err(HandlerError::Busy) => (Status::Busy, Bytes::new()),
            Err(HandlerError::Failed(text)) => {
                let mut text = Bytes::from(text);
                text.truncate(FAILURE_BYTES_MAX);
                (Status::Failed, text)
            }
        };
        self.answer(call, flags, status, body);
        self.finish_if_drained();
    }

    fn answer(&self, call: u64, flags: u8, status: Status, body: Bytes) {
        let length = u32::try_from(body.len()).expect("within the limit of a body");
        let head = Head::default().put(&[status.code()]).put(&length.to_le_bytes());
        let body = Body {
            kind: Kind::Response,
            flags,
            head,
            bytes: body,
            sent: None,
        };
        self.outbox.push(call, body);
    }

    fn cancel(&self, call: u64) {
        let mut state = self.state();
        state.incoming.remove(&call);
        if let Some(running) = state.running.remove(&call) {
            state.running_bytes -= running.bytes;
            running.task.abort();
        }
        drop(state);
        // An answer that is on its way goes on: the one that asked may have to undo it.
        self.outbox.remove_stream(call);
        self.finish_if_drained();
    }

    /// Tells the other end to ask no more here.
    pub(super) fn say_goodbye(&self, goodbye: Goodbye) {
        self.outbox
            .push_control(Frame::control(Kind::Goodbye, 0, &[goodbye.code()]));
    }

    /// Serves what has begun, and nothing more; then ends.
    pub(super) fn drain(&self) {
        self.state().is_draining = true;
        self.say_goodbye(Goodbye::ShuttingDown);
        self.finish_if_drained();
    }

    fn finish_if_drained(&self) {
        let state = self.state();
        if state.is_draining && state.running.is_empty() {
            self.outbox.finish();
        }
    }

    /// Drops everything: the connection is gone.
    pub(super) fn end(&self) {
        self.outbox.close();
        let mut state = self.state();
        state.incoming.clear();
        for running in std::mem::take(&mut state.running).into_values() {
            running.task.abort();
        }
        state.running_bytes = 0;
    }
}

/// Answers for a handler that panicked.
struct Unanswered<'a> {
    served: &'a Served,
    call: u64,
    flags: u8,
    is_answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let failure = HandlerError::Failed("the handler did not finish".to_owned());
            self.served.finish(self.call, self.flags, Err(failure));
        }
    }
}
