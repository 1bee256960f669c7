//! Damage at rest: every cut and every flipped byte of a log is noticed, or costs nothing that was acknowledged.

use journal::{Fsync, Journal, JournalError, LocalOptions, conformance};
use simulator::{Fault, SimDisk};
use types::LogIndex;

use crate::support::{commit, entry, open, propose, small, try_open, wait};

const FIRST: &str = "log-00000000000000000001.seg";

/// A sealed log of several segments, the next one prepared.
fn sealed_log() -> (SimDisk, Vec<(LogIndex, Vec<u8>)>) {
    let disk = SimDisk::new(3);
    let (mut journal, ..) = open(&disk);
    let mut expected = Vec::new();
    for number in 0..14 {
        conformance::prepare(&mut journal);
        let bytes = entry(number, 700 + number as usize);
        expected.push((commit(&mut journal, &bytes), bytes));
    }
    journal.seal().unwrap();
    drop(journal);
    (disk.kill(), expected)
}

#[test]
fn every_flipped_byte_of_a_sealed_log_is_noticed_or_costs_nothing() {
    let (disk, expected) = sealed_log();
    let names = disk.names();
    assert_eq!(names.len(), 3, "{names:?}");
    let (mut noticed, mut harmless) = (0, 0);
    for name in names {
        for offset in 0..disk.content(&name).len() as u64 {
            let copy = disk.fork();
            copy.flip(&name, offset, 1 << (offset % 8));
            match try_open(&copy, small()) {
                Ok((_, _, replayed)) => {
                    assert_eq!(replayed.entries, expected, "{name} at {offset}");
                    harmless += 1;
                }
                Err(JournalError::Corruption(damage)) => {
                    assert_eq!(damage.file, format!("sim/{name}"), "at {offset}: {damage}");
                    assert!(damage.offset <= offset, "at {offset}: {damage}");
                    noticed += 1;
                }
                Err(error) => panic!("{name} at {offset}: {error}"),
            }
        }
    }
    // 14 entries, their headers, two start records and three identity pages cannot change without notice.
    assert!(
        noticed > 14 * 764 + 3 * 4096,
        "{noticed} noticed, {harmless} harmless"
    );
}

#[test]
fn a_log_cut_at_any_byte_replays_a_prefix() {
    let (disk, expected) = sealed_log();
    let names = disk.names();
    let last = &names[1];
    for name in [FIRST, last] {
        for cut in (4096..disk.content(name).len()).step_by(3) {
            let copy = disk.fork();
            copy.alter(name, |bytes| bytes[cut..].fill(0));
            match try_open(&copy, small()) {
                Ok((_, _, replayed)) => {
                    let count = replayed.entries.len();
                    assert_eq!(replayed.entries, expected[..count], "{name} cut at {cut}");
                    assert!(name == last || count == expected.len(), "{name} cut at {cut}");
                }
                Err(JournalError::Corruption(_)) => assert_ne!(name, last, "cut at {cut}"),
                Err(error) => panic!("{name} cut at {cut}: {error}"),
            }
        }
    }
}

#[test]
fn a_file_of_another_length_or_of_another_segment_is_refused() {
    let (disk, _) = sealed_log();
    let names = disk.names();
    for change in 0..4 {
        let copy = disk.fork();
        match change {
            0 => copy.alter(&names[1], |bytes| bytes.truncate(bytes.len() - 1)),
            1 => copy.alter(&names[1], |bytes| bytes.push(0)),
            2 => copy.alter(&names[1], Vec::clear),
            _ => copy.put(&names[1], &disk.content(&names[0])),
        }
        let error = try_open(&copy, small()).unwrap_err();
        assert!(matches!(error, JournalError::Corruption(_)), "{change}: {error}");
    }
}

#[test]
fn a_missing_segment_is_damage() {
    let (disk, _) = sealed_log();
    let error = without_first(&disk);
    assert!(
        error.contains("the log begins after entry") && error.contains("there is no snapshot"),
        "{error}"
    );
}

fn without_first(disk: &SimDisk) -> String {
    use journal::Disk;
    let copy = disk.fork();
    copy.remove(FIRST).unwrap();
    try_open(&copy, small()).unwrap_err().to_string()
}

