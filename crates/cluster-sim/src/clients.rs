//! Clients that send, receive, delete and change visibility through any node, and write down what they were told.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker::{Broker, BrokerError, ReceiveOptions, Received, ReceivedMessage};
use history::{Call, DeadLetters, Delivery, Queue, Recorder, Reply, Ticket};
use queue_core::{AttributeChange, Content, Deduplication, EnqueueEntry, Handle, RedrivePolicy};
use simulator::Random;
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use types::{MessageId, QueueKey, TenantId};

use crate::trace::Trace;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(14);
/// The longest lease that a client asks for, in seconds.
pub(crate) const LEASE_SECONDS_MAX: u32 = 5;
/// A poll that takes longer may have been taken to another leader, in microseconds.
const POLL_USUAL: u64 = 150_000;
const GROUPS: u64 = 3;
/// Sends in a hundred to a FIFO queue that repeat the one before.
const REPEAT_PERCENT: u64 = 25;
/// Messages in a hundred that are deleted at once, and those that are deleted when another may have them.
const DELETE_PERCENT: u64 = 55;
const LATE_DELETE_PERCENT: u64 = 8;
const CHANGE_PERCENT: u64 = 12;
/// Requests in a hundred whose client goes before the answer.
const LEAVE_PERCENT: u64 = 3;

/// A queue of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSpec {
    pub(crate) name: &'static str,
    visibility_seconds: u32,
    dead_letters: Option<(usize, u32)>,
}

/// The queues of every run. Those that others name come first.
pub(crate) const QUEUES: [QueueSpec; 6] = [
    QueueSpec {
        name: "dead",
        visibility_seconds: 4,
        dead_letters: None,
    },
    QueueSpec {
        name: "dead.fifo",
        visibility_seconds: 4,
        dead_letters: None,
    },
    QueueSpec {
        name: "plain",
        visibility_seconds: 3,
        dead_letters: None,
    },
    QueueSpec {
        name: "retry",
        visibility_seconds: 2,
        dead_letters: Some((0, 2)),
    },
    QueueSpec {
        name: "plain.fifo",
        visibility_seconds: 3,
        dead_letters: None,
    },
    QueueSpec {
        name: "retry.fifo",
        visibility_seconds: 2,
        dead_letters: Some((1, 2)),
    },
];
/// Those that are sent to.
const SENT_TO: std::ops::Range<u64> = 2..6;

impl QueueSpec {
    pub(crate) fn key(self) -> QueueKey {
        QueueKey {
            tenant: TenantId::DEV,
            name: self.name.parse().expect("the name of a queue"),
        }
    }

    fn is_fifo(self) -> bool {
        self.key().name.is_fifo()
    }

    /// Returns it as the checker has to know it.
    pub(crate) fn recorded(self) -> Queue {
        Queue {
            name: self.name.to_owned(),
            retention_micros: 4 * 24 * 3_600 * 1_000_000,
            deduplication_micros: if self.is_fifo() { 300_000_000 } else { 0 },
            dead_letters: self.dead_letters.map(|(queue, max_receive_count)| DeadLetters {
                queue,
                max_receive_count,
            }),
        }
    }

    fn attributes(self) -> Vec<AttributeChange> {
        let redrive = self.dead_letters.map(|(queue, max_receive_count)| {
            AttributeChange::RedrivePolicy(Some(RedrivePolicy {
                dead_letter_queue: QUEUES[queue].key(),
                max_receive_count,
            }))
        });
        let visibility = AttributeChange::VisibilityTimeout(self.visibility_seconds);
        redrive.into_iter().chain([visibility]).collect()
    }
}

/// The nodes that can be asked.
pub(crate) type Directory = Arc<Mutex<Vec<Option<(Broker, Runtime)>>>>;

/// What a client was told.
pub(crate) enum Told<T> {
    Answer(Result<T, BrokerError>),
    /// The connection ended, or the client did not wait any longer.
    Nothing,
    /// There is no such node now.
    Down,
}

