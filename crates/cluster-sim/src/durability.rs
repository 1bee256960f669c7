//! What is committed must be durable on a majority: synced there, and not only written.

use std::io::{Read, copy, sink};
use std::sync::Arc;

use journal::{RaftSnapshot, ReplayError, ReplicatedLog, RestoreSnapshot};
use types::{LogIndex, Term};

use crate::node::{Machine, Site, log_options};

/// Takes a snapshot and forgets it.
struct Skim;

impl RestoreSnapshot for Skim {
    fn snapshot(&mut self, _: &RaftSnapshot, content: &mut dyn Read) -> Result<(), ReplayError> {
        copy(content, &mut sink())?;
        Ok(())
    }
}

/// Looks at what each machine would have if all lost their power now.
pub(crate) fn check(site: &Site, machines: &[Machine]) {
    let Some((index, term)) = site.ledger.last_committed() else {
        return;
    };
    let durable: Vec<usize> = machines
        .iter()
        .filter(|machine| has(site, machine, LogIndex(index), Term(term)))
        .map(|machine| machine.number)
        .collect();
    site.trace.count("durability looked at");
    if durable.len() <= machines.len() / 2 {
        site.trace.find(format!(
            "durability: entry {index} of term {term} is committed, and durable on nodes {durable:?} alone"
        ));
    }
}

/// Whether an entry would be there after a power cut.
fn has(site: &Site, machine: &Machine, index: LogIndex, term: Term) -> bool {
    let image = machine.disk.fork().crash(site.seed ^ index.0);
    match ReplicatedLog::open(Arc::new(image), log_options(site), &mut Skim) {
        Ok((log, _)) => {
            let is_in_snapshot = log.snapshot().is_some_and(|snapshot| snapshot.id.index >= index);
            is_in_snapshot || log.id(index).is_some_and(|id| id.term == term)
        }
        Err(_) => false,
    }
}
