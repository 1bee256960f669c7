//! The data directory of a server that does not run, and why one cannot be used.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgMatches, value_parser};
use journal::{Disk, JournalError, LocalJournal, Lock, OsDisk};
use serde_json::json;

/// Declares the directory.
pub(crate) fn directory_argument() -> Arg {
    Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The data directory")
}

/// A data directory that is locked for this process.
pub(crate) struct Stopped {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) lock: Box<dyn Lock>,
    pub(crate) root: PathBuf,
}

impl Stopped {
    /// Takes the directory that the command line names. One that is not there is not made.
    pub(crate) fn open(matches: &ArgMatches) -> Result<Self, Failure> {
        let root = matches.get_one::<PathBuf>("directory");
        let root = root.expect("clap requires it").clone();
        let path = root.display().to_string();
        if !root.is_dir() {
            return Err(Failure {
                code: Failure::NOT_FOUND,
                what: format!("there is no directory {path}"),
                cause: "the data directory of a server was expected".to_owned(),
                place: path,
                hint: "name the directory that `holdfast serve --data-dir` was given".to_owned(),
            });
        }
        let disk = OsDisk::open(&root).map_err(|error| Failure {
            code: Failure::FAILED,
            what: format!("cannot open {path}"),
            cause: error.to_string(),
            place: path.clone(),
            hint: "run as the user that the server runs as".to_owned(),
        })?;
        let lock = LocalJournal::lock(&disk).map_err(|error| Failure::of_journal(&path, error))?;
        Ok(Self {
            disk: Arc::new(disk),
            lock,
            root,
        })
    }

    /// Returns the directory as it was named.
    pub(crate) fn path(&self) -> String {
        self.root.display().to_string()
    }

    /// Whether there is something of this name in it.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }
}

/// Returns a number of things in words.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}

/// Why a verb did not do what it was asked, in four lines: what is wrong, why, where, what to try.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) what: String,
    pub(crate) cause: String,
    pub(crate) place: String,
    pub(crate) hint: String,
}

impl Failure {
    /// An argument makes no sense.
    pub(crate) const USAGE: u8 = 2;
    /// Something else failed.
    pub(crate) const FAILED: u8 = 1;
    /// The directory is not there.
    pub(crate) const NOT_FOUND: u8 = 4;
    /// A server runs, or a confirmation is missing.
    pub(crate) const CONFLICT: u8 = 5;
    /// What is stored is damaged.
    pub(crate) const DAMAGED: u8 = 8;

    /// Says what a failure of the journal means to an operator.
    pub(crate) fn of_journal(directory: &str, error: JournalError) -> Self {
        let (code, what, hint) = match &error {
            JournalError::Locked { .. } => (Self::CONFLICT, "is in use", "stop the server first"),
            JournalError::Unsupported { .. } => (
                Self::FAILED,
                "cannot be read",
                "use the version of holdfast that wrote it",
            ),
            JournalError::IsReplicated { .. } | JournalError::NotRepaired { .. } => (
                Self::CONFLICT,
                "is that of a node of a cluster",
                "start it with the settings of its cluster, or remove it and let the node join again",
            ),
            JournalError::IsLocal { .. } => (
                Self::CONFLICT,
                "is that of a single node",
                "make it the first node of a cluster with `holdfast cluster init`",
            ),
            JournalError::Full { .. } => (
                Self::FAILED,
                "has no room",
                "make room on its file system and run this again; what is there is as safe as before",
            ),
            JournalError::NodeCorruption(_) => (
                Self::DAMAGED,
                "is damaged",
                "remove it and let the node join its cluster again",
            ),
            JournalError::Corruption(_)
            | JournalError::SyncFailed { .. }
            | JournalError::Poisoned
            | JournalError::Io { .. }
            | JournalError::SnapshotIndex { .. }
            | JournalError::Order { .. }
            | JournalError::TooLarge { .. }
            | JournalError::NothingToReplay
            | JournalError::Replay { .. } => (
                Self::FAILED,
                "cannot be read or written",
                "check the disk; then run this again, on a copy of the directory if the disk fails",
            ),
        };
        Self {
            code,
            what: format!("{directory} {what}"),
            cause: error.to_string(),
            place: directory.to_owned(),
            hint: hint.to_owned(),
        }
    }

    /// Writes the failure to the error output and returns the exit code.
    pub(crate) fn report(&self, is_json: bool) -> ExitCode {
        if is_json {
            let error = json!({
                "code": self.code,
                "message": self.what,
                "cause": self.cause,
                "place": self.place,
                "hint": self.hint,
            });
            eprintln!("{}", json!({ "error": error }));
        } else {
            eprintln!("{self}");
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what)?;
        writeln!(f, "  cause: {}", self.cause)?;
        writeln!(f, "  where: {}", self.place)?;
        write!(f, "  try:   {}", self.hint)
    }
}
