//! Requests and replies as bytes: what is written is read back, no bytes do harm, and the bytes stay what they are.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker::{
    Held, QueueDescription, QueuePage, Receive, Reply, Request, Taken, WaiterId, decode_reply,
    decode_request, encode_reply, encode_request,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use queue_core::attributes::{DeduplicationScope, FifoThroughputLimit};
use queue_core::{
    AttributeChange, AttributeName, Command, Counters, Deduplication, Delivery, EnqueueEntry, Enqueued,
    Handle, PayloadId, QueueAttributes, QueueError, RedrivePolicy,
};
use types::{
    LeaseToken, LogIndex, MessageId, QueueId, QueueKey, QueueName, Sequence, Slot, TenantId, WallTime,
};

use crate::node::Node;
use crate::requests::{create, create_source, key};

fn text() -> impl Strategy<Value = Box<str>> {
    "[a-zA-Z0-9äß ]{0,20}".prop_map(Into::into)
}

fn name() -> impl Strategy<Value = QueueName> {
    "[a-zA-Z0-9_-]{1,75}(\\.fifo)?".prop_map(|name| name.parse().unwrap())
}

fn tenant() -> impl Strategy<Value = TenantId> {
    "[0-9]{12}".prop_map(|digits| digits.parse().unwrap())
}

fn queue_key() -> impl Strategy<Value = QueueKey> {
    (tenant(), name()).prop_map(|(tenant, name)| QueueKey { tenant, name })
}

fn message_id() -> impl Strategy<Value = MessageId> {
    any::<[u8; 16]>().prop_map(MessageId::from_bytes)
}

fn handle() -> impl Strategy<Value = Handle> {
    any::<(u64, u32, u64, u64)>().prop_map(|(queue, slot, sequence, token)| Handle {
        queue: QueueId(queue),
        slot: Slot(slot),
        sequence: Sequence(sequence),
        token: LeaseToken(token),
    })
}

fn duration() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn tags() -> impl Strategy<Value = Vec<(Box<str>, Box<str>)>> {
    vec((text(), text()), 0..4)
}

fn change() -> impl Strategy<Value = AttributeChange> {
    prop_oneof![
        any::<u32>().prop_map(AttributeChange::VisibilityTimeout),
        any::<u32>().prop_map(AttributeChange::KmsDataKeyReusePeriodSeconds),
        option::of(text()).prop_map(AttributeChange::Policy),
        option::of((queue_key(), any::<u32>())).prop_map(|policy| {
            AttributeChange::RedrivePolicy(policy.map(|(dead_letter_queue, max_receive_count)| {
                RedrivePolicy {
                    dead_letter_queue,
                    max_receive_count,
                }
            }))
        }),
        any::<bool>().prop_map(AttributeChange::ContentBasedDeduplication),
        Just(AttributeChange::DeduplicationScope(
            DeduplicationScope::MessageGroup
        )),
        Just(AttributeChange::FifoThroughputLimit(
            FifoThroughputLimit::PerQueue
        )),
        (option::of(text()), option::of(text()))
            .prop_map(|(from, to)| AttributeChange::PolicyFrom { from, to }),
    ]
}

fn content() -> impl Strategy<Value = Arc<[u8]>> {
    vec(any::<u8>(), 0..200).prop_map(Into::into)
}

fn entry() -> impl Strategy<Value = EnqueueEntry> {
    let deduplication = prop_oneof![
        text().prop_map(Deduplication::Id),
        any::<[u8; 32]>().prop_map(Deduplication::BodyHash)
    ];
    (
        message_id(),
        content(),
        any::<u32>(),
        any::<Option<u32>>(),
        option::of(text()),
        option::of(deduplication),
    )
        .prop_map(
            |(message_id, content, size_bytes, delay_seconds, group, deduplication)| EnqueueEntry {
                message_id,
                content,
                size_bytes,
                delay_seconds,
                group,
                deduplication,
            },
        )
}

fn receive() -> impl Strategy<Value = Receive> {
    (
        queue_key(),
        any::<u32>(),
        any::<Option<u32>>(),
        option::of(duration()),
        any::<Option<[u8; 16]>>(),
    )
        .prop_map(|(key, max, visibility_timeout_seconds, wait, attempt)| Receive {
            // It has no name on another node.
            waiter: WaiterId(0),
            key,
            max,
            visibility_timeout_seconds,
            wait,
            attempt,
        })
}

