//! What the checker says.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a history must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rule {
    /// What was accepted is there until somebody deletes it.
    L1,
    /// A message is with nobody else while its lease is certain.
    V1,
    /// What was deleted under a certain lease stays gone.
    D1,
    /// The receive count grows with each receive.
    C1,
    /// What is received was sent, to this queue, in these words, and under this id.
    P0,
    /// A purge removes what was there before.
    P1,
    /// A repeated send within the window gives the first message, after it a new one.
    Q1,
    /// One send makes one message.
    S1,
    /// A message of a group comes after those before it are done with.
    O1,
    /// Sequence numbers are unique and follow real time.
    O2,
    /// An overtaken handle deletes nothing while a newer lease is certain.
    F1,
    /// A message is in one queue, and in the dead-letter queue only after enough receives.
    X1,
    /// Each receive has a handle of its own.
    H1,
}

/// One promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which promise.
    pub rule: Rule,
    /// The queue by its name.
    pub queue: String,
    /// The id of the message, or the body if it has none.
    pub message: String,
    /// The operations that prove it, by their place in the history.
    pub operations: Vec<usize>,
    /// What is wrong, for people.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            queue,
            message,
            operations,
            text,
        } = self;
        write!(
            f,
            "{rule:?} {queue} {message}: {text} (operations {operations:?})"
        )
    }
}

/// A counter that is below what the run requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which counter.
    pub name: String,
    /// What it had to be.
    pub required: u64,
    /// What it is.
    pub counted: u64,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Every rule was kept, and everything that was required has happened.
    Pass,
    /// A rule was broken.
    Fail(Vec<Violation>),
    /// No rule was broken, but too little happened to say so with a meaning.
    Unknown(Vec<Missing>),
}

/// The result of a check with its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The result.
    pub verdict: Verdict,
    /// How often each thing happened, those of [`coverage`](crate::coverage) and faults by their names.
    pub coverage: BTreeMap<String, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.coverage {
            writeln!(f, "  {name}: {count}")?;
        }
        match &self.verdict {
            Verdict::Pass => writeln!(f, "pass"),
            Verdict::Fail(violations) => {
                writeln!(f, "fail: {} violations", violations.len())?;
                violations
                    .iter()
                    .take(50)
                    .try_for_each(|violation| writeln!(f, "  {violation}"))
            }
            Verdict::Unknown(missing) => {
                writeln!(f, "unknown: too little happened")?;
                missing.iter().try_for_each(|missing| {
                    let Missing {
                        name,
                        required,
                        counted,
                    } = missing;
                    writeln!(f, "  {name}: {counted} of {required}")
                })
            }
        }
    }
}
