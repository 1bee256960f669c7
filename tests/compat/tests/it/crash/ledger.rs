//! What the writers know about every message, by its id.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};

use super::writer::{EXTENDED_SECONDS, LEASE_SECONDS};

/// How far a call has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    NotTried,
    /// Sent to the server; until the answer comes it may have happened or not.
    Tried,
    Answered,
}

/// Until when an answered call says that nobody else gets the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// Never received, or given back; an unanswered give-back counts as one, for it may have happened.
    #[default]
    Free,
    /// Received by an answered call.
    Held,
    /// A longer timeout was asked for without an answer: one of the two holds.
    MaybeExtended,
    /// The longer timeout was answered.
    Extended,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) send: Progress,
    pub(super) delete: Progress,
    pub(super) lease: Lease,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: HashMap<String, Entry>,
    attribute_changes: u64,
    released: u64,
}

impl Ledger {
    /// Returns what is known of a message, which is noted as new if it is not known yet.
    pub(super) fn entry(&mut self, id: &str) -> &mut Entry {
        self.entries.entry(id.to_owned()).or_default()
    }

    /// Notes an answered change of a queue attribute.
    pub(super) fn count_attribute_change(&mut self) {
        self.attribute_changes += 1;
    }

    /// Notes that a message is given back, which makes it free from the moment of the request on.
    pub(super) fn release(&mut self, id: &str) {
        self.entry(id).lease = Lease::Free;
        self.released += 1;
    }

    /// Checks that a message may be delivered when `passed` seconds of every lease are over.
    pub(super) fn check_delivery(&self, id: &str, passed: u32) -> Result<()> {
        let entry = self
            .entries
            .get(id)
            .with_context(|| format!("{id:?} was never sent"))?;
        if entry.delete == Progress::Answered {
            bail!("{id} was deleted, and came back: {entry:?}");
        }
        let until = match entry.lease {
            Lease::Free => 0,
            Lease::Held | Lease::MaybeExtended => LEASE_SECONDS,
            Lease::Extended => EXTENDED_SECONDS,
        };
        ensure!(
            passed >= until,
            "{id} came although its lease runs {until} s and {passed} s passed: {entry:?}"
        );
        Ok(())
    }

    /// Compares what the last drain found with what must be there.
    pub(super) fn check_drained(&self, drained: &HashMap<String, u32>) -> Result<()> {
        let twice: Vec<_> = drained.iter().filter(|(_, times)| **times > 1).take(5).collect();
        ensure!(twice.is_empty(), "drained more than once: {twice:?}");
        let must_be_there =
            |entry: &Entry| entry.send == Progress::Answered && entry.delete == Progress::NotTried;
        let lost: Vec<_> = self
            .entries
            .iter()
            .filter(|(id, entry)| must_be_there(entry) && !drained.contains_key(*id))
            .collect();
        ensure!(
            lost.is_empty(),
            "{} messages are lost, such as {:?}",
            lost.len(),
            &lost[..lost.len().min(5)]
        );
        Ok(())
    }

    /// Checks that the run was one to learn from.
    pub(super) fn check_coverage(&self) -> Result<()> {
        let count = |wanted: fn(&Entry) -> bool| self.entries.values().filter(|entry| wanted(entry)).count();
        let seen = [
            (
                "answered sends",
                count(|entry| entry.send == Progress::Answered),
                500,
            ),
            (
                "unanswered sends",
                count(|entry| entry.send == Progress::Tried),
                5,
            ),
            (
                "answered deletes",
                count(|entry| entry.delete == Progress::Answered),
                100,
            ),
            (
                "leases held at the end",
                count(|entry| entry.lease == Lease::Held),
                10,
            ),
            (
                "extended leases",
                count(|entry| entry.lease == Lease::Extended),
                10,
            ),
            ("given back", usize::try_from(self.released)?, 10),
            ("attribute changes", usize::try_from(self.attribute_changes)?, 20),
        ];
        for (what, count, floor) in seen {
            ensure!(
                count >= floor,
                "only {count} {what}; the run proves nothing: {}",
                self.summary()
            );
        }
        Ok(())
    }

    /// Returns the run in one line.
    pub(super) fn summary(&self) -> String {
        let count = |wanted: fn(&Entry) -> bool| self.entries.values().filter(|entry| wanted(entry)).count();
        format!(
            "{} sends answered, {} not; {} deletes answered, {} not; {} leases extended, {} given back; \
             {} attribute changes",
            count(|entry| entry.send == Progress::Answered),
            count(|entry| entry.send == Progress::Tried),
            count(|entry| entry.delete == Progress::Answered),
            count(|entry| entry.delete == Progress::Tried),
            count(|entry| entry.lease == Lease::Extended),
            self.released,
            self.attribute_changes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a ledger of one message, "m".
    fn ledger(send: Progress, delete: Progress, lease: Lease) -> Ledger {
        let mut ledger = Ledger::default();
        *ledger.entry("m") = Entry { send, delete, lease };
        ledger
    }

    fn drained(times: u32) -> HashMap<String, u32> {
        if times == 0 {
            HashMap::new()
        } else {
            HashMap::from([("m".to_owned(), times)])
        }
    }

    #[test]
    fn what_was_answered_must_be_there() {
        let sent = ledger(Progress::Answered, Progress::NotTried, Lease::Free);
        assert!(sent.check_drained(&drained(0)).is_err(), "a lost message");
        assert!(sent.check_drained(&drained(1)).is_ok());
        assert!(sent.check_drained(&drained(2)).is_err(), "a message twice");
        for unsure in [
            ledger(Progress::Tried, Progress::NotTried, Lease::Free),
            ledger(Progress::Answered, Progress::Tried, Lease::Held),
        ] {
            assert!(unsure.check_drained(&drained(0)).is_ok());
            assert!(unsure.check_drained(&drained(1)).is_ok());
        }
    }

    #[test]
    fn what_is_gone_or_leased_must_not_come() {
        assert!(
            Ledger::default().check_delivery("m", 0).is_err(),
            "a message that nobody sent"
        );
        let deleted = ledger(Progress::Answered, Progress::Answered, Lease::Held);
        assert!(
            deleted.check_delivery("m", EXTENDED_SECONDS).is_err(),
            "a deleted message"
        );
        let check = |lease, passed, expected| {
            let ledger = ledger(Progress::Answered, Progress::NotTried, lease);
            assert_eq!(
                ledger.check_delivery("m", passed).is_ok(),
                expected,
                "{lease:?} after {passed} s"
            );
        };
        check(Lease::Free, 0, true);
        check(Lease::Held, 0, false);
        check(Lease::Held, LEASE_SECONDS, true);
        check(Lease::MaybeExtended, 0, false);
        check(Lease::MaybeExtended, LEASE_SECONDS, true);
        check(Lease::Extended, LEASE_SECONDS, false);
        check(Lease::Extended, EXTENDED_SECONDS, true);
    }
}
