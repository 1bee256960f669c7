//! A process with given flags, variables and files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use config::{ConfigError, Flags, Options};

#[derive(Debug, Default)]
pub(crate) struct Process {
    flags: Flags,
    variables: BTreeMap<String, String>,
    files: BTreeMap<String, Result<String, io::ErrorKind>>,
}

impl Process {
    pub(crate) fn flag(mut self, flag: &str, text: &str) -> Self {
        self.flags.set(flag, text);
        self
    }

    pub(crate) fn dev(self) -> Self {
        self.flag("dev", "true")
    }

    pub(crate) fn variable(mut self, variable: &str, text: &str) -> Self {
        self.variables.insert(variable.to_owned(), text.to_owned());
        self
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), Ok(text.to_owned()));
        self
    }

    pub(crate) fn broken_file(mut self, path: &str, error: io::ErrorKind) -> Self {
        self.files.insert(path.to_owned(), Err(error));
        self
    }

    /// The configuration file, named by a flag.
    pub(crate) fn config(self, text: &str) -> Self {
        self.flag("config", "h.toml").file("h.toml", text)
    }

    pub(crate) fn load(&self) -> Result<Options, ConfigError> {
        let read_file = |path: &Path| match self.files.get(path.to_str().unwrap()) {
            Some(Ok(text)) => Ok(text.clone()),
            Some(Err(kind)) => Err((*kind).into()),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        config::load(&self.flags, &|name| self.variables.get(name).cloned(), &read_file)
    }
}

/// A key that lets a server without `--dev` be reached.
pub(crate) const KEY: &str = "\
[[key]]
account = \"123456789012\"
access_key_id = \"AKIDEXAMPLE\"
secret_access_key = \"hunter2\"
";

/// The whole text of the refusal.
#[track_caller]
pub(crate) fn refusal(process: &Process) -> String {
    process.load().expect_err("these options are refused").to_string()
}
