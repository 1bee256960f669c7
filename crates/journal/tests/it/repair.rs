//! Verify and repair: they agree with a start on what is damage, and a repair drops what is damaged and no more.

use std::collections::BTreeSet;
use std::sync::Arc;

use journal::conformance::Replayed;
use journal::{
    Corruption, Discarding, Disk, Journal, JournalError, LogRepair, Verification, conformance, repair_log,
    segment_name, verify,
};
use simulator::{Fault, Random, SimDisk};
use types::LogIndex;

use crate::support::{commit, entry, open, propose, small, try_open, wait};

const FOLDER: &str = "damaged-20261130T235959Z";
const ENTRIES: u64 = 60;
const SNAPSHOTS: [u64; 2] = [25, 40];

fn entry_of(index: u64) -> Vec<u8> {
    entry(index, 900 + index as usize)
}

/// A sealed log of more than 64 KiB. `snapshots` are made on the way; with `names` they need contents from the segments
/// there are.
fn sealed(snapshots: &[u64], names: bool) -> SimDisk {
    let disk = SimDisk::new(3);
    let (mut journal, ..) = open(&disk);
    for number in 1..=ENTRIES {
        // What an earlier snapshot needs goes with the next preparation.
        if snapshots.len() < 2 || number <= snapshots[0] {
            conformance::prepare(&mut journal);
        }
        let index = commit(&mut journal, &entry_of(number));
        if snapshots.contains(&number) {
            let segments: Vec<u32> = match names {
                true => (1..4).collect(),
                false => Vec::new(),
            };
            let mut sink = journal.begin_snapshot(index, &segments).unwrap();
            sink.write(&entry(number, 5_000)).unwrap();
            journal.complete_snapshot(sink.finish().unwrap()).unwrap();
        }
    }
    journal.seal().unwrap();
    drop(journal);
    disk.kill()
}

fn names_of(disk: &SimDisk, prefix: &str) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.starts_with(prefix));
    names
}

fn verified(disk: &SimDisk) -> Verification {
    let before: Vec<_> = disk.names().iter().map(|name| disk.content(name)).collect();
    let changes = disk.counters();
    let (found, journal) = verify(Arc::new(disk.clone()), &mut Discarding).unwrap();
    assert_eq!(journal.is_none(), found.is_start_refused);
    assert_eq!(disk.counters(), changes, "verify changed the disk");
    let after: Vec<_> = disk.names().iter().map(|name| disk.content(name)).collect();
    assert!(before == after, "verify changed the disk");
    found
}

fn repaired(disk: &SimDisk, folder: &str) -> Result<(LogRepair, Vec<LogIndex>), JournalError> {
    let mut dropped = Vec::new();
    let repair = repair_log(disk, folder, &mut |index, payload| {
        assert_eq!(payload, entry_of(index.0));
        dropped.push(index);
    })?;
    Ok((repair, dropped))
}

/// Opens, checks every entry, and returns the last index.
fn check_open(disk: &SimDisk) -> u64 {
    let (_, report, replayed) = open(disk);
    check_entries(&replayed);
    report.last_index.0
}

fn check_entries(replayed: &Replayed) {
    if let Some((index, state)) = &replayed.snapshot {
        assert_eq!(*state, entry(index.0, 5_000));
    }
    for (index, payload) in &replayed.entries {
        assert_eq!(*payload, entry_of(index.0));
    }
}

/// What a flip at a place may cost: the last entry that a repair must keep. None if it is no damage.
fn must_keep(disk: &SimDisk, name: &str, offset: usize) -> Option<u64> {
    if offset < 4096 {
        return Some(ENTRIES);
    }
    let bytes = disk.content(name);
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut at = 4096;
    while at < bytes.len() && bytes[at..].starts_with(b"HFrc") && number(at + 24) == number(24) {
        let length = u32::from_le_bytes(bytes[at + 20..at + 24].try_into().unwrap()) as usize;
        let end = at + 64 + length.next_multiple_of(8);
        if offset < end {
            // An entry costs itself, a start record all that follow in its segment, the seal nothing.
            return match bytes[at + 17] {
                1 => Some(number(at + 32) - 1),
                3 => Some(number(at + 32)),
                _ => None,
            };
        }
        at = end;
    }
    None
}

