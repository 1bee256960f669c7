//! Turns symbolic steps into commands and times. It knows what a client knows: the answers so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use queue_core::{Applied, Command, Content, Context, Deduplication, EnqueueEntry, Handle, Outcome, TaskId};
use types::{LogIndex, MessageId, QueueId, Timestamp, WallTime};

use crate::model::Model;
use crate::rng::Rng;
use crate::steps::{Clock, Kind, Op, Pick, QUEUES, Send, SendId, key};

/// The state clock of a new partition.
const BEGIN: u64 = 1_000_000;
/// Handles that the clients of a long sequence still know.
const HANDLES_KEPT: usize = 300;
/// The wall clock then.
const WALL_BEGIN: u64 = 1_700_000_000_000;

#[derive(Debug)]
pub(crate) struct Play {
    handles: Vec<Handle>,
    /// The newest incarnation of every queue, also of those that are gone.
    ids: [QueueId; QUEUES],
    /// Move tasks that were asked for, the newest last.
    tasks: Vec<(QueueId, TaskId)>,
    sent: u64,
    pub(crate) index: u64,
    wall: Rng,
    /// The deduplication hash of a body, so that it is made once.
    bodies: BTreeMap<u8, [u8; 32]>,
}

impl Play {
    pub(crate) fn new() -> Self {
        Self {
            handles: Vec::new(),
            // An id that no queue ever had.
            ids: [QueueId(u64::MAX); QUEUES],
            tasks: Vec::new(),
            sent: 0,
            index: 0,
            wall: Rng::new(1),
            bodies: BTreeMap::new(),
        }
    }

    /// Returns the context of the next entry: time goes on as the step says, and the wall clock as it likes.
    pub(crate) fn context(&mut self, clock: Clock, model: &Model) -> Context {
        self.index += 1;
        let at = resolve(clock, model);
        let wobble = self.wall.below(7_200_000);
        Context {
            at: Timestamp::from_millis(at),
            wall: WallTime::from_millis(WALL_BEGIN + at + wobble),
            index: LogIndex(self.index),
            ordinal: 0,
        }
    }

    /// Returns the command of a step, or a tick where there is nothing to name yet.
    pub(crate) fn command(&mut self, op: &Op, model: &Model) -> Command {
        match op {
            Op::Create {
                queue,
                attributes,
                wait,
            } => Command::CreateQueue {
                key: key(*queue),
                attributes: attributes.clone(),
                tags: vec![("team".into(), "a".into())],
                deleted_name_wait_seconds: *wait,
            },
            Op::DeleteQueue { queue } => Command::DeleteQueue {
                queue: self.ids[*queue],
            },
            Op::SetAttributes { queue, attributes } => Command::SetQueueAttributes {
                queue: self.ids[*queue],
                attributes: attributes.clone(),
            },
            Op::Purge { queue, wait } => Command::PurgeQueue {
                queue: self.ids[*queue],
                purge_wait_seconds: *wait,
            },
            Op::Send { queue, entries } => Command::Enqueue {
                queue: self.ids[*queue],
                entries: entries.iter().map(|entry| self.entry(entry)).collect(),
            },
            Op::Receive {
                queue,
                max,
                visibility,
                long,
                attempt,
            } => Command::Receive {
                queue: self.ids[*queue],
                max: *max,
                visibility_timeout_seconds: *visibility,
                is_long_poll: *long,
                attempt: attempt.map(|attempt| [attempt; 16]),
            },
            Op::Delete { queue, picks } => {
                let handles = self.pick_all(*queue, picks, model);
                if handles.is_empty() {
                    Command::Tick
                } else {
                    Command::Delete {
                        queue: self.ids[*queue],
                        handles,
                    }
                }
            }
            Op::ChangeVisibility { queue, picks } => {
                let entries: Vec<_> = picks
                    .iter()
                    .filter_map(|(pick, seconds)| Some((self.pick(*queue, *pick, model)?, *seconds)))
                    .collect();
                if entries.is_empty() {
                    Command::Tick
                } else {
                    Command::ChangeVisibility {
                        queue: self.ids[*queue],
                        entries,
                    }
                }
            }
            Op::GiveBack { queue, picks } => {
                let handles = self.pick_all(*queue, picks, model);
                if handles.is_empty() {
                    Command::Tick
                } else {
                    Command::GiveBack {
                        queue: self.ids[*queue],
                        handles,
                    }
                }
            }
            Op::Withhold { queue, picks } => {
                let handles = self.pick_all(*queue, picks, model);
                if handles.is_empty() {
                    Command::Tick
                } else {
                    Command::Withhold {
                        queue: self.ids[*queue],
                        handles,
                    }
                }
            }
            Op::Discard { queue, picks } => {
                let handles = self.pick_all(*queue, picks, model);
                if handles.is_empty() {
                    Command::Tick
                } else {
                    Command::Discard {
                        queue: self.ids[*queue],
                        handles,
                    }
                }
            }
            Op::Tag { queue, tags } => Command::TagQueue {
                queue: self.ids[*queue],
                tags: tags
                    .iter()
                    .map(|(tag, value)| (tag_key(*tag), format!("value-{value}").into()))
                    .collect(),
            },
            Op::Untag { queue, keys } => Command::UntagQueue {
                queue: self.ids[*queue],
                keys: keys.iter().map(|tag| tag_key(*tag)).collect(),
            },
            Op::StartTask {
                queue,
                destination,
                rate,
            } => {
                self.sent += 1;
                let mut id = [1; 16];
                id[..8].copy_from_slice(&self.sent.to_le_bytes());
                let task = TaskId::from_random(id);
                let source = self.ids[*queue];
                self.tasks.push((source, task));
                Command::StartMoveTask {
                    source,
                    task,
                    destination: destination.map(key),
                    rate: *rate,
                }
            }
            Op::CancelTask { n, queue } => match self.tasks.iter().rev().nth(*n as usize) {
                Some((source, task)) => Command::CancelMoveTask {
                    source: queue.map_or(*source, |queue| self.ids[queue]),
                    task: *task,
                },
                None => Command::Tick,
            },
            Op::SealKey => Command::AddSealKey { key: [7; 32] },
            Op::Tick | Op::Restart => Command::Tick,
        }
    }

