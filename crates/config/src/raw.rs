//! Raw options: of each the text that won, with its origin. The typed readers turn texts into values.

use std::time::Duration;

use crate::declared::{Declared, Kind, parse_bytes, parse_number};
use crate::duration::parse_duration;
use crate::error::{ConfigError, did_you_mean};
use crate::file::File;
use crate::flags::Flags;
use crate::options::Environment;
use crate::origin::{Origin, Setting};
use crate::table::{DEV, OPTIONS};

/// The texts of all options. Secrets are among them, so it has no `Debug`.
pub(crate) struct Raw {
    settings: Vec<Setting>,
}

impl Raw {
    /// Chooses for each option: flag before environment before file before default.
    pub(crate) fn merge(
        flags: &Flags,
        environment: Environment<'_>,
        file: &File,
    ) -> Result<Self, ConfigError> {
        let is_dev = flags.of(&DEV).is_some();
        let mut settings = Vec::with_capacity(OPTIONS.len());
        for option in OPTIONS {
            // Asked even when a flag wins: two names that disagree are a mistake waiting for the flag to go away.
            let from_environment = from_environment(option, environment)?;
            let from_flag = from_flag(option, flags);
            let from_file = file.options.get(option.name).map(|value| Setting {
                option,
                text: value.text.clone(),
                origin: value.origin.clone(),
            });
            let default = || Setting {
                option,
                text: option
                    .default_dev
                    .filter(|_| is_dev)
                    .or(option.default)
                    .unwrap_or_default()
                    .to_owned(),
                origin: Origin::Default,
            };
            settings.push(
                from_flag
                    .or(from_environment)
                    .or(from_file)
                    .unwrap_or_else(default),
            );
        }
        Ok(Self { settings })
    }

    /// Returns what may be shown: the texts without secrets.
    pub(crate) fn into_settings(self) -> Vec<Setting> {
        let mut settings = self.settings;
        for setting in &mut settings {
            setting.text = setting.option.shown(&setting.text).to_owned();
        }
        settings
    }

    fn setting(&self, option: &Declared) -> &Setting {
        let setting = self.settings.iter().find(|setting| setting.option == option);
        setting.expect("merge makes a setting of every option")
    }

    pub(crate) fn origin(&self, option: &Declared) -> Origin {
        self.setting(option).origin.clone()
    }

    pub(crate) fn is_set(&self, option: &Declared) -> bool {
        self.setting(option).text == "true"
    }

    /// Returns the text of an option, or nothing if it has none.
    pub(crate) fn text(&self, option: &Declared) -> Option<&str> {
        Some(self.setting(option).text.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns the text of an option that somebody set, even if to nothing.
    pub(crate) fn given(&self, option: &Declared) -> Option<&str> {
        let setting = self.setting(option);
        (setting.origin != Origin::Default).then_some(setting.text.as_str())
    }

    /// Returns the options of a section that somebody set to something else than their default.
    pub(crate) fn asked_for(&self, section: &str) -> impl Iterator<Item = &'static Declared> {
        let is_asked_for = move |setting: &&Setting| {
            setting.option.name.split('.').next() == Some(section)
                && setting.origin != Origin::Default
                && setting.text != setting.option.default.unwrap_or_default()
        };
        self.settings
            .iter()
            .filter(is_asked_for)
            .map(|setting| setting.option)
    }

    /// Returns the variable of another program that set the option, if one did.
    pub(crate) fn alias(&self, option: &Declared) -> Option<&'static str> {
        match self.setting(option).origin {
            Origin::Environment(variable) if option.variable != Some(variable) => Some(variable),
            Origin::Default | Origin::File { .. } | Origin::Environment(_) | Origin::Flag(_) => None,
        }
    }

    /// Does [`Raw::parse`] with an option that somebody set.
    pub(crate) fn parse_given<T>(
        &self,
        option: &Declared,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        self.given(option).map(|_| self.parse(option, parse)).transpose()
    }

    pub(crate) fn boolean(&self, option: &Declared) -> Result<bool, ConfigError> {
        self.parse(option, |text| text.parse().ok())
    }

    pub(crate) fn duration(&self, option: &Declared) -> Result<Duration, ConfigError> {
        self.parse(option, |text| {
            let Kind::Duration(range) = &option.kind else {
                return None;
            };
            parse_duration(text).filter(|time| range.contains(time))
        })
    }

