//! CreateQueue: makes a queue, or finds the one that is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{QueueKey, Sequence};

use crate::attributes::{AttributeChange, QueueAttributes};
use crate::queue::{Queue, Record, Settings};
use crate::{Context, Outcome, Partition, QueueError};

pub(super) fn apply(
    partition: &mut Partition,
    context: Context,
    key: &QueueKey,
    changes: &[AttributeChange],
    tags: &[(Box<str>, Box<str>)],
    deleted_name_wait_seconds: u32,
) -> Result<Outcome, QueueError> {
    if let Some(id) = partition.queue_id(key) {
        let queue = partition.queue(id).expect("every name leads to a queue");
        return match queue.attributes().differing(changes) {
            Some(name) => Err(QueueError::AttributeDiffers(name)),
            None => Ok(Outcome::Queue(id)),
        };
    }
    let deleted = partition.deleted_names.get(key);
    if deleted.is_some_and(|at| at.plus_seconds(deleted_name_wait_seconds) > partition.clock) {
        return Err(QueueError::QueueDeletedRecently);
    }
    let mut attributes = QueueAttributes::defaults(key.name.is_fifo());
    changes.iter().for_each(|change| attributes.change(change));
    if let Some(fifo) = &mut attributes.fifo {
        fifo.effective_scope = fifo.deduplication_scope;
    }
    let id = partition.last_queue.next();
    partition.last_queue = id;
    let settings = Settings {
        key: key.clone(),
        attributes,
        tags: tags.iter().cloned().collect::<BTreeMap<_, _>>(),
        created: context.wall,
        modified: context.wall,
    };
    let record = Record {
        id,
        settings: Arc::new(settings),
        next_sequence: Sequence(1),
        floor: Sequence(1),
        generation: 0,
        purged_at: None,
        is_fair: false,
        takes: 0,
        moving: None,
    };
    let mut queue = Queue::new(record);
    queue.in_flight_max = partition.in_flight_max();
    partition.queues.insert(id, queue);
    partition.names.insert(key.clone(), id);
    partition.list_source(id);
    Ok(Outcome::Queue(id))
}
