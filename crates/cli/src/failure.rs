//! Why a verb ends without success: four lines for people, one object for programs, and an exit code.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

/// The ways to fail that a script may tell apart, each with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Something went wrong that has no code of its own.
    Failed,
    /// An argument makes no sense.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// What was named is not in the state that the verb needs.
    Precondition,
    /// The server does not accept the credentials.
    Auth,
    /// The server did not answer. It may be tried again.
    Unavailable,
    /// Checked data is not as it must be.
    Damage,
    /// The user ended it.
    Interrupted,
}

impl Kind {
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 4,
            Self::Precondition => 5,
            Self::Auth => 6,
            Self::Unavailable => 7,
            Self::Damage => 8,
            Self::Interrupted => 130,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Precondition => "precondition",
            Self::Auth => "auth",
            Self::Unavailable => "unavailable",
            Self::Damage => "damage",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A failure of a verb: what, why, what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) what: String,
    pub(crate) cause: String,
    pub(crate) hint: String,
    /// What the server said, if it said anything.
    pub(crate) document: Option<Value>,
}

#[derive(Serialize)]
struct Document<'a> {
    error: Fields<'a>,
}

#[derive(Serialize)]
struct Fields<'a> {
    code: Kind,
    message: &'a str,
    cause: &'a str,
    hint: &'a str,
    retryable: bool,
}

impl Failure {
    pub(crate) fn new(
        kind: Kind,
        what: impl Into<String>,
        cause: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            what: what.into(),
            cause: cause.into(),
            hint: hint.into(),
            document: None,
        }
    }

    /// Writes it to the standard error stream, and returns the exit code that tells of it.
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        if as_json {
            eprintln!("{}", self.json());
        } else {
            eprintln!("{self}");
        }
        ExitCode::from(self.kind.exit_code())
    }

    fn json(&self) -> String {
        let document = Document {
            error: Fields {
                code: self.kind,
                message: &self.what,
                cause: &self.cause,
                hint: &self.hint,
                retryable: self.kind == Kind::Unavailable,
            },
        };
        serde_json::to_string(&document).expect("plain values always encode")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what)?;
        writeln!(f, "  cause: {}", self.cause)?;
        writeln!(f, "  try:   {}", self.hint)?;
        write!(
            f,
            "  code:  {} (exit {})",
            self.kind.word(),
            self.kind.exit_code()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let failure = Failure::new(Kind::Unavailable, "no \"answer\"", "refused", "start a server");
        assert_eq!(
            failure.to_string(),
            "error: no \"answer\"\n  cause: refused\n  try:   start a server\n  code:  unavailable (exit 7)"
        );
        assert_eq!(
            failure.json(),
            r#"{"error":{"code":"unavailable","message":"no \"answer\"","cause":"refused","hint":"start a server","retryable":true}}"#
        );
    }
}