    /// Returns what a function makes of the option's text; one that it cannot read is refused.
    pub(crate) fn parse<T>(
        &self,
        option: &Declared,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        parse(&self.setting(option).text).ok_or_else(|| self.refuse(option))
    }

    pub(crate) fn number<T: TryFrom<u64>>(&self, option: &Declared) -> Result<T, ConfigError> {
        self.parse(option, |text| {
            let (number, range) = match &option.kind {
                Kind::Number { range, .. } => (parse_number(text)?, range),
                Kind::Bytes(range) => (parse_bytes(text)?, range),
                Kind::Switch
                | Kind::Text(_)
                | Kind::Choice(_)
                | Kind::Boolean
                | Kind::Duration(_)
                | Kind::NodeAddress
                | Kind::NodeAddresses
                | Kind::Secret => return None,
            };
            range
                .contains(&number)
                .then(|| T::try_from(number).ok())
                .flatten()
        })
    }

    /// Returns the value that belongs to the word that was chosen; `values` are in the order of the table's words.
    pub(crate) fn choice<T, const N: usize>(
        &self,
        option: &Declared,
        values: [T; N],
    ) -> Result<T, ConfigError> {
        let Kind::Choice(words) = option.kind else {
            return Err(self.refuse(option));
        };
        self.parse(option, |text| {
            let chosen = words.iter().position(|word| *word == text)?;
            values.into_iter().nth(chosen)
        })
    }

    /// Returns the refusal of an option's text.
    pub(crate) fn refuse(&self, option: &Declared) -> ConfigError {
        let setting = self.setting(option);
        let near = match option.kind {
            Kind::Choice(words) => did_you_mean(&setting.text, words.iter().copied()),
            Kind::Boolean => did_you_mean(&setting.text, ["true", "false"]),
            Kind::Switch
            | Kind::Text(_)
            | Kind::Number { .. }
            | Kind::Bytes(_)
            | Kind::Duration(_)
            | Kind::NodeAddress
            | Kind::NodeAddresses
            | Kind::Secret => None,
        };
        let hint = near.unwrap_or_else(|| match option.default {
            Some(default) => format!("leave it out for the default, {default}"),
            None => "leave it out".to_owned(),
        });
        let shown = option.shown(&setting.text).escape_debug();
        let what = format!("{} cannot be \"{shown}\"", option.name);
        ConfigError::new(what, format!("it must be {}", option.kind), hint).at(setting.origin.clone())
    }
}

fn from_flag(option: &'static Declared, flags: &Flags) -> Option<Setting> {
    Some(Setting {
        option,
        text: flags.of(option)?.to_owned(),
        origin: Origin::Flag(option.flag?),
    })
}

/// Returns what the environment says; an empty variable is one that is not set.
fn from_environment(
    option: &'static Declared,
    environment: Environment<'_>,
) -> Result<Option<Setting>, ConfigError> {
    let value_of = |variable: &str| {
        environment(variable)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let ours = option
        .variable
        .and_then(|variable| Some((variable, value_of(variable)?)));
    let others = option.aliases.iter().filter_map(|alias| {
        let text = value_of(alias.variable)?;
        let ours = alias
            .words
            .iter()
            .find(|(theirs, _)| *theirs == text)
            .map(|(_, ours)| (*ours).to_owned());
        Some((alias.variable, ours.unwrap_or(text)))
    });
    let mut given = ours.into_iter().chain(others);
    let Some((variable, text)) = given.next() else {
        return Ok(None);
    };
    if let Some((other, other_text)) = given.find(|(_, other_text)| !option.kind.is_same(&text, other_text)) {
        return Err(ConfigError::new(
            format!(
                "{} is set twice: to \"{}\" and to \"{}\"",
                option.name,
                option.shown(&text),
                option.shown(&other_text)
            ),
            "two variables of the same meaning disagree, and either could be the one that is meant",
            format!("unset {other}"),
        )
        .at(Origin::Environment(variable))
        .at(Origin::Environment(other)));
    }
    Ok(Some(Setting {
        option,
        text,
        origin: Origin::Environment(variable),
    }))
}
