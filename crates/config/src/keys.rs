//! Access keys from the file's `[[key]]` tables.

use std::collections::BTreeMap;
use std::path::Path;

use auth::{Key, Secret};

use crate::error::ConfigError;
use crate::file::{FileValue, KeyTable};
use crate::options::{Environment, ReadFile};
use crate::origin::Origin;

/// Longest access key id, as AWS has it.
const ACCESS_KEY_ID_BYTES_MAX: usize = 128;

pub(crate) fn check(
    tables: &[KeyTable],
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
) -> Result<Vec<Key>, ConfigError> {
    let mut taken: BTreeMap<&str, &Origin> = BTreeMap::new();
    let mut keys = Vec::with_capacity(tables.len());
    for table in tables {
        let account = field(table, "account")?;
        let tenant = account.text.parse().map_err(|_| {
            let what = format!("\"{}\" is not an account", account.text.escape_debug());
            ConfigError::new(what, "an account has twelve digits", "account = \"000000000000\"")
                .at(account.origin.clone())
        })?;
        let id = access_key_id(table)?;
        if let Some(other) = taken.insert(&id.text, &id.origin) {
            return Err(ConfigError::new(
                format!("the access key id \"{}\" is there twice", id.text),
                "a request names its key by the id alone",
                "remove one of the two, or give it another id",
            )
            .at(other.clone())
            .at(id.origin.clone()));
        }
        keys.push(Key {
            tenant,
            access_key_id: id.text.clone(),
            secret: secret(field(table, "secret_access_key")?, environment, read_file)?,
        });
    }
    Ok(keys)
}

fn field<'a>(table: &'a KeyTable, name: &str) -> Result<&'a FileValue, ConfigError> {
    table.fields.get(name).ok_or_else(|| {
        ConfigError::new(
            format!("a [[key]] has no {name}"),
            "a key needs account, access_key_id and secret_access_key",
            format!("add {name} = \"…\""),
        )
        .at(table.origin.clone())
    })
}

fn access_key_id(table: &KeyTable) -> Result<&FileValue, ConfigError> {
    let id = field(table, "access_key_id")?;
    // The id stands in a list of fields with slashes, commas and equal signs between them.
    let is_valid = (1..=ACCESS_KEY_ID_BYTES_MAX).contains(&id.text.len())
        && id
            .text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    if is_valid {
        return Ok(id);
    }
    Err(ConfigError::new(
        format!("\"{}\" is not an access key id", id.text.escape_debug()),
        "it has 1 to 128 letters, digits, underscores, hyphens and dots",
        "access_key_id = \"AKIDEXAMPLE\"",
    )
    .at(id.origin.clone()))
}

/// Reads a secret: as it stands, from `file:PATH`, or from `env:NAME`. No error shows it.
fn secret(
    value: &FileValue,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
) -> Result<Secret, ConfigError> {
    let refuse = |cause: String, hint: &str| {
        ConfigError::new("a secret_access_key cannot be read", cause, hint).at(value.origin.clone())
    };
    let text = if let Some(path) = value.text.strip_prefix("file:") {
        read_file(Path::new(path))
            .map_err(|error| refuse(format!("{path}: {error}"), "make the file readable to the server"))?
    } else if let Some(name) = value.text.strip_prefix("env:") {
        environment(name).ok_or_else(|| {
            refuse(
                format!("the environment variable {name} is not set"),
                "set the variable",
            )
        })?
    } else {
        value.text.clone()
    };
    // Editors and `echo` end a file with a line break that is not part of the secret.
    let secret = Secret::new(text.trim_end_matches(['\r', '\n']));
    if secret.is_empty() {
        return Err(refuse("it is empty".to_owned(), "give the key a secret"));
    }
    Ok(secret)
}