/// Flips bits of a file one after the other, and repairs.
fn flip_each(disk: &SimDisk, name: &str, step: usize, expected: impl Fn(usize) -> Option<u64>) -> u64 {
    let mut damaged = 0;
    for offset in (0..disk.content(name).len()).step_by(step) {
        let copy = disk.fork();
        copy.flip(name, offset as u64, 1 << (offset % 8));
        let flipped = copy.content(name);
        let found = verified(&copy);
        let opened = try_open(&copy.fork(), small());
        assert_eq!(found.is_start_refused, opened.is_err(), "{name} at {offset}");
        let Some(keep) = expected(offset) else {
            assert_eq!(found.damage, [], "{name} at {offset}");
            assert_eq!(check_open(&copy), ENTRIES, "{name} at {offset}");
            continue;
        };
        damaged += 1;
        assert_ne!(found.damage, [], "{name} at {offset}");
        let (repair, dropped) = repaired(&copy, FOLDER).unwrap();
        assert_eq!(repair.damage[0].file, found.damage[0].file, "{name} at {offset}");
        assert_eq!(
            repair.last_index.0, keep,
            "{name} at {offset}: {:?}",
            repair.damage
        );
        assert!(
            copy.content(&format!("{FOLDER}/{name}")) == flipped,
            "{name} at {offset}: {repair:?}"
        );
        assert_eq!(
            repair.dropped_to.is_some(),
            keep < ENTRIES,
            "{name} at {offset}: {repair:?}"
        );
        assert!(dropped.iter().all(|index| index.0 > keep), "{name} at {offset}");
        let behind = ENTRIES.saturating_sub(keep + 1) as usize;
        assert!(dropped.len() >= behind || keep == 0, "{name} at {offset}");
        assert_eq!(verified(&copy).damage, [], "{name} at {offset}");
        assert_eq!(check_open(&copy), keep, "{name} at {offset}");
    }
    damaged
}

#[test]
fn a_flip_anywhere_in_a_sealed_log_costs_what_is_behind_it() {
    let disk = sealed(&[], false);
    let names = names_of(&disk, "log-");
    let bytes: usize = names.iter().map(|name| disk.content(name).len()).sum();
    assert!(bytes > 64 << 10);
    assert_eq!(verified(&disk).last_index, LogIndex(ENTRIES));
    let mut damaged = 0;
    for name in &names {
        damaged += flip_each(&disk, name, 7, |offset| must_keep(&disk, name, offset));
    }
    assert!(damaged > 4_000, "{damaged}");
}

#[test]
fn a_flip_before_the_snapshot_costs_no_entry() {
    for names in [false, true] {
        let disk = sealed(&SNAPSHOTS[1..], names);
        let first = LogIndex(SNAPSHOTS[1]);
        let mut damaged = 0;
        // The segment in which the log begins, and the one after it.
        for name in names_of(&disk, "log-") {
            if index_before(&disk, &name).is_none_or(|index| index < 30) {
                continue;
            }
            damaged += flip_each(&disk, &name, 31, |offset| {
                let keep = must_keep(&disk, &name, offset)?;
                // What the snapshot has is not needed.
                Some(if keep < first.0 { ENTRIES } else { keep })
            });
        }
        assert!(damaged > 800, "{damaged}");
    }
}

fn index_before(disk: &SimDisk, name: &str) -> Option<u64> {
    let bytes = disk.content(name);
    let at = 4096 + 32;
    bytes[4096..]
        .starts_with(b"HFrc")
        .then(|| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()))
}

