//! What messages cost in memory.

use crate::Partition;

impl Partition {
    /// Returns the bytes of memory that messages and deduplication ids take: every column and list that grows with
    /// them, as large as it is allocated. Contents, queues, message groups and receive attempts are not counted.
    pub fn memory_bytes(&self) -> usize {
        let queues: usize = self.queues.values().map(crate::Queue::memory_bytes).sum();
        self.slab.memory_bytes() + self.timers.memory_bytes() + queues
    }
}

#[cfg(test)]
mod tests {
    use types::{LogIndex, QueueKey, TenantId, Timestamp, WallTime};

    use crate::{Command, Context, EnqueueEntry, Outcome, Partition};

    /// Most bytes that a message takes which waits in a standard queue.
    const WAITING_BYTES_MAX: usize = 105;

    fn apply(partition: &mut Partition, command: &Command) -> Outcome {
        let context = Context {
            at: Timestamp::from_millis(1_000),
            wall: WallTime::from_millis(1),
            index: LogIndex(1),
            ordinal: 0,
        };
        partition.apply(context, command).outcome.unwrap()
    }

    fn queue(partition: &mut Partition, name: &str) -> types::QueueId {
        let key = QueueKey {
            tenant: TenantId::DEV,
            name: name.parse().unwrap(),
        };
        let created = apply(
            partition,
            &Command::CreateQueue {
                key,
                attributes: Vec::new(),
                tags: Vec::new(),
                deleted_name_wait_seconds: 0,
            },
        );
        let Outcome::Queue(queue) = created else {
            panic!("a queue, not {created:?}");
        };
        queue
    }

    #[test]
    fn a_waiting_message_takes_at_most_105_bytes() {
        let mut partition = Partition::default();
        let queue = queue(&mut partition, "q");
        let empty = partition.memory_bytes();
        let entry = EnqueueEntry {
            message_id: types::MessageId::from_random([0; 16]),
            content: [].into(),
            size_bytes: 1,
            delay_seconds: None,
            group: None,
            deduplication: None,
        };
        let entries = vec![entry; 1_000];
        for thousands in 1..=200 {
            let entries = entries.clone();
            apply(&mut partition, &Command::Enqueue { queue, entries });
            let each = (partition.memory_bytes() - empty) / (thousands * 1_000);
            // Whatever the number, not only where a list has just grown into its room.
            assert!(
                thousands < 10 || each <= WAITING_BYTES_MAX,
                "{thousands},000 messages take {each} bytes each"
            );
        }
    }
}
