//! The flags of `serve`, made from the table.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches};

use crate::declared::{Declared, Kind};
use crate::table::OPTIONS;

/// What was given on the command line, as text.
#[derive(Debug, Clone, Default)]
pub struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    /// Takes the flags that clap found with [`arguments`].
    pub fn from_matches(matches: &ArgMatches) -> Self {
        let mut flags = Self::default();
        for option in OPTIONS {
            let Some(flag) = option.flag else { continue };
            match option.kind {
                Kind::Switch if matches.get_flag(flag) => flags.set(flag, "true"),
                Kind::Switch => {}
                Kind::Text(_)
                | Kind::Number { .. }
                | Kind::Bytes(_)
                | Kind::Choice(_)
                | Kind::Boolean
                | Kind::Duration(_)
                | Kind::NodeAddress
                | Kind::NodeAddresses
                | Kind::Secret => {
                    if let Some(text) = matches.get_one::<String>(flag) {
                        flags.set(flag, text);
                    }
                }
            }
        }
        flags
    }

    /// Sets a flag, named without its dashes; a switch is `true`.
    ///
    /// # Panics
    ///
    /// If the table has no such flag.
    pub fn set(&mut self, flag: &str, text: &str) {
        let declared = OPTIONS
            .iter()
            .find_map(|option| option.flag.filter(|declared| *declared == flag));
        self.0
            .insert(declared.expect("a flag of the table"), text.to_owned());
    }

    pub(crate) fn of(&self, option: &Declared) -> Option<&str> {
        self.0.get(option.flag?).map(String::as_str)
    }
}

/// Returns clap's arguments for every option that has a flag. Values are checked with all others, not by clap.
pub fn arguments() -> Vec<Arg> {
    OPTIONS.iter().filter_map(|option| argument(option)).collect()
}

fn argument(option: &'static Declared) -> Option<Arg> {
    let flag = option.flag?;
    let mut notes = Vec::new();
    if let Kind::Choice(words) = option.kind {
        notes.push(words.join("|"));
    }
    if let Some(default) = option.default {
        notes.push(format!("default: {default}"));
    }
    if let Some(default_dev) = option.default_dev {
        notes.push(format!("with --dev: {default_dev}"));
    }
    if let Some(variable) = option.variable {
        notes.push(format!("env: {variable}"));
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!(" [{}]", notes.join("; "))
    };
    let argument = Arg::new(flag)
        .long(flag)
        .help(format!("{}{notes}", option.summary()))
        .long_help(format!("{}{notes}", option.doc));
    Some(match option.kind {
        Kind::Switch => argument.action(ArgAction::SetTrue),
        Kind::Boolean => argument
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Kind::Text(_) | Kind::Secret => argument.value_name("TEXT"),
        Kind::Duration(_) => argument.value_name("TIME"),
        Kind::NodeAddress => argument.value_name("HOST:PORT"),
        Kind::NodeAddresses => argument.value_name("HOST:PORT,…"),
        Kind::Number { .. } | Kind::Bytes(_) => argument.value_name("N"),
        Kind::Choice(_) => argument.value_name("WORD"),
    })
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::table::{DEV, LIMITS, PORT, cluster};

    #[test]
    fn clap_takes_the_flags_of_the_table() {
        let command = Command::new("serve").args(arguments());
        command.clone().debug_assert();
        let matches = command
            .try_get_matches_from(["serve", "--dev", "--port", "x"])
            .unwrap();
        let flags = Flags::from_matches(&matches);
        assert_eq!(flags.of(&DEV), Some("true"));
        assert_eq!(flags.of(&PORT), Some("x"));
        assert_eq!(flags.of(&LIMITS), None);
        let preferred = |given: &[&str]| {
            let command = Command::new("serve").args(arguments());
            let matches = command.try_get_matches_from(given).unwrap();
            Flags::from_matches(&matches)
                .of(&cluster::PREFERRED_LEADER)
                .map(str::to_owned)
        };
        assert_eq!(preferred(&["serve"]), None);
        assert_eq!(
            preferred(&["serve", "--cluster-preferred-leader"]).as_deref(),
            Some("true")
        );
        assert_eq!(
            preferred(&["serve", "--cluster-preferred-leader=false", "--dev"]).as_deref(),
            Some("false")
        );
    }
}
