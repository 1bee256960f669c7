//! What can go wrong with the log, by how it is treated.

use std::io;

use types::LogIndex;

/// Stored data that is not what was written. It is never retried and never cut away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file} is damaged at byte {offset}: {reason}. Nothing was changed, because going on without the damaged part \
     would lose acknowledged messages: check the disk, and restore the data directory from a backup, or let `holdfast \
     repair {}` say what it can keep",
    self.directory()
)]
pub struct Corruption {
    /// The damaged file, as a path where there is one.
    pub file: String,
    /// Where in the file the damage begins.
    pub offset: u64,
    /// Why the bytes there cannot be right.
    pub reason: String,
}

impl Corruption {
    /// Returns the directory of the file, as an operator types it.
    fn directory(&self) -> &str {
        match self.file.rsplit_once('/') {
            Some((directory, _)) => directory,
            None => "DIR",
        }
    }
}

/// A failure of the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process owns the data directory.
    #[error("{path} is in use by {}: stop it, or choose another data directory", holder(*pid))]
    Locked {
        /// The lock file.
        path: String,
        /// The process that holds the lock, if the lock file says so.
        pid: Option<u32>,
    },
    /// Stored data is damaged where it was known to be durable.
    #[error(transparent)]
    Corruption(#[from] Corruption),
    /// The stored data of a node of a cluster is damaged where it was known to be durable.
    #[error(
        "{} is damaged at byte {}: {}. Nothing was changed. The node must not go on without what it promised to the \
         others, and not with an older copy of it: check the disk, remove {}, and let the node join its cluster again",
        .0.file, .0.offset, .0.reason, .0.directory()
    )]
    NodeCorruption(Corruption),
    /// Intact data in a format that this version does not know.
    #[error(
        "{file} holds {what} at byte {offset}, which this version cannot read: start the version that wrote it"
    )]
    Unsupported {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// The format or kind that is not known.
        what: String,
    },
    /// The disk is full. What was being written does not count; the journal goes on when there is room again.
    #[error("no space left to write {file}")]
    Full {
        /// The file that could not be written.
        file: String,
    },
    /// A sync failed, so nobody knows what is on the disk. The process must abort; the journal refuses all that follows.
    #[error("sync of {file} failed, so what is on the disk is unknown: {source}")]
    SyncFailed {
        /// The file or directory.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The directory holds the log of a node of a cluster.
    #[error("{directory} is that of a node of a cluster: start it with the settings of its cluster")]
    IsReplicated {
        /// The data directory.
        directory: String,
    },
    /// The directory holds the log of a single node.
    #[error(
        "{directory} is that of a single node: `holdfast cluster init` makes it the first node of a cluster"
    )]
    IsLocal {
        /// The data directory.
        directory: String,
    },
    /// The directory holds the log of a node of a cluster, which is never repaired: it would forget what it promised.
    #[error(
        "{directory} is that of a node of a cluster and is not repaired: a node that forgets what it promised to the \
         others can lose acknowledged messages. Remove the directory and let the node join its cluster again"
    )]
    NotRepaired {
        /// The data directory.
        directory: String,
    },
    /// An entry does not follow the last one, or a truncation would take back what a snapshot contains. Nothing was
    /// written.
    #[error("entry {index} does not fit a log that goes from {first} to {last}")]
    Order {
        /// The index that was given.
        index: LogIndex,
        /// The first entry of the log.
        first: LogIndex,
        /// The last entry of the log.
        last: LogIndex,
    },
    /// What should be written is larger than a record can be. Nothing was written.
    #[error("a record of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// An earlier failure left the journal in an unknown state.
    #[error("the journal has stopped after an earlier failure")]
    Poisoned,
    /// A file operation failed for another reason.
    #[error("cannot {operation} {file}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A snapshot was asked for at an index that is not committed, or that an earlier snapshot has passed.
    #[error(
        "no snapshot at entry {index}: the last one is at {previous}, the last committed entry is {committed}"
    )]
    SnapshotIndex {
        /// The index that was asked for.
        index: LogIndex,
        /// The index of the last snapshot, 0 if there is none.
        previous: LogIndex,
        /// The last committed entry.
        committed: LogIndex,
    },
    /// The driver was asked to replay, and has never replaced the state.
    #[error("the journal has no other state to replay")]
    NothingToReplay,
    /// The owner could not take a stored snapshot or entry.
    #[error("stored state at entry {index} cannot be replayed: {source}")]
    Replay {
        /// The entry, or the index of the snapshot.
        index: LogIndex,
        /// What the owner said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

impl JournalError {
    /// Turns what the system said into [`JournalError::Full`] or [`JournalError::Io`].
    pub(crate) fn failed(operation: &'static str, file: String, source: io::Error) -> Self {
        if is_full(&source) {
            Self::Full { file }
        } else {
            Self::Io {
                operation,
                file,
                source,
            }
        }
    }

    /// The same for a write.
    pub(crate) fn writing(file: String, source: io::Error) -> Self {
        Self::failed("write", file, source)
    }
}

/// Whether an error says that there is no room, on the disk or in a quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull || error.kind() == io::ErrorKind::QuotaExceeded
}
