//! What every driver of [`Journal`] must do, as plain functions for the tests of the driver's crate.
//!
//! A driver is brought as a [`Driver`], which opens it on storage that outlives it. The functions panic when the
//! driver breaks the contract. What only one driver can do (tear its own files) is tested beside that driver.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use types::LogIndex;

use crate::contract::{Epoch, Event, Journal, Place, ProposeError, Replay, ReplayError, Source, Ticket};
use crate::error::JournalError;

/// Opens a journal on storage that outlives it.
pub trait Driver {
    /// Opens the journal, with what the storage holds by now. The one opened before was dropped.
    fn open(&mut self, replay: &mut dyn Replay) -> Result<Box<dyn Journal>, JournalError>;
}

/// What a start replayed.
#[derive(Debug, Default)]
pub struct Replayed {
    /// The snapshot, if there was one.
    pub snapshot: Option<(LogIndex, Vec<u8>)>,
    /// The entries after it.
    pub entries: Vec<(LogIndex, Vec<u8>)>,
    /// Copies that were written forward, each with the entry that it came after.
    pub copies: Vec<(LogIndex, Vec<u8>)>,
    /// Where entries and copies lie, of drivers that keep them in segments.
    places: Vec<(Option<Place>, Vec<u8>)>,
}

impl PartialEq for Replayed {
    /// Whether the same was replayed, wherever it lies.
    fn eq(&self, other: &Self) -> bool {
        (&self.snapshot, &self.entries, &self.copies) == (&other.snapshot, &other.entries, &other.copies)
    }
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

    fn entry(&mut self, index: LogIndex, entry: &[u8], place: Option<Place>) -> Result<(), ReplayError> {
        assert!(index > self.last_index(), "entries come in order");
        self.entries.push((index, entry.to_vec()));
        self.places.push((place, entry.to_vec()));
        Ok(())
    }

    fn copies(&mut self, copies: &[u8], place: Place) -> Result<(), ReplayError> {
        self.copies.push((self.last_index(), copies.to_vec()));
        self.places.push((Some(place), copies.to_vec()));
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
        entries_can_be_read_where_they_lie::<D>,
        copies_come_back_among_the_entries::<D>,
        segments_that_a_snapshot_names_are_kept::<D>,
        polling_brings_what_waiting_brings::<D>,
        a_driver_that_commits_by_itself_says_when_there_is_something_to_poll::<D>,
    ] {
        check(&mut new_driver());
    }
}

/// Opens the journal and waits until this process reigns, which it does when it has all entries of earlier reigns.
fn open(driver: &mut dyn Driver) -> (Box<dyn Journal>, Replayed) {
    let mut replayed = Replayed::default();
    let mut journal = driver.open(&mut replayed).expect("the journal opens");
    let mut reigns = !journal.commits_by_itself();
    let mut events = Vec::new();
    while !reigns {
        journal.wait(&mut events).expect("waiting succeeds");
        for event in events.drain(..) {
            match event {
                Event::Committed {
                    index,
                    source: Source::Foreign(entry),
                    place,
                    ..
                } => replayed.entry(index, &entry, place).expect("the entry is taken"),
                Event::Copied { copies, place } => {
                    replayed.copies(&copies, place).expect("the copies are taken");
                }
                Event::EpochChanged { epoch } => {
                    reigns = epoch.is_some();
                    assert!(
                        !reigns || epoch == journal.epoch(),
                        "nobody else is there to reign"
                    );
                }
                Event::Committed { .. }
                | Event::Rejected { .. }
                | Event::Unknown { .. }
                | Event::Replaced => panic!("unexpected {event:?}"),
            }
        }
    }
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
                Event::Rejected { .. }
                | Event::Unknown { .. }
                | Event::Copied { .. }
                | Event::EpochChanged { .. }
                | Event::Replaced => panic!("unexpected {event:?}"),
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
    snapshot_naming(journal, index, content, &[]);
}

/// Takes a snapshot that needs contents from these segments.
pub fn snapshot_naming(journal: &mut dyn Journal, index: LogIndex, content: &[u8], segments: &[u32]) {
    let mut sink = journal
        .begin_snapshot(index, segments)
        .expect("a snapshot begins");
    for part in content.chunks(70_000) {
        sink.write(part).expect("the snapshot takes bytes");
    }
    let receipt = sink.finish().expect("the snapshot is durable");
    assert_eq!((receipt.index(), receipt.segments()), (index, segments));
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
        journal.poll(&mut events).expect("nothing to poll is no error");
        assert_eq!(events, []);
    }
    let (mut journal, _) = open(driver);
    assert!(commit(journal.as_mut(), b"first") > LogIndex(0));
}

