//! The durable log: opaque entries become durable and ordered, and come back after a crash as they were.
//!
//! An entry is a batch of commands to its owner and a string of bytes here: this crate knows no command, no queue
//! and no answer. It also has no thread and no timer; the owner calls it, and runs its background work where it
//! likes. Start with [`Journal`] (the contract of every driver, proved by [`conformance`]), then [`LocalJournal`]
//! (the driver of one node), [`ReplicatedLog`] (what a node of a cluster stores) and `docs/formats/` (the stored bytes).

#![forbid(unsafe_code)]

mod aside;
pub mod conformance;
mod contract;
mod directory;
mod disk;
mod error;
mod io;
mod layout;
mod local;
mod log_id;
mod options;
mod os_disk;
mod overlay;
mod preparation;
mod rebase;
mod record;
mod recovery;
mod repair;
mod replicated;
mod scan;
mod segment;
mod segment_log;
mod snapshot;
mod verify;
mod visit;

pub use aside::keep_aside;
pub use contract::{
    Counters, Epoch, Event, Journal, Kept, Place, ProposeError, Replay, ReplayError, SnapshotReceipt,
    SnapshotSink, Source, Ticket, Waker,
};
pub use disk::{Disk, File, Lock, LockError, Space};
pub use error::{Corruption, JournalError};
pub use layout::Layout;
pub use local::LocalJournal;
pub use log_id::LogId;
pub use options::{Fsync, LocalOptions};
pub use os_disk::OsDisk;
pub use overlay::Overlay;
pub use preparation::{Preparation, Prepared};
pub use record::ENTRY_BYTES_MAX;
pub use recovery::{RecoveryReport, TornTail};
pub use repair::{LogRepair, repair_log};
pub use replicated::{
    EntryKind, LogReader, MARK_BYTES_MAX, NewEntry, ReplicatedLog, ReplicatedRecovery, RestoreSnapshot,
    StoredCopies, StoredEntry, StoredSnapshot,
};
pub use segment::segment_name;
pub use segment_log::{PendingSync, Synced};
pub use snapshot::RaftSnapshot;
pub use verify::{Discarding, Verification, damage_of_kept, verify, verify_replicated};
