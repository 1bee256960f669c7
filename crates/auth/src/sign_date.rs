//! The date of a signature, to the second.

use std::time::UNIX_EPOCH;

/// A date as SigV4 writes it, `20150830T123600Z`, and the same in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignDate {
    text: [u8; 16],
    unix_seconds: u64,
}

impl SignDate {
    /// Reads the basic ISO 8601 form, the only one that `X-Amz-Date` may have.
    pub(crate) fn parse_basic(text: &[u8]) -> Option<Self> {
        let text: [u8; 16] = text.try_into().ok()?;
        if text[8] != b'T' || text[15] != b'Z' {
            return None;
        }
        let number = |from: usize, to: usize| {
            text[from..to].iter().try_fold(0_u64, |number, byte| {
                byte.is_ascii_digit()
                    .then(|| number * 10 + u64::from(byte - b'0'))
            })
        };
        let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
        let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
        let is_valid = year >= 1970
            && (1..=12).contains(&month)
            && (1..=days_of_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        is_valid.then(|| Self {
            text,
            unix_seconds: ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second,
        })
    }

    /// Reads a `Date` header: the basic form, or the form that HTTP defines.
    pub(crate) fn parse_header(text: &str) -> Option<Self> {
        Self::parse_basic(text.as_bytes()).or_else(|| {
            let time = httpdate::parse_http_date(text).ok()?;
            Self::from_unix_seconds(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
        })
    }

    /// Makes the date of an instant; there is none past the year 9999.
    pub(crate) fn from_unix_seconds(unix_seconds: u64) -> Option<Self> {
        let (days, rest) = (unix_seconds / 86_400, unix_seconds % 86_400);
        // The civil-from-days algorithm: years start in March, so that the leap day is the last of its year.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 {
            (era * 400 + year_of_era, month + 3)
        } else {
            (era * 400 + year_of_era + 1, month - 9)
        };
        let text = format!(
            "{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z",
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        );
        Some(Self {
            text: text.as_bytes().try_into().ok()?,
            unix_seconds,
        })
    }

    /// Returns the sixteen characters.
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.text).expect("every constructor writes ASCII")
    }

    /// Returns the eight characters of the day.
    pub(crate) fn day(&self) -> [u8; 8] {
        *self.text.first_chunk().expect("16 is more than 8")
    }

    /// Returns the seconds since 1970.
    pub(crate) const fn unix_seconds(&self) -> u64 {
        self.unix_seconds
    }
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days-from-civil algorithm, for a valid date from 1970 on.
const fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_the_same_instant() {
        for (basic, http, seconds) in [
            ("19700101T000000Z", "Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("20150830T123600Z", "Sun, 30 Aug 2015 12:36:00 GMT", 1_440_938_160),
            ("20000229T235959Z", "Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("20991231T000000Z", "Thu, 31 Dec 2099 00:00:00 GMT", 4_102_358_400),
        ] {
            let date = SignDate::parse_basic(basic.as_bytes()).unwrap();
            assert_eq!(date.unix_seconds(), seconds, "{basic}");
            assert_eq!(date.as_str(), basic);
            assert_eq!(SignDate::parse_header(http), Some(date));
            assert_eq!(SignDate::parse_header(basic), Some(date));
        }
    }

    #[test]
    fn every_day_of_two_centuries_round_trips() {
        for day in 0..73_050 {
            let date = SignDate::from_unix_seconds(day * 86_400 + 12_345).unwrap();
            assert_eq!(SignDate::parse_basic(date.as_str().as_bytes()), Some(date));
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for wrong in [
            "",
            "20150830T123600",
            "20150830T123600z",
            "20150830 123600Z",
            "20150830T123600ZZ",
            "20150230T123600Z",
            "19000101T000000Z",
            "20151330T123600Z",
            "20150800T123600Z",
            "20150830T243600Z",
            "20150830T126000Z",
            "20150830T123660Z",
            "2015083OT123600Z",
            "+0150830T123600Z",
        ] {
            assert_eq!(SignDate::parse_basic(wrong.as_bytes()), None, "{wrong:?}");
            assert_eq!(SignDate::parse_header(wrong), None, "{wrong:?}");
        }
        assert_eq!(SignDate::from_unix_seconds(u64::MAX / 8), None);
    }
}
