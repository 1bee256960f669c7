//! What becomes of proposals, and of the right to make them: the commit thread's side of the journal.

use std::time::Duration;

use journal::{Event, JournalError, ProposeError, Source};
use queue_core::Command;
use tracing::{error, info, warn};

use crate::owner::Now;
use crate::replay::recover;
use crate::request::{Input, Reply, Request};
use crate::route::Leader;
use crate::turn::Committer;

/// A command of the server itself, as the inbox has it.
pub(crate) fn internal<R>(command: Command) -> Input<R> {
    let request = Request::Internal(command);
    Input { request, reply: None }
}

/// How long the last turns wait for proposals of a journal that commits by itself: other nodes may be gone.
const LAST_OUTCOMES: Duration = Duration::from_secs(5);
/// How often they look, should nobody wake them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Committer {
    /// Whether the journal commits although nobody waits for it.
    pub(crate) fn commits_by_itself(&self) -> bool {
        self.journal.commits_by_itself()
    }

    /// Hears what the journal has to say by itself: entries, and whether this process reigns.
    pub(crate) fn listen(&mut self) {
        if !self.commits_by_itself() && self.reign.is_some() {
            return;
        }
        let heard = self.journal.poll(&mut self.events);
        let now = self.shared.now();
        let heard = heard.and_then(|()| self.follow(now));
        self.survive(heard);
    }

    /// Serves only while the journal is sure that no other process reigns, and begins a reign with what the state lacks.
    pub(crate) fn look_at_reign(&mut self) {
        if self.reign.is_none() || self.reign != self.journal.epoch() {
            self.owner.suspend();
        } else {
            self.owner.reign();
            self.look_at_level();
            if !self.is_initialised {
                self.initialise();
            }
        }
        self.shared.set_leads(self.owner.is_reigning);
    }

    /// Proposes the first seal key of a new partition, and limits that were changed.
    fn initialise(&mut self) {
        let in_flight_max = self.shared.options.in_flight_max;
        let has_key = !self.owner.partition().seal_keys().is_empty();
        let has_limits = self.owner.partition().in_flight_max() == in_flight_max;
        let level = self.level();
        let has_level = self.owner.partition().level() >= level;
        self.is_initialised = has_key && has_limits && has_level;
        let mut needed = Vec::new();
        if !has_key {
            let mut key = [0; 32];
            self.shared.options.random.fill(&mut key);
            needed.push(Command::AddSealKey { key });
        }
        if !has_limits {
            needed.push(Command::SetLimits { in_flight_max });
        }
        if !has_level {
            needed.push(Command::RaiseLevel { level });
        }
        #[cfg(feature = "next-level")]
        if self.owner.partition().level() == queue_core::LEVEL {
            info!("a command of the next feature level");
            needed.push(Command::OfNextLevel);
        }
        needed.retain(|command| !self.owner.is_proposing(command));
        // Before what waits: an answer may need the key.
        self.inputs.splice(0..0, needed.into_iter().map(internal));
    }

    /// Returns the feature level that every node understands. Alone, that is this version's.
    fn level(&self) -> u32 {
        let leader = self.shared.options.leader.as_deref();
        leader.map_or(queue_core::LEVEL, Leader::level)
    }

    /// Looks whether all nodes have come to a higher feature level.
    fn look_at_level(&mut self) {
        if self.awaits_level() && self.level() > self.owner.partition().level() {
            self.is_initialised = false;
        }
    }

    /// Whether this version understands a higher level than the cluster is of.
    pub(crate) fn awaits_level(&self) -> bool {
        self.owner.is_reigning && self.owner.partition().level() < queue_core::LEVEL
    }

    /// Tells the other nodes what this one came to, and has states hashed that are to be compared.
    pub(crate) fn compare(&mut self) {
        let level = self.owner.partition().level();
        let is_raised = std::mem::replace(&mut self.level_told, level) != level;
        let checkpoints = std::mem::take(&mut self.turn.checkpoints);
        if let Some(leader) = self.shared.options.leader.as_deref() {
            checkpoints
                .into_iter()
                .for_each(|checkpoint| leader.compare(checkpoint));
            if is_raised {
                info!(level, "the feature level of the cluster");
                leader.raised(level);
            }
        }
        for (index, state) in std::mem::take(&mut self.turn.states) {
            self.hash_state(index, state);
        }
    }

    /// Proposes the batch that was made, and waits for its outcome unless that comes by itself.
    pub(crate) fn commit(&mut self, now: Now) -> Result<(), JournalError> {
        let proposed = match self.reign {
            Some(epoch) => self.journal.propose(&self.entry, epoch),
            None => Err(ProposeError::EpochChanged { epoch: None }),
        };
        match proposed {
            Ok(ticket) => self.owner.proposed(ticket),
            Err(ProposeError::Journal(failure)) => return Err(failure),
            Err(
                refusal @ (ProposeError::EpochChanged { .. }
                | ProposeError::TooLarge { .. }
                | ProposeError::Full { .. }),
            ) => {
                warn!(reason = %refusal, "the journal did not take a batch");
                if matches!(refusal, ProposeError::EpochChanged { .. }) {
                    self.owner.suspend();
                }
                self.owner.abandon(&Reply::NotTaken, &mut self.turn);
                return Ok(());
            }
        }
        if self.commits_by_itself() {
            return Ok(());
        }
        self.journal.wait(&mut self.events)?;
        self.follow(now)
    }

    /// Does what the events say, in their order.
    fn follow(&mut self, now: Now) -> Result<(), JournalError> {
        let mut events = std::mem::take(&mut self.events);
        let mut is_written = false;
        for event in events.drain(..) {
            match event {
                Event::Committed {
                    index,
                    source: Source::Own(ticket),
                    place,
                    ..
                } => {
                    is_written = true;
                    let entry = (index, place);
                    let is_known = self.owner.commit_proposal(ticket, entry, now, &mut self.turn);
                    assert!(is_known, "{ticket:?} committed, and is not on its way");
                    self.observe();
                }
                Event::Committed {
                    index,
                    source: Source::Foreign(bytes),
                    place,
                    ..
                } => {
                    is_written = true;
                    self.owner
                        .commit_foreign(index, &bytes, place, now, &mut self.turn)
                        .map_err(|source| JournalError::Replay { index, source })?;
                }
                Event::Rejected { ticket } => {
                    self.owner
                        .abandon_proposal(ticket, &Reply::NotTaken, &mut self.turn);
                }
                Event::Unknown { ticket } => {
                    self.owner
                        .abandon_proposal(ticket, &Reply::Unknown, &mut self.turn);
                }
                Event::EpochChanged { epoch } => {
                    info!(?epoch, "the epoch has changed");
                    self.reign = epoch;
                    self.is_initialised = false;
                    // Whoever waited did so in the reign before, which is over in any case.
                    self.owner.end_reign(now, &mut self.turn);
                    self.shared.set_leads(epoch.is_some());
                }
                // Read back from the log, which checked them.
                Event::Copied { copies, place } => self.owner.copied(&copies, place),
                Event::Replaced => self.replace(now)?,
            }
        }
        self.events = events;
        if is_written {
            self.house.written(now.monotonic);
        }
        Ok(())
    }

    /// Goes on with a state that came from another node, as a start does.
    fn replace(&mut self, now: Now) -> Result<(), JournalError> {
        let mut recovered = recover();
        recovered.progress = self.shared.progress.clone();
        self.journal.replay(&mut recovered)?;
        info!(index = %recovered.index, "the state was replaced by a snapshot of another node");
        self.owner.replace(recovered, now, &mut self.turn);
        self.owner
            .contents
            .set_cache_bytes(self.shared.options.cache_bytes);
        self.move_house();
        match self.store_pinned() {
            Err(JournalError::Full { file }) => {
                warn!(
                    file,
                    "no room for contents that came with a snapshot; they stay in memory"
                );
                Ok(())
            }
            stored => stored,
        }
    }

    fn observe(&mut self) {
        let counters = self.journal.counters();
        let mut commit = std::mem::take(&mut self.turn.commit);
        commit.journal_bytes = counters.bytes_written - self.counted.bytes_written;
        commit.syncs = counters.syncs - self.counted.syncs;
        commit.sync_nanos = counters.sync_nanos - self.counted.sync_nanos;
        commit.segments_waited_for = counters.segments_waited_for - self.counted.segments_waited_for;
        // With syncs off a batch has none, and the disk holds nobody up.
        self.synced = Some(if commit.syncs > 0 {
            counters.last_sync_nanos
        } else {
            0
        });
        self.counted = counters;
        self.shared.options.observer.committed(&commit);
    }

    /// Takes turns until everything that was accepted is answered.
    pub(crate) fn finish(&mut self) {
        let until = self.shared.options.clock.monotonic() + LAST_OUTCOMES;
        self.work();
        loop {
            while self.is_due() {
                self.listen();
                self.work();
            }
            if self.owner.batches() == 0 {
                return;
            }
            if self.shared.options.clock.monotonic() >= until {
                error!(
                    batches = self.owner.batches(),
                    "the outcome of the last batches is not known"
                );
                self.owner.abandon_all(&Reply::Unknown, &mut self.turn);
                self.work();
                return;
            }
            std::thread::park_timeout(LOOK_EVERY);
            self.listen();
            self.work();
        }
    }
}