fn handles() -> impl Strategy<Value = Vec<Handle>> {
    vec(handle(), 0..5)
}

fn change_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (queue_key(), vec(change(), 0..5), tags()).prop_map(|(key, attributes, tags)| {
            Request::CreateQueue {
                key,
                attributes,
                tags,
            }
        }),
        queue_key().prop_map(|key| Request::DeleteQueue { key }),
        (queue_key(), vec(change(), 0..5))
            .prop_map(|(key, attributes)| Request::SetQueueAttributes { key, attributes }),
        queue_key().prop_map(|key| Request::PurgeQueue { key }),
        (queue_key(), tags()).prop_map(|(key, tags)| Request::TagQueue { key, tags }),
        (queue_key(), vec(text(), 0..4)).prop_map(|(key, keys)| Request::UntagQueue { key, keys }),
        (
            queue_key(),
            message_id(),
            option::of(queue_key()),
            any::<Option<u32>>()
        )
            .prop_map(|(source, task, destination, rate)| Request::StartMoveTask {
                source,
                task,
                destination,
                rate
            }),
        (queue_key(), message_id()).prop_map(|(source, task)| Request::CancelMoveTask { source, task }),
        duration().prop_map(|by| Request::AdvanceClock { by }),
    ]
}

fn message_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (queue_key(), vec(entry(), 0..5)).prop_map(|(key, entries)| Request::Enqueue { key, entries }),
        receive().prop_map(Request::Receive),
        (queue_key(), handles()).prop_map(|(key, handles)| Request::Delete { key, handles }),
        (queue_key(), vec((handle(), any::<u32>()), 0..5))
            .prop_map(|(key, entries)| Request::ChangeVisibility { key, entries }),
        (any::<u64>().prop_map(QueueId), handles())
            .prop_map(|(queue, handles)| Request::GiveBack { queue, handles }),
        (any::<u64>().prop_map(QueueId), handles())
            .prop_map(|(queue, handles)| Request::Withhold { queue, handles }),
    ]
}

fn read_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        queue_key().prop_map(|key| Request::FindQueue { key }),
        queue_key().prop_map(|key| Request::DescribeQueue { key }),
        (tenant(), text(), option::of(name()), any::<usize>()).prop_map(|(tenant, prefix, after, max)| {
            Request::ListQueues {
                tenant,
                prefix: prefix.into(),
                after,
                max,
            }
        }),
        (queue_key(), any::<usize>()).prop_map(|(source, max)| Request::ListMoveTasks { source, max }),
        (queue_key(), option::of(name()), any::<usize>())
            .prop_map(|(key, after, max)| Request::ListDeadLetterSources { key, after, max }),
    ]
}

fn refusal() -> impl Strategy<Value = QueueError> {
    prop_oneof![
        any::<u32>().prop_map(|max_bytes| QueueError::MessageTooLong { max_bytes }),
        any::<u32>().prop_map(|max_seconds| QueueError::VisibilityTooLong { max_seconds }),
        proptest::sample::select(refusals()),
    ]
}

/// Every refusal.
fn refusals() -> Vec<QueueError> {
    vec![
        QueueError::NoSuchQueue,
        QueueError::QueueDeletedRecently,
        QueueError::AttributeDiffers(AttributeName::FifoThroughputLimit),
        QueueError::PurgeInProgress,
        QueueError::MessageTooLong { max_bytes: 1_024 },
        QueueError::MissingDeduplicationId,
        QueueError::WrongQueueType,
        QueueError::ForeignReceipt,
        QueueError::ReceiptExpired,
        QueueError::VisibilityNotChangeable,
        QueueError::VisibilityTooLong { max_seconds: 43_200 },
        QueueError::AttemptChanged,
        QueueError::NotADeadLetterQueue,
        QueueError::NoSuchDestination,
        QueueError::WrongDestinationType,
        QueueError::TaskRunning,
        QueueError::NoSuchTask,
        QueueError::PolicyChanged,
        QueueError::OverLimit,
    ]
}

