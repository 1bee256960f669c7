//! Access keys from the file's `[[key]]` tables.

use std::collections::BTreeMap;

use auth::{Key, Secret};

use crate::error::ConfigError;
use crate::file::{FileValue, KeyTable};
use crate::options::{Environment, ReadFile};
use crate::origin::Origin;
use crate::secret;

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
        let secret = field(table, "secret_access_key")?;
        let text = secret::read(
            "a secret_access_key",
            &secret.text,
            &secret.origin,
            environment,
            read_file,
        )?;
        keys.push(Key {
            tenant,
            access_key_id: id.text.clone(),
            secret: Secret::new(text.as_str()),
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