#[test]
fn damage_names_file_place_reason_and_what_to_try_and_changes_nothing() {
    let (disk, _) = sealed_log();
    disk.flip(FIRST, 4096 + 88 + 70, 1);
    let before = disk.content(FIRST);
    let text = try_open(&disk, small()).unwrap_err().to_string();
    for part in [
        "sim/log-00000000000000000001.seg",
        "byte 4184",
        "no valid record follows entry 0",
        "backup",
        "`holdfast repair sim`",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(disk.content(FIRST), before);
    let again = try_open(&disk.kill(), small()).unwrap_err().to_string();
    assert_eq!(again, text);
}

#[test]
fn every_byte_at_which_the_last_write_can_tear_is_a_torn_tail() {
    let entries = [entry(1, 300), entry(2, 333)];
    let bytes = 64 + 336;
    for taken in 0..=bytes {
        let disk = SimDisk::new(5);
        let (mut journal, ..) = open(&disk);
        commit(&mut journal, &entries[0]);
        disk.arm(Fault::Halt { at: 1, bytes: taken });
        let epoch = journal.epoch().unwrap();
        journal.propose(&entries[1], epoch).unwrap_err();
        let disk = disk.kill();
        let (mut journal, report, replayed) = open(&disk);
        // The last three bytes are padding, as zero as the segment behind them.
        let is_whole = taken >= bytes - 3;
        assert_eq!(replayed.entries.len(), 1 + usize::from(is_whole), "{taken}");
        // Without its generation a record leaves no trace.
        let is_torn = taken >= 32 && !is_whole;
        assert_eq!(report.torn_tail.is_some(), is_torn, "{taken}");
        let index = commit(&mut journal, b"after");
        assert_eq!(index, LogIndex(replayed.entries.len() as u64 + 1));
        let (_, report, again) = open(&disk.kill());
        assert_eq!((again.entries.len(), report.torn_tail), (index.0 as usize, None));
    }
}

#[test]
fn a_record_of_a_later_version_halts() {
    let disk = SimDisk::new(3);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, b"12345678");
    drop(journal);
    let record = 4096 + 88;
    for (at, value, what) in [(16, 2, "format 2"), (17, 77, "kind 77")] {
        let copy = disk.fork();
        copy.alter(FIRST, |bytes| {
            bytes[record + at] = value;
            let crc = crc32c::crc32c(&bytes[record + 8..record + 72]);
            bytes[record + 4..record + 8].copy_from_slice(&crc.to_le_bytes());
        });
        let error = try_open(&copy, small()).unwrap_err();
        assert!(matches!(error, JournalError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn files_of_a_later_version_halt() {
    let (disk, names) = log_with_snapshots(true);
    let segments = disk.names().into_iter().filter(|name| name.starts_with("log"));
    for (name, crc_at) in segments.map(|name| (name, 4092)).chain([(names[1].clone(), 60)]) {
        let copy = disk.fork();
        copy.alter(&name, |bytes| {
            bytes[8] = 9;
            let crc = crc32c::crc32c(&bytes[..crc_at]);
            bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        });
        match try_open(&copy, small()) {
            Err(JournalError::Unsupported { file, .. }) => assert_eq!(file, format!("sim/{name}")),
            Err(error) => panic!("{error}"),
            // A segment that only the snapshot's past needs is not looked at.
            Ok((_, report, _)) => assert_eq!((name.as_str(), report.last_index), (FIRST, LogIndex(30))),
        }
    }
}

/// Two snapshots and the log between and after them.
fn log_with_snapshots(keep_older: bool) -> (SimDisk, Vec<String>) {
    let disk = SimDisk::new(9);
    let (mut journal, ..) = open(&disk);
    for number in 1..=30 {
        let index = commit(&mut journal, &entry(number, 500));
        if number == 10 || number == 20 {
            conformance::snapshot(&mut journal, index, &entry(number, 5_000));
            if !keep_older {
                conformance::prepare(&mut journal);
            }
        }
    }
    journal.seal().unwrap();
    drop(journal);
    let names = disk
        .names()
        .into_iter()
        .filter(|name| name.starts_with("snap"))
        .collect();
    (disk.kill(), names)
}

#[test]
fn every_flipped_byte_of_the_only_snapshot_is_noticed() {
    let (disk, names) = log_with_snapshots(false);
    assert_eq!(names, ["snapshot-00000000000000000020.snap"]);
    for offset in 0..disk.content(&names[0]).len() as u64 {
        let copy = disk.fork();
        copy.flip(&names[0], offset, 1 << (offset % 8));
        match try_open(&copy, small()) {
            Err(JournalError::Corruption(damage)) => assert_eq!(damage.file, format!("sim/{}", names[0])),
            Err(error) => panic!("at {offset}: {error}"),
            Ok(_) => panic!("a flip at {offset} was not noticed"),
        }
    }
}

#[test]
fn an_older_snapshot_serves_if_the_log_after_it_is_whole() {
    let (disk, names) = log_with_snapshots(true);
    assert_eq!(names.len(), 2);
    disk.flip(&names[1], 100, 1);
    let (mut journal, report, replayed) = open(&disk);
    assert_eq!(report.snapshot, Some(LogIndex(10)));
    assert_eq!(report.damaged_snapshots.len(), 1);
    assert_eq!(report.damaged_snapshots[0].file, format!("sim/{}", names[1]));
    assert_eq!(replayed.snapshot, Some((LogIndex(10), entry(10, 5_000))));
    assert_eq!((report.entries_replayed, report.last_index), (20, LogIndex(30)));
    // The next snapshot takes the place of both.
    conformance::snapshot(&mut journal, LogIndex(30), b"thirty");
    conformance::prepare(&mut journal);
    let left: Vec<String> = disk
        .names()
        .into_iter()
        .filter(|name| name.starts_with("snap"))
        .collect();
    assert_eq!(left, ["snapshot-00000000000000000030.snap"]);
}

#[test]
fn a_log_that_ends_before_its_snapshot_is_damage() {
    let disk = SimDisk::new(9);
    let (mut journal, ..) = open(&disk);
    for number in 1..=3 {
        commit(&mut journal, &entry(number, 500));
    }
    conformance::snapshot(&mut journal, LogIndex(3), b"three");
    drop(journal);
    let end = 4096 + 88 + 3 * (64 + 504);
    disk.alter(FIRST, |bytes| bytes[end - 10] ^= 1);
    let text = try_open(&disk.kill(), small()).unwrap_err().to_string();
    assert!(
        text.contains("ends with entry 2") && text.contains("snapshot of entry 3"),
        "{text}"
    );
}

#[test]
fn without_fsync_nothing_unsynced_is_claimed_to_be_durable() {
    let options = LocalOptions {
        fsync: Fsync::Off,
        ..small()
    };
    let disk = SimDisk::new(3);
    let (mut journal, ..) = try_open(&disk, options.clone()).unwrap();
    for number in 0..30 {
        propose(&mut journal, &entry(number, 900));
        wait(&mut journal);
    }
    assert_eq!(disk.counters().syncs, {
        let made = disk.names().len() as u64;
        // Each segment is synced while it is made, and the first start record.
        let steps = disk.fork().counters().syncs;
        assert!(steps < 4 * made, "{steps} syncs for {made} segments");
        steps
    });
    drop(journal);
    // All records that came after the first segment survive, those of the first do not.
    let copy = disk.kill();
    copy.alter(FIRST, |bytes| bytes[4096 + 88..].fill(0));
    let (_, report, replayed) = try_open(&copy, options).unwrap();
    assert_eq!(replayed.entries, []);
    assert!(report.torn_tail.is_some());
}

#[test]
fn a_whole_record_of_another_history_does_not_count() {
    let disk = SimDisk::new(3);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, &entry(1, 500));
    drop(journal);
    for is_claimed in [false, true] {
        // Two histories of the same lengths in the same file, so that only the chain tells their records apart.
        let [one, other] = [10, 20].map(|number| {
            let disk = disk.fork();
            let (mut journal, ..) = open(&disk);
            propose(&mut journal, &entry(number, 500));
            propose(&mut journal, &entry(number + 1, 500));
            if is_claimed {
                wait(&mut journal);
                propose(&mut journal, &entry(number + 2, 500));
            }
            disk.content(FIRST)
        });
        let third = 4096 + 88 + 2 * (64 + 504);
        let spliced = [&one[..third], &other[third..]].concat();
        let disk = disk.fork();
        disk.put(FIRST, &spliced);
        match try_open(&disk, small()) {
            Ok((_, report, replayed)) => {
                assert!(!is_claimed);
                assert_eq!(replayed.entries.len(), 2);
                assert_eq!(report.torn_tail.map(|tail| tail.offset), Some(third as u64));
            }
            Err(JournalError::Corruption(damage)) => {
                assert!(is_claimed);
                assert_eq!(damage.offset, third as u64);
            }
            Err(error) => panic!("{error}"),
        }
    }
}