fn enqueued() -> impl Strategy<Value = Enqueued> {
    (message_id(), any::<u64>(), any::<Option<u32>>()).prop_map(|(message_id, sequence, slot)| Enqueued {
        message_id,
        sequence: Sequence(sequence),
        slot: slot.map(Slot),
    })
}

fn taken() -> impl Strategy<Value = Taken> {
    (
        (handle(), any::<u32>(), any::<u64>(), any::<u64>()),
        (option::of(queue_key()), any::<u64>(), any::<u32>(), any::<u32>()),
        option::of(message_id()),
        content(),
    )
        .prop_map(|(first, second, message_id, content)| {
            let (handle, receive_count, sent, first_received) = first;
            let (dead_letter_source, index, ordinal, content_bytes) = second;
            Taken {
                delivery: Delivery {
                    handle,
                    receive_count,
                    sent: WallTime::from_millis(sent),
                    first_received: WallTime::from_millis(first_received),
                    dead_letter_source,
                    payload: PayloadId {
                        index: LogIndex(index),
                        ordinal,
                    },
                    content_bytes,
                    message_id,
                },
                content: Held::Memory(content),
                file: None,
            }
        })
}

fn description() -> impl Strategy<Value = QueueDescription> {
    (any::<[u64; 5]>(), tags(), any::<bool>(), option::of(text())).prop_map(
        |(numbers, tags, is_fifo, policy)| QueueDescription {
            attributes: QueueAttributes {
                policy,
                ..QueueAttributes::defaults(is_fifo)
            },
            tags,
            counters: Counters {
                visible: numbers[0],
                delayed: numbers[1],
                in_flight: numbers[2],
            },
            created: WallTime::from_millis(numbers[3]),
            modified: WallTime::from_millis(numbers[4]),
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    let enqueued = prop_oneof![enqueued().prop_map(Ok), refusal().prop_map(Err)];
    let result = prop_oneof![Just(Ok(())), refusal().prop_map(Err)];
    prop_oneof![
        Just(Reply::Done),
        vec(enqueued, 0..10).prop_map(Reply::Enqueued),
        vec(taken(), 0..10).prop_map(Reply::Received),
        vec(result, 0..10).prop_map(Reply::Entries),
        any::<u64>().prop_map(Reply::Moved),
        (vec(name(), 0..10), any::<bool>())
            .prop_map(|(names, has_more)| Reply::Page(QueuePage { names, has_more })),
        description().prop_map(|description| Reply::Description(Box::new(description))),
        refusal().prop_map(Reply::Refused),
        Just(Reply::Unknown),
        Just(Reply::NotTaken),
        Just(Reply::NoRoom),
        option::of(duration()).prop_map(|wait_left| Reply::NotLeader { wait_left }),
    ]
}

proptest! {
    #[test]
    fn a_request_is_read_back_and_every_cut_is_noticed(
        request in prop_oneof![change_request(), message_request(), read_request()]
    ) {
        let bytes = encode_request(&request);
        prop_assert_eq!(decode_request(&bytes), Ok(request));
        for length in 0..bytes.len() {
            prop_assert!(decode_request(&bytes[..length]).is_err(), "cut at {}", length);
        }
        prop_assert!(decode_request(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_reply_is_read_back_and_every_cut_is_noticed(reply in reply()) {
        let bytes = encode_reply(&reply);
        prop_assert_eq!(decode_reply(&bytes), Ok(reply));
        for length in 0..bytes.len() {
            prop_assert!(decode_reply(&bytes[..length]).is_err(), "cut at {}", length);
        }
        prop_assert!(decode_reply(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(kind in 0..24_u8, mut bytes in vec(any::<u8>(), 0..300)) {
        bytes.splice(0..0, [kind, 1]);
        // What can be read is written back as what it was read as.
        if let Ok(request) = decode_request(&bytes) {
            prop_assert_eq!(decode_request(&encode_request(&request)), Ok(request));
        }
        if let Ok(reply) = decode_reply(&bytes) {
            prop_assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
        }
    }
}

#[test]
fn a_length_that_the_bytes_do_not_justify_is_refused() {
    for kind in 0..=u8::MAX {
        let bytes = [&[kind, 1][..], &[0xff; 60]].concat();
        assert!(decode_request(&bytes).is_err(), "{kind}");
        assert!(decode_reply(&bytes).is_err() || kind == 5, "{kind}");
    }
}

#[test]
fn what_a_node_keeps_to_itself_and_newer_versions_are_not_taken() {
    let own = [
        Request::Internal(Command::AddSealKey { key: [1; 32] }),
        Request::Internal(Command::RaiseLevel { level: 1 }),
        Request::EndPolls,
        Request::Cancel { waiter: WaiterId(1) },
    ];
    for request in own {
        assert!(decode_request(&encode_request(&request)).is_err(), "{request:?}");
    }
    let mut bytes = encode_request(&Request::FindQueue { key: key("q") });
    bytes[1] = 2;
    assert!(decode_request(&bytes).is_err());
    let mut bytes = encode_reply(&Reply::Done);
    bytes[1] = 2;
    assert!(decode_reply(&bytes).is_err());
}

/// Move tasks can only be had from an owner.
fn tasks() -> Reply {
    let mut node = Node::with(&[create("dead", &[]), create_source("q", "dead")]);
    let source = key("dead");
    let started = node.ask(Request::StartMoveTask {
        source: source.clone(),
        task: MessageId::from_random([7; 16]),
        destination: Some(key("q")),
        rate: Some(10),
    });
    assert_eq!(started, Reply::Done);
    let tasks = node.ask(Request::ListMoveTasks { source, max: 10 });
    assert!(matches!(&tasks, Reply::Tasks(tasks) if tasks.len() == 1));
    tasks
}

#[test]
fn move_tasks_and_every_refusal_are_read_back() {
    let refused = refusals().into_iter().map(Reply::Refused);
    for reply in refused.chain([tasks()]) {
        assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
    }
}

fn example_handle() -> Handle {
    Handle {
        queue: QueueId(3),
        slot: Slot(9),
        sequence: Sequence(77),
        token: LeaseToken(1 << 40),
    }
}

/// One request of each kind, by its name.
fn requests() -> Vec<(&'static str, Request)> {
    let (q, handles) = (key("q"), vec![example_handle()]);
    let message = EnqueueEntry {
        message_id: MessageId::from_random([1; 16]),
        content: b"content"[..].into(),
        size_bytes: 7,
        delay_seconds: Some(5),
        group: Some("g".into()),
        deduplication: Some(Deduplication::Id("d".into())),
    };
    let tags: Vec<(Box<str>, Box<str>)> = vec![("k".into(), "v".into())];
    let attributes = vec![AttributeChange::VisibilityTimeout(30)];
    let task = MessageId::from_random([2; 16]);
    vec![
        (
            "create-queue",
            Request::CreateQueue {
                key: q.clone(),
                attributes: attributes.clone(),
                tags: tags.clone(),
            },
        ),
        ("delete-queue", Request::DeleteQueue { key: q.clone() }),
        (
            "set-queue-attributes",
            Request::SetQueueAttributes {
                key: q.clone(),
                attributes,
            },
        ),
        ("purge-queue", Request::PurgeQueue { key: q.clone() }),
        (
            "enqueue",
            Request::Enqueue {
                key: q.clone(),
                entries: vec![message],
            },
        ),
        (
            "receive",
            Request::Receive(Receive {
                waiter: WaiterId(0),
                key: q.clone(),
                max: 10,
                visibility_timeout_seconds: Some(60),
                wait: Some(Duration::from_millis(1_500)),
                attempt: Some([3; 16]),
            }),
        ),
        (
            "delete",
            Request::Delete {
                key: q.clone(),
                handles: handles.clone(),
            },
        ),
        (
            "change-visibility",
            Request::ChangeVisibility {
                key: q.clone(),
                entries: vec![(example_handle(), 5)],
            },
        ),
        ("tag-queue", Request::TagQueue { key: q.clone(), tags }),
        (
            "untag-queue",
            Request::UntagQueue {
                key: q.clone(),
                keys: vec!["k".into()],
            },
        ),
        (
            "start-move-task",
            Request::StartMoveTask {
                source: q.clone(),
                task,
                destination: Some(key("r")),
                rate: Some(5),
            },
        ),
        (
            "cancel-move-task",
            Request::CancelMoveTask {
                source: q.clone(),
                task,
            },
        ),
        (
            "give-back",
            Request::GiveBack {
                queue: QueueId(3),
                handles: handles.clone(),
            },
        ),
        (
            "withhold",
            Request::Withhold {
                queue: QueueId(3),
                handles,
            },
        ),
        ("find-queue", Request::FindQueue { key: q.clone() }),
        (
            "list-queues",
            Request::ListQueues {
                tenant: TenantId::DEV,
                prefix: "p".into(),
                after: Some(key("a").name),
                max: 100,
            },
        ),
        ("describe-queue", Request::DescribeQueue { key: q.clone() }),
        (
            "list-move-tasks",
            Request::ListMoveTasks {
                source: q.clone(),
                max: 10,
            },
        ),
        (
            "list-dead-letter-sources",
            Request::ListDeadLetterSources {
                key: q,
                after: None,
                max: 100,
            },
        ),
        (
            "advance-clock",
            Request::AdvanceClock {
                by: Duration::from_nanos(1_000_000_001),
            },
        ),
    ]
}

/// One reply of each kind, by its name.
fn replies() -> Vec<(&'static str, Reply)> {
    let enqueued = Enqueued {
        message_id: MessageId::from_random([1; 16]),
        sequence: Sequence(5),
        slot: Some(Slot(6)),
    };
    let taken = Taken {
        delivery: Delivery {
            handle: example_handle(),
            receive_count: 2,
            sent: WallTime::from_millis(1_000),
            first_received: WallTime::from_millis(2_000),
            dead_letter_source: Some(key("from")),
            payload: PayloadId {
                index: LogIndex(8),
                ordinal: 1,
            },
            content_bytes: 7,
            message_id: Some(MessageId::from_random([4; 16])),
        },
        content: Held::Memory(b"content"[..].into()),
        file: None,
    };
    let page = QueuePage {
        names: vec![key("a").name, key("b.fifo").name],
        has_more: true,
    };
    let description = QueueDescription {
        attributes: QueueAttributes::defaults(true),
        tags: vec![("k".into(), "v".into())],
        counters: Counters {
            visible: 1,
            delayed: 2,
            in_flight: 3,
        },
        created: WallTime::from_millis(4),
        modified: WallTime::from_millis(5),
    };
    vec![
        ("done", Reply::Done),
        (
            "enqueued",
            Reply::Enqueued(vec![
                Ok(enqueued),
                Err(QueueError::MessageTooLong { max_bytes: 9 }),
            ]),
        ),
        ("received", Reply::Received(vec![taken])),
        (
            "entries",
            Reply::Entries(vec![Ok(()), Err(QueueError::ReceiptExpired)]),
        ),
        ("moved", Reply::Moved(12)),
        ("tasks", tasks()),
        ("page", Reply::Page(page)),
        ("description", Reply::Description(Box::new(description))),
        (
            "refused",
            Reply::Refused(QueueError::AttributeDiffers(AttributeName::Policy)),
        ),
        ("unknown", Reply::Unknown),
        ("not-taken", Reply::NotTaken),
        ("no-room", Reply::NoRoom),
        (
            "not-leader",
            Reply::NotLeader {
                wait_left: Some(Duration::from_millis(2_500)),
            },
        ),
    ]
}

#[test]
fn every_kind_keeps_its_bytes() {
    let requests = requests();
    let replies = replies();
    let line = |prefix: &str, name: &str, bytes: &[u8]| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{prefix} {name} {hex}\n")
    };
    let written: String = requests
        .iter()
        .map(|(name, request)| line("request", name, &encode_request(request)))
        .chain(
            replies
                .iter()
                .map(|(name, reply)| line("reply", name, &encode_reply(reply))),
        )
        .collect();
    assert_eq!(written, fixture("forward-1.txt", &written));
    for (name, request) in requests {
        assert_eq!(decode_request(&encode_request(&request)), Ok(request), "{name}");
    }
    for (name, reply) in replies {
        assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply), "{name}");
    }
}

/// Reads a stored file. `UPDATE_FIXTURES=1` writes one that is missing.
fn fixture(name: &str, written: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    if !path.exists() && std::env::var_os("UPDATE_FIXTURES").is_some() {
        fs::write(&path, written).unwrap();
    }
    fs::read_to_string(&path).unwrap()
}