/// A client.
pub(crate) struct Client {
    pub(crate) process: u32,
    pub(crate) random: Random,
    pub(crate) directory: Directory,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) trace: Arc<Trace>,
    sent: u64,
    /// Requests in a hundred that it does not wait for to the end.
    leaves_percent: u64,
    /// The last message sent to a FIFO queue.
    last: Option<(usize, String, String)>,
}

impl Client {
    pub(crate) fn new(
        process: u32,
        seed: u64,
        directory: Directory,
        recorder: Arc<Recorder>,
        trace: Arc<Trace>,
    ) -> Self {
        Self {
            process,
            random: Random::new(seed),
            directory,
            recorder,
            trace,
            sent: 0,
            leaves_percent: LEAVE_PERCENT,
            last: None,
        }
    }

    /// Waits for every answer from now on.
    pub(crate) fn stay(&mut self) {
        self.leaves_percent = 0;
    }

    fn draw_node(&mut self) -> usize {
        let nodes = self
            .directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        usize::try_from(self.random.below(nodes as u64)).unwrap_or(0)
    }

    /// Asks a node, in its own process, as a connection to it would.
    async fn ask<T, F>(&mut self, node: usize, request: impl FnOnce(Broker) -> F) -> Told<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BrokerError>> + Send + 'static,
    {
        let there = self.directory.lock().unwrap_or_else(PoisonError::into_inner)[node].clone();
        let Some((broker, runtime)) = there else {
            return Told::Down;
        };
        let (answer, answered) = oneshot::channel();
        let request = request(broker);
        let task = runtime.spawn(async move {
            // A client that has gone hears nothing.
            drop(answer.send(request.await));
        });
        let patience = match self.random.percent(self.leaves_percent) {
            true => Duration::from_millis(self.random.below(50)),
            false => PATIENCE,
        };
        match timeout(patience, answered).await {
            Ok(Ok(answer)) => Told::Answer(answer),
            Ok(Err(_)) => Told::Nothing,
            Err(_) => {
                task.abort();
                Told::Nothing
            }
        }
    }

    fn invoke(&self, node: usize, call: Call) -> Ticket {
        let now = self.trace.now();
        self.recorder
            .invoke(self.process, u32::try_from(node).unwrap_or(0), now, call)
    }

    fn complete(&self, ticket: Ticket, reply: Reply) {
        let process = self.process;
        self.trace.note(format_args!("client {process} {reply:?}"));
        // What nobody has answered goes on.
        if reply != Reply::Unknown {
            self.recorder.complete(ticket, self.trace.now(), reply);
        }
    }

    /// Makes a queue, as often as it takes.
    pub(crate) async fn create_queues(&mut self) {
        for queue in QUEUES {
            loop {
                let node = self.draw_node();
                let asked = self
                    .ask(node, |broker| async move {
                        broker
                            .create_queue(queue.key(), queue.attributes(), Vec::new())
                            .await
                    })
                    .await;
                if matches!(asked, Told::Answer(Ok(()))) {
                    break;
                }
                sleep_until(Instant::now() + Duration::from_millis(100)).await;
            }
            self.trace.note(format_args!("queue {} is there", queue.name));
        }
    }

    /// Sends until the time is over.
    pub(crate) async fn produce(mut self, until: u64, think: Duration) {
        while self.trace.now() < until {
            self.send_once().await;
            self.pause(think).await;
        }
    }

