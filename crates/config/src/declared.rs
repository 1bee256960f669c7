//! What the table says of an option.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration::{duration_text, parse_duration};
use crate::node_address::NodeAddress;
use crate::secret;

/// An option as it is declared, once.
#[derive(Debug)]
pub struct Declared {
    /// The option's name, which is also its place in the file: `section.key`.
    pub name: &'static str,
    /// Whether the file may set it; a few options say which file to read or how to start.
    pub in_file: bool,
    /// What values it takes.
    pub kind: Kind,
    /// Its value when nobody sets it, in the form that the file or the environment would give it; `None` for none.
    pub default: Option<&'static str>,
    /// The default under `--dev`, if it differs.
    pub default_dev: Option<&'static str>,
    /// The environment variable that sets it.
    pub variable: Option<&'static str>,
    /// Older names of that variable.
    pub aliases: &'static [Alias],
    /// The flag that sets it, without its dashes.
    pub flag: Option<&'static str>,
    /// One paragraph of documentation; its first sentence is the flag's help.
    pub doc: &'static str,
    /// The version that the option came with.
    pub since: &'static str,
}

/// The name that an option's variable has in a program whose users come over.
#[derive(Debug)]
pub struct Alias {
    /// The variable.
    pub variable: &'static str,
    /// Values that have another name there, with ours.
    pub words: &'static [(&'static str, &'static str)],
}

/// What values an option takes.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Given or not; a flag without a value.
    Switch,
    /// A text whose form is described here.
    Text(&'static str),
    /// A whole number of some unit.
    Number {
        /// What is counted; empty for a plain number.
        unit: &'static str,
        /// The allowed values.
        range: RangeInclusive<u64>,
    },
    /// A number of bytes, also written with `KiB`, `MiB` or `GiB`.
    Bytes(RangeInclusive<u64>),
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// True or false; a flag of it may have no value.
    Boolean,
    /// A time, as in `500ms` or `1h30m`.
    Duration(RangeInclusive<Duration>),
    /// The address of a node of a cluster.
    NodeAddress,
    /// Addresses of nodes: a list in the file, and elsewhere a text with commas.
    NodeAddresses,
    /// A text that is never shown, or where it is.
    Secret,
}

impl Kind {
    /// Whether two texts of this kind mean the same.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        fn alike<T: PartialEq>(parse: impl Fn(&str) -> Option<T>, one: &str, other: &str) -> bool {
            parse(one).is_some_and(|value| parse(other) == Some(value))
        }
        one == other
            || match self {
                Self::Duration(_) => alike(parse_duration, one, other),
                Self::NodeAddress => alike(NodeAddress::parse, one, other),
                Self::NodeAddresses => alike(NodeAddress::parse_list, one, other),
                Self::Switch
                | Self::Text(_)
                | Self::Number { .. }
                | Self::Bytes(_)
                | Self::Choice(_)
                | Self::Boolean
                | Self::Secret => false,
            }
    }
}

impl Declared {
    /// An option to change with `..`: in no file, of no variable and no flag.
    pub(crate) const BLANK: Self = Self {
        name: "",
        in_file: true,
        kind: Kind::Switch,
        default: None,
        default_dev: None,
        variable: None,
        aliases: &[],
        flag: None,
        doc: "",
        since: "0.1",
    };

    /// Returns what may be shown of a text of this option.
    pub(crate) fn shown<'a>(&self, text: &'a str) -> &'a str {
        match self.kind {
            Kind::Secret => secret::masked(text),
            Kind::Switch
            | Kind::Text(_)
            | Kind::Number { .. }
            | Kind::Bytes(_)
            | Kind::Choice(_)
            | Kind::Boolean
            | Kind::Duration(_)
            | Kind::NodeAddress
            | Kind::NodeAddresses => text,
        }
    }

    /// Returns the first sentence of the documentation.
    pub(crate) fn summary(&self) -> &'static str {
        self.doc
            .split_inclusive(". ")
            .next()
            .unwrap_or_default()
            .trim_end()
    }
}

/// Two declarations are the same if they have the same name; a test holds names apart.
impl PartialEq for Declared {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("given or not"),
            Self::Text(form) => f.write_str(form),
            Self::Number { unit, range } => {
                let space = if unit.is_empty() { "" } else { " " };
                write!(
                    f,
                    "a number{space}{unit} from {} to {}",
                    range.start(),
                    range.end()
                )
            }
            Self::Bytes(range) => {
                let (least, most) = (in_units(*range.start()), in_units(*range.end()));
                write!(
                    f,
                    "a number of bytes from {least} to {most}, such as 67108864 or \"64MiB\""
                )
            }
            Self::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                write!(f, "one of {}", quoted.join(", "))
            }
            Self::Boolean => f.write_str("true or false"),
            Self::Duration(range) => {
                let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
                write!(
                    f,
                    "a time from {least} to {most}, such as \"500ms\", \"2s\" or \"1h30m\""
                )
            }
            Self::NodeAddress => f.write_str(
                "a host and a port from 1 to 65535, such as \"node-1:7901\"; a host alone has port 7901",
            ),
            Self::NodeAddresses => f.write_str(
                "hosts with ports, in the file a list such as [\"node-1:7901\", \"node-2:7901\"], and elsewhere \
                 with commas between them, such as \"node-1:7901,node-2:7901\"",
            ),
            Self::Secret => f.write_str(
                "a text, \"file:PATH\" to read it from a file, or \"env:NAME\" to read it from a variable",
            ),
        }
    }
}

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Writes a number of bytes with the largest unit that leaves no rest.
fn in_units(bytes: u64) -> String {
    UNITS
        .into_iter()
        .find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(
            || bytes.to_string(),
            |(unit, shift)| format!("{}{unit}", bytes >> shift),
        )
}

/// Reads a number of bytes with or without a unit.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = UNITS
        .into_iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), shift)))
        .unwrap_or((text, 0));
    parse_number(digits)?.checked_mul(1 << shift)
}

/// Reads a number of digits alone; the standard parser would also take a plus sign.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("67108864", Some(67_108_864)),
            ("64MiB", Some(67_108_864)),
            ("64 MiB", Some(67_108_864)),
            ("1KiB", Some(1024)),
            ("2GiB", Some(2_147_483_648)),
            ("", None),
            ("MiB", None),
            ("+1", None),
            ("-1", None),
            ("1.5MiB", None),
            ("1MB", None),
            ("1mib", None),
            ("99999999999GiB", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text:?}");
        }
        for text in ["64MiB", "1KiB", "2GiB", "1025", "0"] {
            assert_eq!(in_units(parse_bytes(text).unwrap()), text);
        }
    }
}