#[test]
fn copies_that_a_snapshot_needs_stay_though_the_log_is_damaged_before_them() {
    let disk = SimDisk::new(3);
    let (mut journal, ..) = open(&disk);
    for number in 1..=20 {
        commit(&mut journal, &entry_of(number));
    }
    let places: Vec<_> = (0..34)
        .map(|number| journal.copy_forward(&entry(number, 1_000)).unwrap().unwrap())
        .collect();
    assert_eq!(wait(&mut journal), []);
    let named: BTreeSet<u32> = places.iter().map(|place| place.segment).collect();
    let named: Vec<u32> = named.into_iter().collect();
    // The log begins in the last segment whose first entry the snapshot has: where the last of the copies lie.
    let mut last = places.iter().filter(|place| Some(&place.segment) == named.last());
    let copies = *last.next().unwrap();
    assert!(last.count() > 1);
    let mut sink = journal.begin_snapshot(LogIndex(20), &named).unwrap();
    sink.write(&entry(20, 5_000)).unwrap();
    journal.complete_snapshot(sink.finish().unwrap()).unwrap();
    for number in 21..=ENTRIES {
        commit(&mut journal, &entry_of(number));
    }
    journal.seal().unwrap();
    drop(journal);
    let disk = disk.kill();
    disk.flip(&segment_name(copies.segment), u64::from(copies.offset) + 1, 1);
    let before: Vec<_> = named.iter().map(|id| disk.content(&segment_name(*id))).collect();
    let (repair, _) = repaired(&disk, FOLDER).unwrap();
    assert_eq!((repair.last_index.0, repair.dropped_to), (ENTRIES, None));
    let after: Vec<_> = named.iter().map(|id| disk.content(&segment_name(*id))).collect();
    assert!(before == after, "contents that the snapshot needs were touched");
    assert_eq!(check_open(&disk), ENTRIES);
}

#[test]
fn a_damaged_snapshot_costs_nothing_if_an_older_one_or_the_log_serves() {
    let disk = sealed(&SNAPSHOTS, false);
    let snapshots = names_of(&disk, "snapshot-");
    assert_eq!(snapshots.len(), 2);
    for name in &snapshots {
        flip_each(&disk, name, 97, |_| Some(ENTRIES));
    }
    let copy = disk.fork();
    snapshots.iter().for_each(|name| copy.flip(name, 200, 1));
    let (repair, _) = repaired(&copy, FOLDER).unwrap();
    assert_eq!((repair.last_index.0, repair.damage.len()), (ENTRIES, 2));
    assert_eq!(check_open(&copy), ENTRIES);
}

#[test]
fn the_only_snapshot_of_a_log_that_begins_later_leaves_nothing() {
    let disk = sealed(&SNAPSHOTS[1..], false);
    let (mut journal, ..) = open(&disk);
    for name in names_of(&disk, "log-") {
        conformance::prepare(&mut journal);
        drop(name);
    }
    drop(journal);
    let disk = disk.kill();
    let name = &names_of(&disk, "snapshot-")[0];
    disk.flip(name, 3_000, 1);
    assert!(verified(&disk).is_start_refused);
    let (repair, dropped) = repaired(&disk, FOLDER).unwrap();
    assert!(repair.keeps_nothing());
    assert_eq!(repair.dropped_to, Some(LogIndex(ENTRIES)));
    assert!(dropped.len() >= (ENTRIES - SNAPSHOTS[1]) as usize);
    assert_eq!(check_open(&disk), 0);
}

#[test]
fn a_segment_of_which_nothing_can_be_read_is_said_to_be_lost() {
    let whole = sealed(&[], false);
    let logs = names_of(&whole, "log-");
    let used = logs
        .iter()
        .rev()
        .find(|name| index_before(&whole, name).is_some())
        .unwrap();
    let keep = index_before(&whole, used).unwrap();
    let disk = whole.fork();
    disk.alter(used, |bytes| bytes[..4096 + 88].fill(0));
    let (repair, _) = repaired(&disk, FOLDER).unwrap();
    assert_eq!(repair.unreadable, std::slice::from_ref(used));
    assert_eq!((repair.last_index.0, check_open(&disk)), (keep, keep));
    assert!(!repair.keeps_nothing());

    // One that was made in advance held nothing.
    let unused = logs.last().unwrap();
    assert_eq!(index_before(&whole, unused), None);
    let disk = whole.fork();
    disk.flip(unused, 50, 1);
    let (repair, _) = repaired(&disk, FOLDER).unwrap();
    assert_eq!((repair.unreadable.len(), repair.last_index.0), (0, ENTRIES));

    let disk = SimDisk::new(3);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, &entry_of(1));
    drop(journal);
    let disk = disk.kill();
    disk.alter("log-00000000000000000001.seg", |bytes| bytes.fill(0));
    assert!(verified(&disk).is_start_refused);
    let (repair, _) = repaired(&disk, FOLDER).unwrap();
    assert!(repair.keeps_nothing());
    assert_eq!(check_open(&disk), 0);
}

