//! Why the server does not start with these options.

use std::fmt;

use crate::origin::Origin;

/// Why the options were refused, in four lines: what is wrong, why, where it was set, what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// What is wrong.
    pub what: String,
    /// Why that is wrong.
    pub cause: String,
    /// Where it was set, if at one place.
    pub origins: Vec<Origin>,
    /// What to try.
    pub hint: String,
}

impl ConfigError {
    /// The exit code of a program that stops for this.
    pub const EXIT_CODE: u8 = 2;

    pub(crate) fn new(what: impl Into<String>, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: cause.into(),
            origins: Vec::new(),
            hint: hint.into(),
        }
    }

    pub(crate) fn at(mut self, origin: Origin) -> Self {
        self.origins.push(origin);
        self
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what)?;
        writeln!(f, "  cause: {}", self.cause)?;
        f.write_str("  where: ")?;
        for (i, origin) in self.origins.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{origin}")?;
        }
        write!(f, "\n  try:   {}", self.hint)
    }
}

/// Returns a hint that names the known word nearest to an unknown one, if one is near.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| format!("did you mean \"{candidate}\"?"))
}
