//! Bugs that are planted on purpose: a run that does not find them proves nothing.

/// A bug of a cluster, planted around the real code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The disk says that it has synced and has not.
    SkipsSync,
    /// A node restarts with what its disk had some time ago: votes and entries are forgotten.
    ForgetsLog,
    /// A leader answers before any other node has the entry.
    AnswersBeforeQuorum,
    /// A leader answers proposals that another leader has overwritten.
    AnswersRejected,
    /// One node loses an entry now and then.
    DropsEntry,
    /// One node applies an entry twice now and then.
    AppliesTwice,
    /// One node swaps two entries now and then.
    SwapsEntries,
    /// A node goes on with its own state after it was sent another.
    IgnoresInstall,
    /// A snapshot says that it is of an earlier entry.
    SnapshotTooEarly,
    /// Followers do not keep leases.
    ForgetsLeases,
    /// Followers do not keep deduplication ids.
    ForgetsDeduplication,
    /// Followers do not delete.
    ForgetsDeletes,
    /// A leader goes on when its lease is over.
    IgnoresLease,
    /// Leases follow the time of day.
    LeasesByWallClock,
    /// Proposals whose outcome nobody knows are answered as if they were refused for good.
    RefusesUnknown,
}

impl Bug {
    pub(crate) const ALL: [Self; 15] = [
        Self::SkipsSync,
        Self::ForgetsLog,
        Self::AnswersBeforeQuorum,
        Self::AnswersRejected,
        Self::DropsEntry,
        Self::AppliesTwice,
        Self::SwapsEntries,
        Self::IgnoresInstall,
        Self::SnapshotTooEarly,
        Self::ForgetsLeases,
        Self::ForgetsDeduplication,
        Self::ForgetsDeletes,
        Self::IgnoresLease,
        Self::LeasesByWallClock,
        Self::RefusesUnknown,
    ];

    /// Returns its name on the command line.
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the bug of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}
