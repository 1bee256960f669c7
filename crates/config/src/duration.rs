//! Times as texts: digits with units, as in `500ms`, `1.5s` or `1h30m`.

use std::time::Duration;

use crate::declared::parse_number;

/// Units with their nanoseconds. The two spellings of the micro sign are those that other programs write.
const UNITS: [(&str, u64); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

/// Reads a time of one or more numbers, each with its unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = Some(text).filter(|text| !text.is_empty())?;
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|letter| !is_of_number(letter))?);
        let (unit, tail) = tail.split_at(tail.find(is_of_number).unwrap_or(tail.len()));
        total = total.checked_add(nanoseconds(number, unit)?)?;
        rest = tail;
    }
    Some(Duration::from_nanos(total))
}

fn nanoseconds(number: &str, unit: &str) -> Option<u64> {
    let (_, of_unit) = UNITS.into_iter().find(|(known, _)| *known == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let mut total = parse_number(whole)?.checked_mul(of_unit)?;
    // A fraction of a nanosecond is dropped.
    let mut of_place = of_unit;
    parse_number(fraction)?;
    for digit in fraction.bytes() {
        of_place /= 10;
        total = total.checked_add(u64::from(digit - b'0') * of_place)?;
    }
    Some(total)
}

/// Writes a time with the largest unit that leaves no rest.
pub(crate) fn duration_text(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    UNITS
        .into_iter()
        .find(|(_, of_unit)| nanoseconds.is_multiple_of(u128::from(*of_unit)))
        .map_or_else(String::new, |(unit, of_unit)| {
            format!("{}{unit}", nanoseconds / u128::from(of_unit))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, milliseconds) in [
            ("500ms", Some(500)),
            ("2s", Some(2_000)),
            ("0s", Some(0)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("0.9s", Some(900)),
            ("0.25h", Some(900_000)),
            ("1m0.5s", Some(60_500)),
            ("7000us", Some(7)),
            ("7000\u{b5}s", Some(7)),
            ("7000\u{3bc}s", Some(7)),
            ("7000000ns", Some(7)),
            ("", None),
            ("5", None),
            ("s", None),
            (".s", None),
            (".5s", None),
            ("5.s", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("+1s", None),
            ("1 s", None),
            ("1S", None),
            ("1d", None),
            ("2s500", None),
            ("9999999999h", None),
            ("99999999999999999999s", None),
            ("0.99999999999999999999s", None),
        ] {
            let expected = milliseconds.map(Duration::from_millis);
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
        for text in ["10ms", "5s", "90m", "24h", "1500ms", "1ns", "0h"] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
    }
}
