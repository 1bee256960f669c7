//! The conformance suite on the smallest driver that commits by itself: a log in memory with entries of its own in it.

use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard};

use journal::conformance::{self, Driver};
use journal::{
    Counters, Epoch, Event, Journal, JournalError, ProposeError, Replay, SnapshotReceipt, SnapshotSink,
    Source, Ticket, Waker,
};
use types::{LogIndex, Term};

#[derive(Debug, Default)]
struct Store {
    /// Entries with their indexes; those of the driver are left out.
    entries: Vec<(u64, Vec<u8>)>,
    last_index: u64,
    epoch: u64,
    snapshot: Option<(u64, Vec<u8>)>,
    /// A snapshot that is written, and does not count yet.
    written: Option<(u64, Vec<u8>)>,
}

#[derive(Debug, Clone, Default)]
struct InMemory(Arc<Mutex<Store>>);

impl InMemory {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }
}

struct OneNode {
    log: InMemory,
    epoch: Option<Epoch>,
    events: Vec<Event>,
    waker: Option<Waker>,
    last_ticket: u64,
    unsnapshotted: u64,
}

impl std::fmt::Debug for OneNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneNode")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

fn committed(index: u64, source: Source) -> Event {
    Event::Committed {
        index: LogIndex(index),
        term: Term(1),
        source,
        place: None,
    }
}

impl Driver for InMemory {
    fn open(&mut self, replay: &mut dyn Replay) -> Result<Box<dyn Journal>, JournalError> {
        let mut store = self.store();
        if let Some((index, bytes)) = &store.snapshot {
            let snapshot = replay.snapshot(LogIndex(*index), &mut Cursor::new(bytes));
            snapshot.unwrap();
        }
        let after = store.snapshot.as_ref().map_or(0, |(index, _)| *index);
        let entries = store.entries.iter().filter(|(index, _)| *index > after);
        let mut events: Vec<_> = entries
            .map(|(index, bytes)| committed(*index, Source::Foreign(bytes.clone())))
            .collect();
        // A reign begins with an entry of the driver.
        store.last_index += 1;
        store.epoch += 1;
        let epoch = Some(Epoch(store.epoch));
        events.push(Event::EpochChanged { epoch });
        drop(store);
        Ok(Box::new(OneNode {
            log: self.clone(),
            epoch,
            events,
            waker: None,
            last_ticket: 0,
            unsnapshotted: 0,
        }))
    }
}

impl Journal for OneNode {
    fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    fn propose(&mut self, entry: &[u8], expected: Epoch) -> Result<Ticket, ProposeError> {
        if self.epoch != Some(expected) {
            return Err(ProposeError::EpochChanged { epoch: self.epoch });
        }
        let mut store = self.log.store();
        // Now and then an entry of the driver stands in between.
        store.last_index += 1 + u64::from(store.last_index.is_multiple_of(5));
        let index = store.last_index;
        store.entries.push((index, entry.to_vec()));
        drop(store);
        self.unsnapshotted += entry.len() as u64;
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.events.push(committed(index, Source::Own(ticket)));
        if let Some(wake) = &self.waker {
            wake();
        }
        Ok(ticket)
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> Result<(), JournalError> {
        events.append(&mut self.events);
        Ok(())
    }

    fn commits_by_itself(&self) -> bool {
        true
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    fn begin_snapshot(
        &mut self,
        index: LogIndex,
        segments: &[u32],
    ) -> Result<Box<dyn SnapshotSink>, JournalError> {
        let store = self.log.store();
        let previous = store.snapshot.as_ref().map_or(0, |(index, _)| *index);
        if index.0 == 0 || index.0 < previous || index.0 > store.last_index {
            return Err(JournalError::SnapshotIndex {
                index,
                previous: LogIndex(previous),
                committed: LogIndex(store.last_index),
            });
        }
        Ok(Box::new(Sink {
            log: self.log.clone(),
            index,
            segments: segments.to_vec(),
            bytes: Vec::new(),
        }))
    }

    fn complete_snapshot(&mut self, receipt: SnapshotReceipt) -> Result<(), JournalError> {
        let mut store = self.log.store();
        let written = store
            .written
            .take()
            .filter(|(index, _)| *index == receipt.index().0);
        let is_newer = |(index, _): &(u64, Vec<u8>)| *index >= receipt.index().0;
        if written.is_some() && !store.snapshot.as_ref().is_some_and(is_newer) {
            store.snapshot = written;
            self.unsnapshotted = 0;
        }
        Ok(())
    }

    fn log_bytes_since_snapshot(&self) -> u64 {
        self.unsnapshotted
    }

    fn seal(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

#[derive(Debug)]
struct Sink {
    log: InMemory,
    index: LogIndex,
    segments: Vec<u32>,
    bytes: Vec<u8>,
}

impl SnapshotSink for Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<SnapshotReceipt, JournalError> {
        let bytes = self.bytes.len() as u64;
        self.log.store().written = Some((self.index.0, self.bytes));
        Ok(SnapshotReceipt::new(self.index, bytes, 0, self.segments))
    }
}

#[test]
fn a_driver_that_commits_by_itself_can_conform() {
    conformance::all(InMemory::default);
}
