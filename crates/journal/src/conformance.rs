//! What every driver of [`Journal`] must do, as plain functions for the tests of the driver's crate.
//!
//! A driver is brought as a [`Driver`], which opens it on storage that outlives it. The functions panic when the
//! driver breaks the contract. What only one driver can do (tear its own files) is tested beside that driver.

use std::io::Read;

use types::LogIndex;

use crate::contract::{Epoch, Event, Journal, ProposeError, Replay, ReplayError, Source, Ticket};
use crate::error::JournalError;

/// Opens a journal on storage that outlives it.
pub trait Driver {
    /// Opens the journal, with what the storage holds by now. The one opened before was dropped.
    fn open(&mut self, replay: &mut dyn Replay) -> Result<Box<dyn Journal>, JournalError>;
}

/// What a start replayed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The snapshot, if there was one.
    pub snapshot: Option<(LogIndex, Vec<u8>)>,
    /// The entries after it.
    pub entries: Vec<(LogIndex, Vec<u8>)>,
}

impl Replay for Replayed {
    fn snapshot(&mut self, index: LogIndex, content: &mut dyn Read) -> Result<(), ReplayError> {
        assert!(
            self.snapshot.is_none() && self.entries.is_empty(),
            "a snapshot comes first, and once"
        );
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        self.snapshot = Some((index, bytes));
        Ok(())
    }

    fn entry(&mut self, index: LogIndex, entry: &[u8]) -> Result<(), ReplayError> {
        let before = self.last_index();
        assert_eq!(index, before.next(), "entries come in order and without a gap");
        self.entries.push((index, entry.to_vec()));
        Ok(())
    }
}

impl Replayed {
    /// Returns the last index that was replayed, 0 if none was.
    pub fn last_index(&self) -> LogIndex {
        let last_entry = self.entries.last().map(|(index, _)| *index);
        let snapshot = self.snapshot.as_ref().map(|(index, _)| *index);
        last_entry.or(snapshot).unwrap_or(LogIndex(0))
    }
}

/// Runs every function of this module, each on storage of its own.
pub fn all<D: Driver>(mut new_driver: impl FnMut() -> D) {
    for check in [
        an_empty_journal_replays_nothing::<D>,
        entries_commit_in_order_with_their_tickets::<D>,
        nothing_commits_before_wait::<D>,
        another_epoch_is_refused::<D>,
        a_reopened_journal_goes_on_where_it_ended::<D>,
        a_sealed_journal_is_unchanged::<D>,
        many_segments_come_back_in_order::<D>,
        entries_of_every_size_come_back::<D>,
        a_snapshot_replaces_the_entries_before_it::<D>,
        an_abandoned_snapshot_leaves_nothing::<D>,
        snapshots_are_of_committed_entries_and_never_older::<D>,
    ] {
        check(&mut new_driver());
    }
}

fn open(driver: &mut dyn Driver) -> (Box<dyn Journal>, Replayed) {
    let mut replayed = Replayed::default();
    let journal = driver.open(&mut replayed).expect("the journal opens");
    (journal, replayed)
}

fn epoch(journal: &dyn Journal) -> Epoch {
    journal.epoch().expect("a process alone may propose")
}

fn propose(journal: &mut dyn Journal, entry: &[u8]) -> Ticket {
    let epoch = epoch(journal);
    journal.propose(entry, epoch).expect("the entry is taken")
}

/// Waits until all these proposals are committed and returns their indexes.
fn wait_for(journal: &mut dyn Journal, tickets: &[Ticket]) -> Vec<LogIndex> {
    let mut events = Vec::new();
    let mut indexes = Vec::new();
    while indexes.len() < tickets.len() {
        journal.wait(&mut events).expect("waiting succeeds");
        for event in events.drain(..) {
            match event {
                Event::Committed { index, source, .. } => {
                    assert_eq!(
                        source,
                        Source::Own(tickets[indexes.len()]),
                        "tickets commit in order"
                    );
                    indexes.push(index);
                }
                Event::Rejected { .. } | Event::Unknown { .. } | Event::EpochChanged { .. } => {
                    panic!("unexpected {event:?}")
                }
            }
        }
    }
    indexes
}

