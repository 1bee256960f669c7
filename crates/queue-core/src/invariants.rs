//! Whole-state checks for tests and the simulator. They walk everything, so they are not for the hot path.

use std::collections::{BTreeMap, BTreeSet};

use types::{QueueId, Slot};

use crate::Partition;
use crate::header::{Delivery, Header, NO_GROUP};
use crate::history::NO_HISTORY;
use crate::queue::{Counters, FairPlace, Queue};
use crate::task::{MoveTask, TaskStatus};

impl Partition {
    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        let mut counters: BTreeMap<QueueId, Counters> = BTreeMap::new();
        let mut origins: BTreeMap<QueueId, u64> = BTreeMap::new();
        let mut groups: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut free, mut garbage, mut hidden) = (0, 0, 0);
        for at in 0..self.slab.len() {
            let slot = Slot(u32::try_from(at).expect("slots are 32 bits"));
            let header = self.slab.header(slot);
            if header.is_free() {
                free += 1;
                continue;
            }
            let history = self.slab.history(slot);
            if history.origin != QueueId(0) {
                *origins.entry(history.origin).or_default() += 1;
            }
            if header.group != NO_GROUP {
                *groups.entry(header.group).or_default() += 1;
                assert_eq!(
                    self.groups.get(header.group).queue,
                    header.queue,
                    "group of another queue"
                );
            }
            if !self.is_live(slot) {
                garbage += 1;
                continue;
            }
            *counters.entry(header.queue).or_default().of(header.delivery) += 1;
            if header.delivery != Delivery::Available {
                hidden += 1;
                assert!(
                    history.timer_at <= history.visible_at,
                    "slot {slot}: no timer for a hidden message"
                );
            }
        }
        assert_eq!(free, self.slab.free.len(), "free list");
        assert_eq!(garbage, self.garbage, "slots to reclaim");
        assert_eq!(hidden, self.hidden, "messages with a running timer");
        for (id, queue) in &self.queues {
            assert_eq!(
                queue.counters,
                counters.remove(id).unwrap_or_default(),
                "counters of {}",
                queue.key()
            );
            assert_eq!(self.names.get(queue.key()), Some(id), "name of {}", queue.key());
            assert!(
                queue.counters.total() == 0 || queue.expiry_at != types::Timestamp::NEVER,
                "expiry timer"
            );
        }
        assert_eq!(self.names.len(), self.queues.len(), "names");
        let counted = self.origins.iter().map(|(id, origin)| (*id, origin.messages));
        assert_eq!(
            counted.collect::<BTreeMap<_, _>>(),
            origins,
            "dead-letter sources"
        );
        let named = |queue: &Queue| {
            let policy = queue.attributes().redrive_policy.as_ref()?;
            Some((policy.dead_letter_queue.clone(), queue.key().clone()))
        };
        let named: BTreeSet<_> = self.queues.values().filter_map(named).collect();
        assert_eq!(named, self.redrives, "queues that name a dead-letter queue");
        self.check_histories();
        self.check_groups(&groups);
        self.check_tasks();
    }

    /// Checks that every history is of one message or free.
    fn check_histories(&self) {
        let named = self.slab.headers.iter().map(|header| header.history);
        let named = named.filter(|place| *place != NO_HISTORY);
        let mut places: Vec<_> = named.chain(self.slab.histories.free.iter().copied()).collect();
        places.sort_unstable();
        let all = 0..self.slab.histories.records.len();
        assert!(
            all.eq(places.iter().map(|place| *place as usize)),
            "a history of no message, or of two"
        );
    }

    fn check_groups(&self, messages: &BTreeMap<u32, u32>) {
        for at in 0..self.groups.groups.len() {
            let index = u32::try_from(at).expect("group indexes are 32 bits");
            let group = self.groups.get(index);
            assert_eq!(
                group.messages,
                messages.get(&index).copied().unwrap_or_default(),
                "group {index}"
            );
            let Some(queue) = self.queues.get(&group.queue) else {
                continue;
            };
            if queue.record.generation != group.generation {
                continue;
            }
            if !queue.is_fifo() {
                self.check_share(queue, index);
                continue;
            }
            let head = self.groups.head(index);
            let is_servable = head.is_some_and(|slot| self.slab.header(slot).delivery == Delivery::Available);
            assert_eq!(
                group.ticket != 0,
                is_servable,
                "place of group {index} in the order of service"
            );
            let place = queue.ready.get(&group.ticket);
            assert!(
                !is_servable || place == Some(&index),
                "group {index} is not in the order of service"
            );
            let mut previous = None;
            let mut next = head;
            while let Some(slot) = next {
                let header = self.slab.header(slot);
                assert!(
                    previous < Some(header.sequence),
                    "group {index} is not in order of sequence"
                );
                assert_eq!(header.group, index, "slot {slot} is in the list of another group");
                previous = Some(header.sequence);
                next = Some(self.slab.links(slot).next)
                    .filter(|next| *next != crate::slab::NO_SLOT)
                    .map(Slot);
            }
        }
    }

    /// Checks a group of a standard queue: its counts, and its place in the order of service.
    fn check_share(&self, queue: &Queue, index: u32) {
        let of_group = self.slab.headers.iter().filter(|header| header.group == index);
        let live = of_group.filter(|header| header.sequence >= queue.record.floor);
        let (mut available, mut in_flight) = (0, 0);
        for header in live {
            match header.delivery {
                Delivery::Delayed => {}
                Delivery::Available => available += 1,
                Delivery::InFlight => in_flight += 1,
            }
        }
        assert_eq!(
            self.groups.share_counts(index),
            (available, in_flight),
            "share of group {index}"
        );
        let place = FairPlace {
            in_flight,
            ticket: self.groups.get(index).ticket,
            group: index,
        };
        assert_eq!(
            queue.fair.contains(&place),
            available > 0,
            "place of group {index}"
        );
    }

    /// Checks that running move tasks know how many messages they have left, and that each is in all tables.
    fn check_tasks(&self) {
        let running = |task: &&MoveTask| task.status == TaskStatus::Running;
        let running = self.tasks.values().filter(running);
        let running: BTreeSet<_> = running.map(|task| (task.next_at, task.source)).collect();
        assert_eq!(running, self.running, "running tasks");
        let sources: BTreeSet<_> = running.iter().map(|(_, source)| *source).collect();
        let emptied = |queue: &&Queue| queue.record.moving.is_some();
        let emptied = self.queues.values().filter(emptied).map(Queue::id);
        assert_eq!(
            emptied.collect::<BTreeSet<_>>(),
            sources,
            "queues that are emptied"
        );
        for (id, queue) in &self.queues {
            let Some(moving) = queue.record.moving else {
                continue;
            };
            let passed = queue.ready.range(..=moving.passed);
            let mut heads = passed.filter_map(|(_, group)| self.groups.head(*group));
            assert!(
                heads.all(|slot| self.slab.header(slot).sequence >= moving.boundary),
                "a group was passed over that the task of {} has to look at",
                queue.key()
            );
            let is_left = |header: &&Header| {
                header.queue == *id
                    && header.sequence >= queue.record.floor
                    && header.sequence < moving.boundary
            };
            let left = self.slab.headers.iter().filter(is_left).count() as u64;
            assert_eq!(
                left,
                moving.remaining,
                "messages left to the task of {}",
                queue.key()
            );
        }
    }
}