    async fn send_once(&mut self) {
        let queue = usize::try_from(SENT_TO.start + self.random.below(SENT_TO.end - SENT_TO.start));
        let mut queue = queue.unwrap_or(2);
        self.sent += 1;
        let mut body = format!("{}.{}", self.process, self.sent);
        let mut group = format!("g{}", self.random.below(GROUPS));
        if let Some((last_queue, last_group, last_body)) = self.last.take()
            && self.random.percent(REPEAT_PERCENT)
        {
            (queue, group, body) = (last_queue, last_group, last_body);
        }
        let is_fifo = QUEUES[queue].is_fifo();
        if is_fifo {
            self.last = Some((queue, group.clone(), body.clone()));
        }
        let (group, deduplication) = (is_fifo.then_some(group), is_fifo.then(|| body.clone()));
        let node = self.draw_node();
        let ticket = self.invoke(
            node,
            Call::Send {
                queue,
                body: body.clone(),
                group: group.clone(),
                deduplication: deduplication.clone(),
            },
        );
        let mut id = [0; 16];
        for half in id.chunks_mut(8) {
            half.copy_from_slice(&self.random.next_u64().to_le_bytes());
        }
        let entry = entry(MessageId::from_random(id), &body, group.as_deref(), deduplication);
        let key = QUEUES[queue].key();
        let asked = self
            .ask(
                node,
                |broker| async move { broker.enqueue(key, vec![entry]).await },
            )
            .await;
        let reply = match asked {
            Told::Answer(Ok(results)) => match results.into_iter().next() {
                Some(Ok(sent)) => Reply::Sent {
                    message: sent.message_id.to_string(),
                    sequence: is_fifo.then_some(sent.sequence.0),
                },
                Some(Err(error)) => Reply::Refused(error.to_string()),
                None => Reply::Unknown,
            },
            other @ (Told::Answer(Err(_)) | Told::Nothing | Told::Down) => without_answer(other),
        };
        self.complete(ticket, reply);
    }

    /// Receives, and deletes most of it, until the time is over.
    pub(crate) async fn consume(mut self, until: u64, think: Duration) {
        while self.trace.now() < until {
            let queue = usize::try_from(self.random.below(QUEUES.len() as u64)).unwrap_or(0);
            let lease = 1 + u32::try_from(self.random.below(u64::from(LEASE_SECONDS_MAX))).unwrap_or(0);
            let wait = u32::try_from(self.random.below(3)).unwrap_or(0);
            let max = 1 + u32::try_from(self.random.below(4)).unwrap_or(0);
            let node = self.draw_node();
            let received = self.receive(node, queue, lease, wait, max).await;
            for (handle, sealed) in received.into_iter().flatten() {
                self.handle(queue, handle, sealed, lease).await;
            }
            self.pause(think).await;
        }
    }

    /// Does what a client does with a message.
    async fn handle(&mut self, queue: usize, handle: Handle, sealed: String, lease: u32) {
        let drawn = self.random.below(100);
        if drawn < DELETE_PERCENT {
            self.delete(queue, handle, sealed).await;
        } else if drawn < DELETE_PERCENT + LATE_DELETE_PERCENT {
            let late = Duration::from_millis(u64::from(lease) * 1_000 + self.random.below(3_000));
            sleep_until(Instant::now() + late).await;
            self.delete(queue, handle, sealed).await;
        } else if drawn < DELETE_PERCENT + LATE_DELETE_PERCENT + CHANGE_PERCENT {
            let seconds = u32::try_from(self.random.below(u64::from(LEASE_SECONDS_MAX))).unwrap_or(0);
            self.change(queue, handle, sealed, seconds).await;
        }
    }

    async fn pause(&mut self, think: Duration) {
        let micros = u64::try_from(think.as_micros()).unwrap_or(0);
        sleep_until(Instant::now() + Duration::from_micros(self.random.below(micros + 1))).await;
    }

