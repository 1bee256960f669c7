//! The `Date` header, formatted once a second and thread.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// Bytes of an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
const LEN: usize = 29;

thread_local! {
    static LAST: Cell<(u64, [u8; LEN])> = const { Cell::new((u64::MAX, [0; LEN])) };
}

/// Returns the date of now.
pub(super) fn now() -> [u8; LEN] {
    // A clock before 1970 or after 9999 has no date to tell.
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    at(elapsed.as_secs().min(253_402_300_799))
}

fn at(unix_seconds: u64) -> [u8; LEN] {
    let (second, text) = LAST.get();
    if second == unix_seconds {
        return text;
    }
    let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(unix_seconds)).to_string();
    let text = *date.as_bytes().first_chunk().expect("an HTTP date is so long");
    LAST.set((unix_seconds, text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_its_second() {
        for (seconds, expected) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(at(seconds), expected.as_bytes(), "{seconds}");
        }
    }
}