fn commit(journal: &mut dyn Journal, entry: &[u8]) -> LogIndex {
    let ticket = propose(journal, entry);
    wait_for(journal, &[ticket])[0]
}

fn entry(number: u64, bytes: usize) -> Vec<u8> {
    let mut entry: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(bytes).collect();
    if let Some(last) = entry.last_mut() {
        *last = 0;
    }
    entry
}

/// Runs the work that an owner runs in the background.
pub fn prepare(journal: &mut dyn Journal) {
    while let Some(preparation) = journal.take_preparation() {
        journal
            .install(preparation.run())
            .expect("the preparation succeeds");
    }
}

/// Takes a snapshot of this content.
pub fn snapshot(journal: &mut dyn Journal, index: LogIndex, content: &[u8]) {
    let mut sink = journal.begin_snapshot(index).expect("a snapshot begins");
    for part in content.chunks(70_000) {
        sink.write(part).expect("the snapshot takes bytes");
    }
    let receipt = sink.finish().expect("the snapshot is durable");
    assert_eq!(receipt.index(), index);
    journal
        .complete_snapshot(receipt)
        .expect("the snapshot completes");
}

/// An empty journal replays nothing, also when it is opened again.
pub fn an_empty_journal_replays_nothing<D: Driver>(driver: &mut D) {
    for _ in 0..3 {
        let (mut journal, replayed) = open(driver);
        assert_eq!(replayed, Replayed::default());
        journal.seal().expect("nothing to seal is no error");
        let mut events = Vec::new();
        journal
            .wait(&mut events)
            .expect("nothing to wait for is no error");
        assert_eq!(events, []);
    }
    let (mut journal, _) = open(driver);
    assert_eq!(commit(journal.as_mut(), b"first"), LogIndex(1));
}

/// Several proposals of one wait commit in order, each with its ticket.
pub fn entries_commit_in_order_with_their_tickets<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let mut expected = 0;
    for round in 1..20u64 {
        let tickets: Vec<Ticket> = (0..round)
            .map(|i| propose(journal.as_mut(), &entry(i, 50)))
            .collect();
        for index in wait_for(journal.as_mut(), &tickets) {
            expected += 1;
            assert_eq!(index, LogIndex(expected));
        }
    }
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.entries.len() as u64, expected);
}

/// A proposal is not known to be committed until the owner has waited.
pub fn nothing_commits_before_wait<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    commit(journal.as_mut(), b"committed");
    let ticket = propose(journal.as_mut(), b"proposed");
    journal.seal().expect("a seal with proposals open does nothing");
    assert!(
        journal.begin_snapshot(LogIndex(2)).is_err(),
        "a snapshot of an entry that is not committed"
    );
    assert_eq!(wait_for(journal.as_mut(), &[ticket]), [LogIndex(2)]);
}

/// A proposal for a reign that is not the present one is refused and never commits.
pub fn another_epoch_is_refused<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let present = epoch(journal.as_ref());
    for wrong in [Epoch(present.0.wrapping_sub(1)), Epoch(present.0 + 1)] {
        let refused = journal.propose(b"never", wrong).expect_err("another epoch");
        assert!(
            matches!(refused, ProposeError::EpochChanged { epoch } if epoch == Some(present)),
            "{refused:?}"
        );
    }
    commit(journal.as_mut(), b"kept");
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.entries, [(LogIndex(1), b"kept".to_vec())]);
}

/// Indexes go on after a restart, and everything committed is replayed.
pub fn a_reopened_journal_goes_on_where_it_ended<D: Driver>(driver: &mut D) {
    let mut expected = Vec::new();
    for round in 0..5u64 {
        let (mut journal, replayed) = open(driver);
        assert_eq!(replayed.entries, expected);
        for i in 0..3 {
            let bytes = entry(round * 10 + i, 100);
            let index = commit(journal.as_mut(), &bytes);
            expected.push((index, bytes));
        }
    }
}

