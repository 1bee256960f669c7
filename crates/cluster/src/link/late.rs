//! Answers that come when nobody waits for them any more: what they say was done may have to be undone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::frame::{Assembly, FIRST, LAST, Received, Status};
use super::{LinkError, Lost};

/// Calls of one connection that are remembered after they were cancelled. Most are never answered, and an answer that was
/// on its way comes at once, so the oldest is forgotten for the newest.
const CALLS_MAX: usize = 1_024;

/// Hears an answer whose caller has gone. It is called on the links' tasks or where a call is dropped, and must not wait.
#[derive(Clone)]
pub struct LateAnswer(Arc<dyn Fn(Bytes) + Send + Sync>);

impl LateAnswer {
    /// Gives late answers to a function.
    pub fn new(hear: impl Fn(Bytes) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(super) fn hear(&self, answer: Bytes) {
        (self.0)(answer);
    }
}

impl fmt::Debug for LateAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateAnswer")
    }
}

/// A response of which some has come.
#[derive(Debug)]
pub(super) struct Response {
    status: Status,
    assembly: Assembly,
}

impl Response {
    pub(super) fn awaited() -> Self {
        Self {
            status: Status::Done,
            assembly: Assembly::default(),
        }
    }

    /// Takes a frame of it; returns the whole with the last one.
    pub(super) fn add(
        &mut self,
        mut frame: Received,
        body_bytes_max: usize,
    ) -> Result<Option<(Status, Bytes)>, Lost> {
        if frame.has(FIRST) {
            self.status = Status::from_code(frame.take_u8()?)?;
            self.assembly.begin(frame.take_u32()?, body_bytes_max)?;
        }
        let is_last = frame.has(LAST);
        let body = self.assembly.add(frame.payload, is_last)?;
        Ok(body.map(|body| (self.status, body)))
    }
}

/// The calls of a connection that were cancelled and may still be answered, in the order of their cancelling.
#[derive(Debug, Default)]
pub(super) struct LateCalls(VecDeque<(u64, Response, LateAnswer)>);

impl LateCalls {
    pub(super) fn remember(&mut self, call: u64, response: Response, late: LateAnswer) {
        if self.0.len() == CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((call, response, late));
    }

    /// Takes a frame for a call that nobody waits for; returns who hears the answer that it completes.
    pub(super) fn receive(
        &mut self,
        frame: Received,
        body_bytes_max: usize,
    ) -> Result<Option<(LateAnswer, Bytes)>, Lost> {
        let Some(at) = self.0.iter().position(|(call, ..)| *call == frame.call) else {
            return Ok(None);
        };
        let Some((status, body)) = self.0[at].1.add(frame, body_bytes_max)? else {
            return Ok(None);
        };
        let completed = self.0.remove(at).filter(|_| status == Status::Done);
        Ok(completed.map(|(_, _, late)| (late, body)))
    }
}

/// An answer that is waited for. If it has come when this is dropped, it was too late.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) answer: oneshot::Receiver<Result<Bytes, LinkError>>,
    pub(super) late: Option<LateAnswer>,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        // Whatever comes from here on is refused, and heard where it came.
        self.answer.close();
        if let (Some(late), Ok(Ok(body))) = (&self.late, self.answer.try_recv()) {
            late.hear(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Kind;
    use super::*;

    #[test]
    fn the_oldest_of_many_cancelled_calls_is_forgotten() {
        let response = |call| Received {
            kind: Kind::Response,
            flags: FIRST | LAST,
            call,
            payload: Bytes::from_static(&[0, 1, 0, 0, 0, 7]),
        };
        let mut late = LateCalls::default();
        for call in 0..=CALLS_MAX as u64 {
            late.remember(call, Response::awaited(), LateAnswer::new(drop));
        }
        let mut heard = |call| late.receive(response(call), 10).unwrap().map(|(_, body)| body);
        assert_eq!(heard(0), None);
        assert_eq!(heard(1), Some(Bytes::from_static(&[7])));
        assert_eq!(heard(1), None, "an answer is heard once");
        assert_eq!(heard(CALLS_MAX as u64), Some(Bytes::from_static(&[7])));
    }
}
