//! The configuration file: TOML in, texts with their lines out. Unknown keys are refused with the nearest known one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::declared::{Declared, Kind};
use crate::error::{ConfigError, did_you_mean};
use crate::origin::Origin;
use crate::table::OPTIONS;

/// The section that is not of options: one table for each access key.
const KEY_TABLES: &str = "key";
/// The fields of such a table.
pub(crate) const KEY_FIELDS: [&str; 3] = ["account", "access_key_id", "secret_access_key"];

/// What a file says, secrets among it: nothing of it has a `Debug` that would print them.
#[derive(Default)]
pub(crate) struct File {
    /// Options by name.
    pub(crate) options: BTreeMap<&'static str, FileValue>,
    /// The tables of access keys.
    pub(crate) keys: Vec<KeyTable>,
}

/// A text with its place.
pub(crate) struct FileValue {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// The fields of one access key.
pub(crate) struct KeyTable {
    pub(crate) fields: BTreeMap<&'static str, FileValue>,
    pub(crate) origin: Origin,
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File {
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let reader = Reader { path, text };
        let document = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            // Only the parser's words: a picture of the line could show a secret.
            let words = error.message().replace('\n', ", ");
            ConfigError::new(
                "the configuration file is not valid TOML",
                words,
                "correct the line",
            )
            .at(reader.origin(start))
        })?;
        let mut file = Self::default();
        for (section, value) in document.get_ref() {
            if section.get_ref() == KEY_TABLES {
                file.keys = reader.key_tables(value)?;
            } else {
                reader.section(section, value, &mut file)?;
            }
        }
        Ok(file)
    }
}