/// A seal changes nothing that a start can see, however often it is set.
pub fn a_sealed_journal_is_unchanged<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    for number in 1..5u64 {
        assert_eq!(commit(journal.as_mut(), &entry(number, 30)), LogIndex(number));
        journal.seal().expect("the seal is written");
        journal.seal().expect("a second seal does nothing");
    }
    drop(journal);
    let (mut journal, replayed) = open(driver);
    assert_eq!(replayed.last_index(), LogIndex(4));
    assert_eq!(commit(journal.as_mut(), b"next"), LogIndex(5));
}

/// A log much longer than a segment comes back, with and without segments prepared in time.
pub fn many_segments_come_back_in_order<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let expected: Vec<_> = (1..400u64)
        .map(|i| (LogIndex(i), entry(i, (i as usize * 7) % 900)))
        .collect();
    for (index, bytes) in &expected {
        if index.0 > 200 {
            prepare(journal.as_mut());
        }
        assert_eq!(commit(journal.as_mut(), bytes), *index);
    }
    drop(journal);
    assert_eq!(open(driver).1.entries, expected);
}

/// The smallest entries and ones larger than a segment come back as they were.
pub fn entries_of_every_size_come_back<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let sizes = [0, 1, 7, 8, 9, 511, 512, 4096, 100_000, 3, 2_000_000, 0, 300_000];
    let mut expected = Vec::new();
    for (number, bytes) in sizes.into_iter().enumerate() {
        prepare(journal.as_mut());
        let bytes = entry(number as u64, bytes);
        expected.push((commit(journal.as_mut(), &bytes), bytes));
    }
    drop(journal);
    assert_eq!(open(driver).1.entries, expected);
}

/// After a snapshot only what follows is replayed; the log before it goes.
pub fn a_snapshot_replaces_the_entries_before_it<D: Driver>(driver: &mut D) {
    let mut expected = Replayed::default();
    for round in 1..6u64 {
        let (mut journal, replayed) = open(driver);
        assert_eq!(replayed, expected);
        let mut last = replayed.last_index();
        for i in 0..50 {
            last = commit(journal.as_mut(), &entry(round * 100 + i, 700));
        }
        assert!(journal.log_bytes_since_snapshot() >= 50 * 700);
        let content = entry(round, round as usize * 99_999);
        snapshot(journal.as_mut(), last, &content);
        assert_eq!(journal.log_bytes_since_snapshot(), 0);
        prepare(journal.as_mut());
        expected = Replayed {
            snapshot: Some((last, content)),
            entries: Vec::new(),
        };
        for i in 0..round {
            let bytes = entry(i, 20);
            expected.entries.push((commit(journal.as_mut(), &bytes), bytes));
        }
    }
}

/// A snapshot that was begun and not finished changes nothing.
pub fn an_abandoned_snapshot_leaves_nothing<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let index = commit(journal.as_mut(), b"one");
    for _ in 0..2 {
        let mut sink = journal.begin_snapshot(index).expect("a snapshot begins");
        sink.write(&[7; 100_000]).expect("the snapshot takes bytes");
    }
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.snapshot, None);
    assert_eq!(replayed.entries, [(index, b"one".to_vec())]);
}

/// A snapshot stands for a committed entry, and none takes the place of a newer one.
pub fn snapshots_are_of_committed_entries_and_never_older<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    assert!(
        journal.begin_snapshot(LogIndex(0)).is_err(),
        "a snapshot of nothing"
    );
    for i in 1..=4 {
        commit(journal.as_mut(), &entry(i, 40));
    }
    assert!(
        journal.begin_snapshot(LogIndex(5)).is_err(),
        "a snapshot of the future"
    );
    let mut slow = journal.begin_snapshot(LogIndex(2)).expect("a snapshot begins");
    snapshot(journal.as_mut(), LogIndex(3), b"three");
    assert!(
        journal.begin_snapshot(LogIndex(2)).is_err(),
        "a snapshot behind the last"
    );
    slow.write(b"two").expect("the snapshot takes bytes");
    let late = slow.finish().expect("the snapshot is durable");
    journal
        .complete_snapshot(late)
        .expect("a late snapshot is put aside");
    prepare(journal.as_mut());
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.snapshot, Some((LogIndex(3), b"three".to_vec())));
    assert_eq!(replayed.entries, [(LogIndex(4), entry(4, 40))]);
}