/// Several proposals of one wait commit in order, each with its ticket.
pub fn entries_commit_in_order_with_their_tickets<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let (mut last, mut expected) = (LogIndex(0), 0);
    for round in 1..20u64 {
        let tickets: Vec<Ticket> = (0..round)
            .map(|i| propose(journal.as_mut(), &entry(i, 50)))
            .collect();
        for index in wait_for(journal.as_mut(), &tickets) {
            assert!(index > last);
            (last, expected) = (index, expected + 1);
        }
    }
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.entries.len() as u64, expected);
}

/// A proposal is not known to be committed until the owner has waited, unless the driver commits by itself.
pub fn nothing_commits_before_wait<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    if journal.commits_by_itself() {
        return;
    }
    let first = commit(journal.as_mut(), b"committed");
    let ticket = propose(journal.as_mut(), b"proposed");
    journal.seal().expect("a seal with proposals open does nothing");
    assert!(
        journal.begin_snapshot(first.next(), &[]).is_err(),
        "a snapshot of an entry that is not committed"
    );
    assert!(wait_for(journal.as_mut(), &[ticket])[0] > first);
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
    let index = commit(journal.as_mut(), b"kept");
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.entries, [(index, b"kept".to_vec())]);
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
    let mut last = LogIndex(0);
    for number in 1..5u64 {
        last = commit(journal.as_mut(), &entry(number, 30));
        journal.seal().expect("the seal is written");
        journal.seal().expect("a second seal does nothing");
    }
    drop(journal);
    let (mut journal, replayed) = open(driver);
    assert_eq!((replayed.last_index(), replayed.entries.len()), (last, 4));
    assert!(commit(journal.as_mut(), b"next") > last);
}

/// A log much longer than a segment comes back, with and without segments prepared in time.
pub fn many_segments_come_back_in_order<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let mut expected = Vec::new();
    for i in 1..400u64 {
        if i > 200 {
            prepare(journal.as_mut());
        }
        let bytes = entry(i, (i as usize * 7) % 900);
        expected.push((commit(journal.as_mut(), &bytes), bytes));
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
            ..Replayed::default()
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
        let mut sink = journal.begin_snapshot(index, &[]).expect("a snapshot begins");
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
        journal.begin_snapshot(LogIndex(0), &[]).is_err(),
        "a snapshot of nothing"
    );
    let indexes = [1, 2, 3, 4].map(|i| commit(journal.as_mut(), &entry(i, 40)));
    assert!(
        journal.begin_snapshot(indexes[3].next(), &[]).is_err(),
        "a snapshot of the future"
    );
    let mut slow = journal
        .begin_snapshot(indexes[1], &[])
        .expect("a snapshot begins");
    snapshot(journal.as_mut(), indexes[2], b"three");
    assert!(
        journal.begin_snapshot(indexes[1], &[]).is_err(),
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
    assert_eq!(replayed.snapshot, Some((indexes[2], b"three".to_vec())));
    assert_eq!(replayed.entries, [(indexes[3], entry(4, 40))]);
}

/// Reads bytes where a journal says that they lie.
fn read(journal: &dyn Journal, place: Place, bytes: usize) -> Option<Vec<u8>> {
    let file = journal.segment(place.segment)?;
    let mut found = vec![0; bytes];
    let read = file
        .read_at(&mut found, u64::from(place.offset))
        .expect("the segment is read");
    assert_eq!(read, bytes, "the segment does not end within {place:?}");
    Some(found)
}

/// Commits an entry and returns where it lies, if the driver says so.
fn commit_placed(journal: &mut dyn Journal, entry: &[u8]) -> Option<Place> {
    propose(journal, entry);
    let mut events = Vec::new();
    while events.is_empty() {
        journal.wait(&mut events).expect("waiting succeeds");
    }
    match events.as_slice() {
        [Event::Committed { place, .. }] => *place,
        other => panic!("unexpected {other:?}"),
    }
}

/// A driver that says where an entry lies has it there, also after a restart.
pub fn entries_can_be_read_where_they_lie<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let entries: Vec<_> = (1..200).map(|i| entry(i, (i as usize * 7) % 900)).collect();
    let mut places = Vec::new();
    for entry in &entries {
        let place = commit_placed(journal.as_mut(), entry);
        places.extend(place.map(|place| (place, entry)));
    }
    for (place, entry) in &places {
        assert_eq!(read(journal.as_ref(), *place, entry.len()).as_ref(), Some(*entry));
    }
    drop(journal);
    let (journal, replayed) = open(driver);
    for (place, entry) in &replayed.places {
        if let Some(place) = place {
            assert_eq!(read(journal.as_ref(), *place, entry.len()).as_ref(), Some(entry));
        }
    }
}