impl Reader<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        Origin::File {
            path: self.path.to_owned(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        }
    }

    fn section(
        &self,
        section: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        file: &mut File,
    ) -> Result<(), ConfigError> {
        let name = section.get_ref().as_ref();
        let sections = || {
            OPTIONS
                .iter()
                .filter_map(|option| option.name.split_once('.'))
                .map(|(section, _)| section)
        };
        let DeValue::Table(table) = value.get_ref() else {
            let error = ConfigError::new(
                format!("unknown key \"{name}\""),
                "options of the file stand in sections",
                hint_for_top_key(name),
            );
            return Err(error.at(self.origin(section.span().start)));
        };
        if !sections().any(|known| known == name) {
            let hint = did_you_mean(name, sections().chain([KEY_TABLES]));
            let error = ConfigError::new(
                format!("unknown section \"{name}\""),
                "the file has only sections and keys of the reference",
                hint.unwrap_or_else(|| "remove it".to_owned()),
            );
            return Err(error.at(self.origin(section.span().start)));
        }
        for (key, value) in table {
            let option = self.known_option(name, key)?;
            let text = self.text_of(option, value)?;
            let origin = self.origin(key.span().start);
            file.options.insert(option.name, FileValue { text, origin });
        }
        Ok(())
    }

    fn known_option(
        &self,
        section: &str,
        key: &Spanned<impl AsRef<str>>,
    ) -> Result<&'static Declared, ConfigError> {
        let key_name = key.get_ref().as_ref();
        let keys = || {
            OPTIONS
                .iter()
                .filter(|option| option.in_file)
                .filter_map(|option| {
                    let (option_section, option_key) = option.name.split_once('.')?;
                    Some((*option, option_section, option_key))
                })
        };
        keys()
            .find(|(_, option_section, option_key)| *option_section == section && *option_key == key_name)
            .map(|(option, ..)| option)
            .ok_or_else(|| {
                let elsewhere = keys().find(|(_, _, option_key)| *option_key == key_name);
                let hint = match elsewhere {
                    Some((_, right_section, _)) => {
                        Some(format!("\"{key_name}\" belongs under [{right_section}]"))
                    }
                    None => did_you_mean(
                        key_name,
                        keys()
                            .filter(|(_, of, _)| *of == section)
                            .map(|(_, _, option_key)| option_key),
                    ),
                };
                ConfigError::new(
                    format!("unknown key \"{section}.{key_name}\""),
                    "the file has only sections and keys of the reference",
                    hint.unwrap_or_else(|| "remove it".to_owned()),
                )
                .at(self.origin(key.span().start))
            })
    }

    fn text_of(&self, option: &Declared, value: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        match (&option.kind, value.get_ref()) {
            (Kind::Number { .. } | Kind::Bytes(_), DeValue::Integer(number)) if number.radix() == 10 => {
                Ok(number.as_str().to_owned())
            }
            (
                Kind::Text(_)
                | Kind::Choice(_)
                | Kind::Bytes(_)
                | Kind::Duration(_)
                | Kind::NodeAddress
                | Kind::Secret,
                DeValue::String(text),
            ) => Ok(text.to_string()),
            (Kind::Boolean, DeValue::Boolean(value)) => Ok(value.to_string()),
            (Kind::NodeAddresses, DeValue::Array(list)) if list.iter().all(is_text) => {
                let texts: Vec<&str> = list.iter().filter_map(|item| item.get_ref().as_str()).collect();
                Ok(texts.join(","))
            }
            (_, other) => Err(ConfigError::new(
                format!("{} is of the wrong type", option.name),
                format!("it is {}, and must be {}", type_of(other), option.kind),
                match option.default {
                    Some(default) => format!("give it a value such as the default, {default}"),
                    None => "see the reference of options".to_owned(),
                },
            )
            .at(self.origin(value.span().start))),
        }
    }

    fn key_tables(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<KeyTable>, ConfigError> {
        let wrong = |at: usize| {
            ConfigError::new(
                "access keys are not written as tables",
                "each key is a table of its own",
                "write [[key]], and below it account, access_key_id and secret_access_key",
            )
            .at(self.origin(at))
        };
        let DeValue::Array(tables) = value.get_ref() else {
            return Err(wrong(value.span().start));
        };
        let mut keys = Vec::new();
        for table in tables {
            let DeValue::Table(fields) = table.get_ref() else {
                return Err(wrong(table.span().start));
            };
            keys.push(self.key_table(fields, self.origin(table.span().start))?);
        }
        Ok(keys)
    }

    fn key_table(&self, table: &DeTable<'_>, origin: Origin) -> Result<KeyTable, ConfigError> {
        let mut fields = BTreeMap::new();
        for (name, value) in table {
            let at = self.origin(name.span().start);
            let field = KEY_FIELDS
                .into_iter()
                .find(|field| field == name.get_ref())
                .ok_or_else(|| {
                    let hint = did_you_mean(name.get_ref(), KEY_FIELDS);
                    let known = format!("a [[key]] has {}", KEY_FIELDS.join(", "));
                    ConfigError::new(
                        format!("unknown key \"key.{}\"", name.get_ref()),
                        known,
                        hint.unwrap_or("remove it".to_owned()),
                    )
                    .at(at.clone())
                })?;
            let DeValue::String(text) = value.get_ref() else {
                let cause = format!("it is {}, and must be a text in quotes", type_of(value.get_ref()));
                return Err(ConfigError::new(
                    format!("key.{field} is of the wrong type"),
                    cause,
                    "put it in quotes",
                )
                .at(at));
            };
            fields.insert(
                field,
                FileValue {
                    text: text.to_string(),
                    origin: at,
                },
            );
        }
        Ok(KeyTable { fields, origin })
    }
}

/// A key at the top is most often one whose section was forgotten, or one that is only a flag.
fn hint_for_top_key(key: &str) -> String {
    for option in OPTIONS {
        match option.name.split_once('.') {
            Some((section, option_key)) if option_key == key => {
                return format!("\"{key}\" belongs under [{section}]");
            }
            None if option.name == key => return format!("give the flag --{key} instead"),
            Some(_) | None => {}
        }
    }
    "see the reference of options".to_owned()
}

fn is_text(value: &Spanned<DeValue<'_>>) -> bool {
    value.get_ref().is_str()
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The files that are looked for when none is named.
pub(crate) fn usual_places() -> [PathBuf; 2] {
    [
        PathBuf::from("./holdfast.toml"),
        PathBuf::from("/etc/holdfast/holdfast.toml"),
    ]
}
