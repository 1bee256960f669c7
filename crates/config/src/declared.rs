//! What the table says of an option.

use std::fmt;
use std::ops::RangeInclusive;

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
