//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;

use crate::declared::Declared;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the configuration file; 0 is the file as a whole.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(&'static str),
    /// A flag, without its dashes.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// An option's value with its origin.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The option.
    pub option: &'static Declared,
    /// Its value as text; empty for a text that is not set.
    pub text: String,
    /// Where the value comes from.
    pub origin: Origin,
}
