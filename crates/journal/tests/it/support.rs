//! Opening journals on simulated disks.

use std::sync::Arc;

use journal::conformance::Replayed;
use journal::{
    Disk, Event, Fsync, Journal, JournalError, LocalJournal, LocalOptions, RecoveryReport, Source,
};
use simulator::SimDisk;
use types::LogIndex;

/// Segments so small that a few entries fill one.
pub(crate) fn small() -> LocalOptions {
    LocalOptions {
        first_segment_bytes: 8 << 10,
        segment_bytes: 12 << 10,
        fsync: Fsync::Always,
    }
}

pub(crate) type Opened = (LocalJournal, RecoveryReport, Replayed);

pub(crate) fn try_open(disk: &SimDisk, options: LocalOptions) -> Result<Opened, JournalError> {
    let mut replayed = Replayed::default();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (journal, report) = LocalJournal::open(disk, options, &mut replayed)?;
    assert_eq!(report.entries_replayed, replayed.entries.len() as u64);
    assert_eq!(report.last_index, replayed.last_index());
    Ok((journal, report, replayed))
}

pub(crate) fn open(disk: &SimDisk) -> Opened {
    try_open(disk, small()).unwrap()
}

/// Returns entries that differ from each other.
pub(crate) fn entry(number: u64, bytes: usize) -> Vec<u8> {
    let words = (0..).map(|i: u64| (number << 32 | i).to_le_bytes());
    words.flatten().take(bytes).collect()
}

pub(crate) fn propose(journal: &mut LocalJournal, entry: &[u8]) {
    let epoch = journal.epoch().unwrap();
    journal.propose(entry, epoch).unwrap();
}

/// Waits and returns the indexes that committed.
pub(crate) fn wait(journal: &mut LocalJournal) -> Vec<LogIndex> {
    let mut events = Vec::new();
    journal.wait(&mut events).unwrap();
    let committed = events.into_iter().map(|event| match event {
        Event::Committed {
            index,
            source: Source::Own(_),
            ..
        } => index,
        Event::Committed { .. }
        | Event::Rejected { .. }
        | Event::Unknown { .. }
        | Event::Copied { .. }
        | Event::EpochChanged { .. }
        | Event::Replaced => {
            panic!("unexpected {event:?}")
        }
    });
    committed.collect()
}

pub(crate) fn commit(journal: &mut LocalJournal, entry: &[u8]) -> LogIndex {
    propose(journal, entry);
    wait(journal)[0]
}
