//! Seeds with a name: what each found when it was played first, and which finds which planted bug.

/// Seeds that found something, and what.
pub(crate) const FOUND: [(u64, &str); 9] = [
    (
        2,
        "a snapshot of an entry that this node had not written yet ended its process",
    ),
    (
        12,
        "a leader that took its own vote away served on while its successor did",
    ),
    (19, "a change of voters that was left half done stayed so"),
    (92, "the same, by a node that took the place of a damaged one"),
    (
        133,
        "a node that had a state already refused it for ever and was never caught up",
    ),
    (
        142,
        "a state was installed beside entries that still waited to be written before it",
    ),
    (166, "a snapshot that could not begin ended the process"),
    (10_320, "a node got a vote before it had anything"),
    (10_880, "an idle log on a full disk ended the process"),
];

/// The planted bugs, each with the first seed that finds it.
pub(crate) const BUGS: [(&str, u64); 15] = [
    ("SkipsSync", 1),
    ("ForgetsLog", 1),
    ("AnswersBeforeQuorum", 1),
    ("AnswersRejected", 1),
    ("DropsEntry", 1),
    ("AppliesTwice", 1),
    ("SwapsEntries", 1),
    ("IgnoresInstall", 3),
    ("SnapshotTooEarly", 3),
    ("ForgetsLeases", 1),
    ("ForgetsDeduplication", 1),
    ("ForgetsDeletes", 1),
    ("IgnoresLease", 1),
    ("LeasesByWallClock", 10),
    ("RefusesUnknown", 1),
];