/// Kinds of damage, each with the entry that must be kept.
fn damages() -> Vec<(&'static str, SimDisk, u64)> {
    let plain = || sealed(&[], false);
    let named = || sealed(&SNAPSHOTS[1..], true);
    let logs = names_of(&plain(), "log-");
    let of_snapshot = {
        let disk = named();
        let mut logs = names_of(&disk, "log-");
        logs.retain(|name| index_before(&disk, name).is_some_and(|index| index <= SNAPSHOTS[1]));
        logs.pop().unwrap()
    };
    let with = |disk: SimDisk, name: &str, offset: u64| {
        disk.flip(name, offset, 4);
        disk
    };
    let behind = index_before(&plain(), &logs[3]).unwrap();
    let both = {
        let disk = sealed(&SNAPSHOTS, false);
        names_of(&disk, "snapshot-")
            .iter()
            .for_each(|name| disk.flip(name, 99, 1));
        disk
    };
    let without = |name: &str| {
        let disk = named();
        disk.remove(name).unwrap();
        disk.sync_dir().unwrap();
        disk
    };
    vec![
        ("an entry", with(plain(), &logs[3], 4096 + 88 + 100), behind),
        ("a start record", with(plain(), &logs[3], 4096 + 10), behind),
        ("an identity", with(plain(), &logs[3], 30), ENTRIES),
        (
            "an entry of the snapshot",
            with(named(), &of_snapshot, 4096 + 88 + 100),
            ENTRIES,
        ),
        (
            "a kept identity",
            with(named(), "log-00000000000000000002.seg", 30),
            ENTRIES,
        ),
        ("a kept segment", without("log-00000000000000000002.seg"), ENTRIES),
        ("the log", without(&of_snapshot), SNAPSHOTS[1]),
        ("all snapshots", both, ENTRIES),
    ]
}

#[test]
fn a_repair_that_is_interrupted_anywhere_is_run_again() {
    for (what, damaged, keep) in damages() {
        assert_ne!(verified(&damaged).damage, [], "{what}");
        let mut interruptions = 0;
        for halt in 1.. {
            let mut is_done = false;
            for seed in 0..4 {
                let disk = damaged.fork();
                disk.arm(Fault::Halt {
                    at: halt,
                    bytes: 100 * seed as usize,
                });
                is_done = repaired(&disk, FOLDER).is_ok();
                if is_done {
                    break;
                }
                interruptions += 1;
                let disk = match seed {
                    0 => disk.kill(),
                    seed => disk.crash(seed),
                };
                let (repair, _) = repaired(&disk, "damaged-again").unwrap();
                assert_eq!(repair.last_index.0, keep, "{what}, halted at {halt}, {seed}");
                assert_eq!(check_open(&disk.fork()), keep, "{what}, halted at {halt}, {seed}");
                assert!(!verified(&disk).is_start_refused, "{what}, halted at {halt}");
            }
            if is_done {
                break;
            }
        }
        assert!(interruptions > 10, "{what}: {interruptions}");
    }
}

#[test]
fn a_lost_segment_that_holds_contents_is_replaced_by_one_that_is_called_damaged() {
    let disk = sealed(&SNAPSHOTS[1..], true);
    let name = "log-00000000000000000002.seg";
    disk.remove(name).unwrap();
    assert!(verified(&disk).is_start_refused);
    let (repair, _) = repaired(&disk, FOLDER).unwrap();
    assert_eq!(repair.damage.len(), 1);
    let found = verified(&disk);
    assert!(!found.is_start_refused, "its messages can be looked for");
    assert_eq!(files(&found.damage), [format!("sim/{name}")]);
}

#[test]
fn a_flip_in_a_segment_that_is_kept_for_contents_is_damage_and_no_reason_to_refuse() {
    let disk = sealed(&SNAPSHOTS[1..], true);
    let name = "log-00000000000000000002.seg";
    disk.flip(name, 4096 + 88 + 200, 1);
    let found = verified(&disk);
    assert_eq!(files(&found.damage), [format!("sim/{name}")]);
    assert!(!found.is_start_refused);
    assert_eq!(check_open(&disk), ENTRIES);
}

fn files(damage: &[Corruption]) -> Vec<String> {
    damage.iter().map(|damage| damage.file.clone()).collect()
}