/// Copies are replayed between the entries where they were written, and do not count as entries.
pub fn copies_come_back_among_the_entries<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let mut expected = Replayed::default();
    for i in 1..60 {
        let bytes = entry(i, 300);
        let index = commit(journal.as_mut(), &bytes);
        expected.entries.push((index, bytes));
        let copies = entry(i, 400);
        let Some(place) = journal.copy_forward(&copies).expect("the copies are written") else {
            return;
        };
        assert_eq!(read(journal.as_ref(), place, 400).as_ref(), Some(&copies));
        expected.copies.push((index, copies));
    }
    journal.seal().expect("the copies are made durable");
    drop(journal);
    let (mut journal, replayed) = open(driver);
    assert_eq!(replayed, expected);
    // Those after the snapshot's entry may be newer than the snapshot, all others are in it.
    snapshot(journal.as_mut(), expected.last_index(), b"state");
    drop(journal);
    let (_, replayed) = open(driver);
    assert_eq!(replayed.entries, []);
    assert_eq!(replayed.copies, expected.copies[58..]);
}

/// A segment stays as long as the last snapshot names it, and goes with the first one that does not.
pub fn segments_that_a_snapshot_names_are_kept<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    let kept = entry(1, 500);
    let Some(place) = commit_placed(journal.as_mut(), &kept) else {
        return;
    };
    let mut last = LogIndex(0);
    for round in 0..4 {
        for i in 0..200 {
            last = commit(journal.as_mut(), &entry(i, 700));
            prepare(journal.as_mut());
        }
        if round % 2 == 0 {
            snapshot_naming(journal.as_mut(), last, b"needs it", &[place.segment]);
        }
        prepare(journal.as_mut());
        assert_eq!(
            read(journal.as_ref(), place, 500).as_ref(),
            Some(&kept),
            "{round}"
        );
        drop(journal);
        journal = open(driver).0;
        let segments: Vec<_> = journal.kept().iter().map(|kept| kept.segment).collect();
        assert_eq!(segments, [place.segment], "{round}");
        assert_eq!(
            read(journal.as_ref(), place, 500).as_ref(),
            Some(&kept),
            "{round}"
        );
    }
    // A reader holds the file until it has what it wants.
    let reader = journal.segment(place.segment).expect("the segment is there");
    snapshot(journal.as_mut(), last, b"needs nothing");
    assert_eq!(journal.kept(), []);
    assert!(journal.segment(place.segment).is_none());
    for i in 0..400 {
        commit(journal.as_mut(), &entry(i, 700));
        prepare(journal.as_mut());
    }
    let mut found = vec![0; 500];
    reader
        .read_at(&mut found, u64::from(place.offset))
        .expect("the reader reads");
    assert_eq!(found, kept, "the file was used again while somebody read it");
}

/// Whoever polls hears of the same commits as whoever waits.
pub fn polling_brings_what_waiting_brings<D: Driver>(driver: &mut D) {
    let (mut journal, _) = open(driver);
    for round in 0..20 {
        let ticket = propose(journal.as_mut(), &entry(round, 50));
        let mut events = Vec::new();
        while events.is_empty() {
            journal.poll(&mut events).expect("polling succeeds");
        }
        let source = Source::Own(ticket);
        assert!(
            matches!(&*events, [Event::Committed { source: found, .. }] if *found == source),
            "{events:?}"
        );
    }
}

/// A driver that commits by itself calls its waker after a proposal was committed, so that nobody has to poll in vain.
pub fn a_driver_that_commits_by_itself_says_when_there_is_something_to_poll<D: Driver>(driver: &mut D) {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (mut journal, _) = open(driver);
    if !journal.commits_by_itself() {
        return;
    }
    let (wakes, woken) = channel();
    // Nobody listens any more when the check has ended.
    journal.set_waker(Arc::new(move || wakes.send(()).unwrap_or_default()));
    for round in 0..20 {
        propose(journal.as_mut(), &entry(round, 50));
        let mut events = Vec::new();
        while events.is_empty() {
            woken
                .recv_timeout(PATIENCE)
                .expect("the driver says that the entry is committed");
            journal.poll(&mut events).expect("polling succeeds");
        }
    }
}