    /// Receives, and returns the handles as they are and as clients see them; none if there was no answer.
    pub(crate) async fn receive(
        &mut self,
        node: usize,
        queue: usize,
        lease: u32,
        wait: u32,
        max: u32,
    ) -> Option<Vec<(Handle, String)>> {
        let options = ReceiveOptions {
            max,
            visibility_timeout_seconds: Some(lease),
            wait_seconds: Some(wait),
            attempt: None,
        };
        let visibility_micros = u64::from(lease) * 1_000_000;
        let call = Call::Receive {
            queue,
            visibility_micros,
        };
        let (invoked, lost) = (self.trace.now(), call.clone());
        let ticket = self.invoke(node, call);
        let key = QUEUES[queue].key();
        let asked = self
            .ask(node, |broker| async move { broker.receive(key, options).await })
            .await;
        let (reply, handles) = match asked {
            Told::Answer(Ok(Received { messages, take })) => {
                if let Some(take) = take {
                    take.delivered();
                }
                let is_fifo = QUEUES[queue].is_fifo();
                let handles = messages
                    .iter()
                    .map(|message| (message.delivery.handle, text(&message.delivery.handle)))
                    .collect();
                let deliveries = messages
                    .iter()
                    .map(|message| delivery(message, is_fifo))
                    .collect();
                (Reply::Received(deliveries), Some(handles))
            }
            other @ (Told::Answer(Err(_)) | Told::Nothing | Told::Down) => (without_answer(other), None),
        };
        // A poll that waits on at another leader may have left what it took at the one before.
        if wait > 0 && self.trace.now() > invoked + POLL_USUAL {
            self.recorder
                .invoke(self.process, u32::try_from(node).unwrap_or(0), invoked, lost);
        }
        self.complete(ticket, reply);
        handles
    }

    pub(crate) async fn delete(&mut self, queue: usize, handle: Handle, sealed: String) {
        let node = self.draw_node();
        let ticket = self.invoke(
            node,
            Call::Delete {
                queue,
                handle: sealed,
            },
        );
        let key = QUEUES[queue].key();
        let asked = self
            .ask(
                node,
                |broker| async move { broker.delete(key, vec![handle]).await },
            )
            .await;
        self.complete(ticket, of_entry(asked));
    }

    async fn change(&mut self, queue: usize, handle: Handle, sealed: String, seconds: u32) {
        let node = self.draw_node();
        let ticket = self.invoke(
            node,
            Call::ChangeVisibility {
                queue,
                handle: sealed,
                visibility_micros: u64::from(seconds) * 1_000_000,
            },
        );
        let key = QUEUES[queue].key();
        let entries = vec![(handle, seconds)];
        let asked = self
            .ask(node, |broker| async move {
                broker.change_visibility(key, entries).await
            })
            .await;
        self.complete(ticket, of_entry(asked));
    }
}

fn without_answer<T>(told: Told<T>) -> Reply {
    match told {
        Told::Answer(Err(BrokerError::Unknown) | Ok(_)) | Told::Nothing => Reply::Unknown,
        Told::Answer(Err(error)) => Reply::Refused(error.to_string()),
        Told::Down => Reply::Refused("the node is down".to_owned()),
    }
}

fn of_entry(told: Told<Vec<Result<(), queue_core::QueueError>>>) -> Reply {
    match told {
        Told::Answer(Ok(results)) => match results.into_iter().next() {
            Some(Ok(())) => Reply::Done,
            Some(Err(error)) => Reply::Refused(error.to_string()),
            None => Reply::Unknown,
        },
        other @ (Told::Answer(Err(_)) | Told::Nothing | Told::Down) => without_answer(other),
    }
}

fn text(handle: &Handle) -> String {
    format!("{handle:?}")
}

fn delivery(message: &ReceivedMessage, is_fifo: bool) -> Delivery {
    let content = Content::decode(&message.content).expect("a content that a client sent");
    Delivery {
        message: message
            .delivery
            .message_id
            .unwrap_or(content.message_id)
            .to_string(),
        handle: text(&message.delivery.handle),
        body: content.body.to_owned(),
        receive_count: message.delivery.receive_count,
        sequence: is_fifo.then_some(message.delivery.handle.sequence.0),
        group: content.group.map(str::to_owned),
    }
}

fn entry(id: MessageId, body: &str, group: Option<&str>, deduplication: Option<String>) -> EnqueueEntry {
    let content = Content {
        message_id: id,
        body_md5: [0; 16],
        sender: "sim",
        group,
        deduplication_id: deduplication.as_deref(),
        trace_header: None,
        attributes: Vec::new(),
        body,
    };
    EnqueueEntry {
        message_id: id,
        content: content.encode().into(),
        size_bytes: u32::try_from(body.len()).unwrap_or(0),
        delay_seconds: None,
        group: group.map(Into::into),
        deduplication: deduplication.map(|id| Deduplication::Id(id.into())),
    }
}
