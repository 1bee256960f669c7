//! Secrets, which are read and never shown.

use std::fmt;
use std::path::Path;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::error::ConfigError;
use crate::options::{Environment, ReadFile};
use crate::origin::Origin;

/// What the nodes of a cluster share and nobody else knows. It cannot be printed, and its memory is cleared.
#[derive(Clone)]
pub struct ClusterSecret(Zeroizing<String>);

impl ClusterSecret {
    pub(crate) fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// Returns the secret's bytes, for the one place that derives keys from them.
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(redacted)")
    }
}

/// What operators prove themselves with on the control API. It cannot be printed, and its memory is cleared.
#[derive(Clone)]
pub struct AdminToken(Zeroizing<String>);

impl AdminToken {
    pub(crate) fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// Whether this is the token; how long that takes tells at most how long the token is.
    pub fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(redacted)")
    }
}

/// The beginning of a text that names the file of a secret.
const FILE: &str = "file:";
/// The beginning of a text that names the variable of a secret.
const VARIABLE: &str = "env:";

/// Reads a secret: as it stands, from `file:PATH`, or from `env:NAME`. No error shows it; `name` is what it says.
pub(crate) fn read(
    name: &str,
    text: &str,
    origin: &Origin,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
) -> Result<Zeroizing<String>, ConfigError> {
    let refuse = |cause: String, hint: &str| {
        ConfigError::new(format!("{name} cannot be read"), cause, hint).at(origin.clone())
    };
    let text = if let Some(path) = text.strip_prefix(FILE) {
        read_file(Path::new(path))
            .map_err(|error| refuse(format!("{path}: {error}"), "make the file readable to the server"))?
    } else if let Some(variable) = text.strip_prefix(VARIABLE) {
        environment(variable).ok_or_else(|| {
            refuse(
                format!("the environment variable {variable} is not set"),
                "set the variable",
            )
        })?
    } else {
        text.to_owned()
    };
    let mut secret = Zeroizing::new(text);
    // Editors and `echo` end a file with a line break that is not part of the secret.
    let length = secret.trim_end_matches(['\r', '\n']).len();
    secret.truncate(length);
    if secret.is_empty() {
        return Err(refuse("it is empty".to_owned(), "give it a value"));
    }
    Ok(secret)
}

/// Reads a secret of a client's environment or command line: as it stands, from `file:PATH`, or from `env:NAME`.
pub fn read_secret(
    name: &str,
    text: &str,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
) -> Result<Zeroizing<String>, ConfigError> {
    read(name, text, &Origin::Default, environment, read_file)
}

/// Returns what may be shown of an option's text: where a secret is, and never what it is.
pub(crate) fn masked(text: &str) -> &str {
    if text.is_empty() || text.starts_with(FILE) || text.starts_with(VARIABLE) {
        text
    } else {
        "(secret)"
    }
}
