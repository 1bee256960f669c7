//! Recovery of a log: whatever stands on the disk, what is replayed is what was written, or the start is refused.
//!
//! An input is a list of changes to a good log, or after a first byte of 0 the whole content of its first segment.

use std::sync::{Arc, LazyLock};

use journal::conformance::Replayed;
use journal::{
    Discarding, Disk, Fsync, Journal, JournalError, LocalJournal, LocalOptions, repair_log, verify,
};
use simulator::SimDisk;

const FIRST: &str = "log-00000000000000000001.seg";
const ENTRIES: u8 = 12;
/// A checksum of 32 bits finds every change of so few bits, so a replayed entry that differs is never chance.
const FLIPS_MAX: usize = 3;

/// A log of two segments whose last entries are not known to be durable.
static LOG: LazyLock<(SimDisk, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let disk = SimDisk::new(3);
    let (mut journal, _) = open(&disk).expect("an empty disk opens");
    let epoch = journal.epoch().expect("a local journal may always propose");
    let entries: Vec<Vec<u8>> = (0..ENTRIES)
        .map(|number| {
            (0..=255)
                .cycle()
                .map(|byte: u8| byte ^ number)
                .take(500 + usize::from(number))
                .collect()
        })
        .collect();
    for entry in &entries {
        journal.propose(entry, epoch).expect("the disk works");
        journal.wait(&mut Vec::new()).expect("the disk works");
    }
    drop(journal);
    (disk.kill(), entries)
});

/// Checks a start after the changes that the bytes ask for.
pub fn segment_recovery(input: &[u8]) {
    if let [0, content @ ..] = input {
        let disk = SimDisk::new(3);
        disk.put(FIRST, content);
        check_repair(&disk.fork());
        return check_repeats(&disk);
    }
    let (disk, entries) = &*LOG;
    let disk = disk.fork();
    change(&disk, input);
    let repaired = disk.fork();
    if check_repair(&repaired) {
        let (_, kept) = open(&repaired.kill()).expect("a repaired log opens");
        let kept: Vec<Vec<u8>> = kept.entries.into_iter().map(|(_, entry)| entry).collect();
        assert_eq!(kept, entries[..kept.len()]);
    }
    let Ok((_, replayed)) = open(&disk) else {
        return;
    };
    let replayed: Vec<Vec<u8>> = replayed.entries.into_iter().map(|(_, entry)| entry).collect();
    assert!(replayed.len() <= entries.len());
    assert_eq!(replayed, entries[..replayed.len()]);
    let (_, again) = open(&disk.kill()).expect("a start that succeeded succeeds again");
    assert_eq!(again.entries.len(), replayed.len());
}

/// Whatever stands on the disk, verify agrees with a start, and a repair that succeeds leaves a log that opens. Returns
/// whether it did.
fn check_repair(disk: &SimDisk) -> bool {
    let found = verify(Arc::new(disk.clone()), &mut Discarding);
    let refused = match open(&disk.fork()) {
        Ok(_) => false,
        Err(JournalError::Corruption(_)) => true,
        // A later version wrote it, or seems to have.
        Err(_) => return false,
    };
    let (found, _) = found.expect("what opens or is damaged can be looked at");
    assert_eq!(found.is_start_refused, refused);
    if repair_log(disk, "damaged", &mut |_, _| {}).is_err() {
        return false;
    }
    match open(&disk.fork()) {
        Err(JournalError::Corruption(damage)) => panic!("repaired, and then: {damage}"),
        Ok(_) | Err(_) => true,
    }
}

/// What a start says of bytes that nobody wrote is not known, but the next start says the same.
fn check_repeats(disk: &SimDisk) {
    let outcome = |opened: Result<(LocalJournal, Replayed), JournalError>| match opened {
        Ok((_, replayed)) => Ok(replayed),
        Err(error) => Err(error.to_string()),
    };
    let first = outcome(open(disk));
    assert_eq!(outcome(open(&disk.kill())), first);
}

/// Carries changes out, five bytes each: what, where, and how.
fn change(disk: &SimDisk, input: &[u8]) {
    let names: Vec<String> = disk.names();
    let mut flips = 0;
    for [what, file, high, low, how] in input.as_chunks::<5>().0 {
        let name = &names[usize::from(*file) % names.len()];
        let at = usize::from(*high) << 8 | usize::from(*low);
        disk.alter(name, |bytes| {
            let at = at % bytes.len().max(1);
            match what % 5 {
                0 if flips < FLIPS_MAX && !bytes.is_empty() => {
                    flips += 1;
                    bytes[at] ^= 1 << (how % 8);
                }
                1 => bytes[at..].fill(0),
                2 => bytes.truncate(at),
                // A block written to the wrong place, from this file.
                3 => {
                    let length = (usize::from(*how) * 16).min(bytes.len() - at);
                    let to = (at * 7) % (bytes.len() - length).max(1);
                    bytes.copy_within(at..at + length, to);
                }
                4 => bytes.extend_from_slice(&vec![0; usize::from(*how)]),
                _ => {}
            }
        });
    }
}

fn open(disk: &SimDisk) -> Result<(LocalJournal, Replayed), JournalError> {
    let mut replayed = Replayed::default();
    let options = LocalOptions {
        first_segment_bytes: 8 << 10,
        segment_bytes: 12 << 10,
        fsync: Fsync::Always,
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (journal, _) = LocalJournal::open(disk, options, &mut replayed)?;
    Ok((journal, replayed))
}