#[test]
fn a_torn_tail_and_an_empty_directory_are_whole() {
    let disk = SimDisk::new(3);
    assert_eq!(verified(&disk).damage, []);
    let (mut journal, ..) = open(&disk);
    commit(&mut journal, &entry_of(1));
    propose(&mut journal, &entry_of(2));
    drop(journal);
    let disk = disk.kill();
    disk.alter("log-00000000000000000001.seg", |bytes| {
        let end = 4096 + 88 + 64 + 904 + 500;
        bytes[end] ^= 1;
    });
    let found = verified(&disk);
    assert_eq!(
        (found.damage.as_slice(), found.last_index),
        (&[][..], LogIndex(1))
    );
    assert!(found.torn_tail.is_some());
    let (repair, _) = repaired(&disk, FOLDER).unwrap();
    assert_eq!((repair.damage, repair.aside), (vec![], vec![]));
    assert_eq!(verified(&disk), found, "a repair of nothing changes nothing");
}

/// Damages a disk in several places at once.
fn damage_at_random(disk: &SimDisk, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let names = disk.names();
        let name = &names[random.below(names.len() as u64) as usize];
        let bytes = disk.content(name).len() as u64;
        // Most files are read from their beginning, and most are longer than what is in them.
        let at = match random.below(3) {
            0 => random.below(bytes.min(4_300)),
            _ => random.below(bytes),
        };
        match random.below(10) {
            0 => disk.remove(name).unwrap(),
            1 => disk.alter(name, |bytes| bytes.truncate(at as usize)),
            2 => disk.alter(name, |bytes| bytes.extend([7; 100])),
            3 => disk.alter(name, |bytes| {
                let end = bytes.len().min(at as usize + 2_000);
                bytes[at as usize..end].fill(0);
            }),
            _ => disk.flip(name, at, 1 << random.below(8)),
        }
    }
    disk.sync_dir().unwrap();
}

#[test]
fn whatever_is_damaged_a_repair_leaves_a_directory_that_starts() {
    let whole = [
        sealed(&[], false),
        sealed(&SNAPSHOTS, false),
        sealed(&SNAPSHOTS[1..], false),
        sealed(&SNAPSHOTS[1..], true),
    ];
    let (mut damaged, mut emptied) = (0, 0);
    for seed in 0..1_200 {
        let mut random = Random::new(seed);
        let disk = whole[seed as usize % whole.len()].fork();
        damage_at_random(&disk, &mut random);
        let found = verified(&disk);
        let opened = try_open(&disk.fork(), small());
        assert_eq!(found.is_start_refused, opened.is_err(), "seed {seed}");
        let (repair, _) = repaired(&disk, FOLDER).unwrap();
        assert_eq!(
            repair.damage.is_empty(),
            found.damage.is_empty() || !has_reason(&found),
            "seed {seed}"
        );
        let last = check_open(&disk.fork());
        assert_eq!(last, repair.last_index.0, "seed {seed}: {repair:?}");
        if let Ok((_, report, _)) = opened {
            assert_eq!(
                last, report.last_index.0,
                "seed {seed}: what starts loses nothing"
            );
        }
        let after = verified(&disk);
        assert!(!after.is_start_refused, "seed {seed}: {after:?}");
        // What is left is in segments that only whoever knows the messages can do without.
        assert!(
            after
                .damage
                .iter()
                .all(|damage| kept_files(&disk).contains(&damage.file)),
            "seed {seed}: {after:?}"
        );
        damaged += u64::from(!found.damage.is_empty());
        emptied += u64::from(repair.keeps_nothing());
    }
    assert!(damaged > 600 && emptied < damaged / 2, "{damaged}, {emptied}");
}

/// Whether a repair of the log has anything to do: damage in segments that are only kept is left to the owner.
fn has_reason(found: &Verification) -> bool {
    found.is_start_refused
        || found
            .damage
            .iter()
            .any(|damage| damage.file.contains("snapshot-"))
}

fn kept_files(disk: &SimDisk) -> Vec<String> {
    let (_, journal) = verify(Arc::new(disk.clone()), &mut Discarding).unwrap();
    let kept = journal.unwrap().kept();
    kept.iter()
        .map(|kept| disk.describe(&segment_name(kept.segment)))
        .collect()
}