    /// Takes note of an answer.
    pub(crate) fn learn(&mut self, command: &Command, applied: &Applied) {
        match (&applied.outcome, command) {
            (Ok(Outcome::Queue(id)), Command::CreateQueue { key: created, .. }) => {
                if let Some(queue) = (0..QUEUES).find(|queue| key(*queue) == *created) {
                    self.ids[queue] = *id;
                }
            }
            (Ok(Outcome::Received(deliveries)), _) => {
                self.handles
                    .extend(deliveries.iter().map(|delivery| delivery.handle));
                let old = self.handles.len().saturating_sub(HANDLES_KEPT);
                self.handles.drain(..old);
            }
            _ => {}
        }
    }

    fn entry(&mut self, send: &Send) -> EnqueueEntry {
        self.sent += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.sent.to_le_bytes());
        let body = |body: u8, bodies: &mut BTreeMap<u8, [u8; 32]>| {
            *bodies
                .entry(body)
                .or_insert_with(|| Rng::new(u64::from(body)).bytes())
        };
        let deduplication = match send.deduplication {
            SendId::None => None,
            SendId::Fresh => Some(Deduplication::Id(format!("fresh-{}", self.sent).into())),
            SendId::Given(n) => Some(Deduplication::Id(format!("id-{n}").into())),
            SendId::Body(n) => Some(Deduplication::BodyHash(body(n, &mut self.bodies))),
            SendId::BodyHex(n) => {
                let hex: String = body(n, &mut self.bodies)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                Some(Deduplication::Id(hex.into()))
            }
        };
        let message_id = MessageId::from_random(id);
        EnqueueEntry {
            message_id,
            content: content(message_id),
            size_bytes: send.size_bytes,
            delay_seconds: send.delay_seconds,
            group: send.group.map(|group| format!("group-{group}").into()),
            deduplication,
        }
    }

    fn pick_all(&self, queue: usize, picks: &[Pick], model: &Model) -> Vec<Handle> {
        picks
            .iter()
            .filter_map(|pick| self.pick(queue, *pick, model))
            .collect()
    }

    /// Returns a handle of the kind, or any if there is none of that kind.
    fn pick(&self, queue: usize, pick: Pick, model: &Model) -> Option<Handle> {
        let id = self.ids[queue];
        let is_wanted = |handle: &&Handle| match pick.kind {
            Kind::Any => true,
            Kind::Foreign => handle.queue != id,
            Kind::Current => handle.queue == id && model.message(handle).is_some_and(|(_, current)| current),
            Kind::Stale => handle.queue == id && model.message(handle).is_some_and(|(_, current)| !current),
            Kind::Gone => handle.queue == id && model.message(handle).is_none(),
        };
        let mut wanted: Vec<&Handle> = self.handles.iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            wanted = self.handles.iter().filter(|handle| handle.queue == id).collect();
        }
        // The newest are the most interesting ones.
        let from = wanted.len().saturating_sub(8);
        let recent = &wanted[from..];
        recent
            .get(pick.n as usize % recent.len().max(1))
            .map(|handle| **handle)
    }
}

fn tag_key(tag: u8) -> Box<str> {
    format!("tag-{tag}").into()
}

/// Returns a content in its stored form, so that a moved message can be given another id.
fn content(message_id: MessageId) -> Arc<[u8]> {
    let content = Content {
        message_id,
        body_md5: [0; 16],
        sender: "",
        group: None,
        deduplication_id: None,
        trace_header: None,
        attributes: Vec::new(),
        body: "body",
    };
    content.encode().into()
}

/// Returns the time that a clock step leads to.
fn resolve(clock: Clock, model: &Model) -> u64 {
    let now = model.now.max(BEGIN);
    let after = |millis: u64, offset: i64| now.saturating_add_signed(offset.saturating_add_unsigned(millis));
    let queue = |queue: usize| model.find(&key(queue));
    match clock {
        Clock::Stay => now,
        Clock::Millis(millis) => now + millis,
        Clock::Back(millis) => now - millis.min(now),
        Clock::Visibility { queue: at, offset } => after(
            queue(at).map_or(0, |queue| u64::from(queue.visibility_seconds()) * 1_000),
            offset,
        ),
        Clock::Retention { queue: at, offset } => {
            // A queue that keeps its messages for days would only ever see empty ones.
            let retention = queue(at).map_or(0, |queue| queue.retention_millis());
            if retention > 500_000 {
                now
            } else {
                after(retention, offset)
            }
        }
        Clock::Deduplication { offset } => after(300_000, offset),
        Clock::Lapse { pick, offset } => nearby(model.lapses(), now, pick, offset),
        Clock::Deadline { pick, offset } => nearby(model.deadlines(), now, pick, offset),
    }
}

/// Returns a time at one of the deadlines ahead: mostly the next few, now and then any.
fn nearby(mut deadlines: Vec<u64>, now: u64, pick: u32, offset: i64) -> u64 {
    deadlines.retain(|at| *at > now);
    deadlines.sort_unstable();
    deadlines.dedup();
    let near = deadlines
        .len()
        .min(if pick.is_multiple_of(8) { usize::MAX } else { 3 });
    let at = deadlines[..near].get(pick as usize % near.max(1));
    at.map_or(now, |at| at.saturating_add_signed(offset).max(now))
}
