//! Splitting short texts.
//!
//! The pieces are names of a few letters. `str::split` and `str::split_once` set up a search through memory for each of
//! them, which costs more than finding their ends does.

use memchr::memchr;

/// Returns what stands between the separators of a text, as `str::split` does; the separator is an ASCII character.
pub(crate) fn pieces(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (piece, after) = match cut(text, separator) {
            Some((piece, after)) => (piece, Some(after)),
            None => (text, None),
        };
        rest = after;
        Some(piece)
    })
}

/// Returns what stands before and behind the first separator, as `str::split_once` does.
pub(crate) fn cut(text: &str, separator: u8) -> Option<(&str, &str)> {
    debug_assert!(separator.is_ascii(), "or it could be a part of a character");
    let at = memchr(separator, text.as_bytes())?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_are_those_of_the_standard_library() {
        for text in ["", ";", "a", "a;", ";a", "host;x-amz-date", "a;;b", "ä;€;"] {
            let expected: Vec<&str> = text.split(';').collect();
            assert_eq!(pieces(text, b';').collect::<Vec<_>>(), expected, "{text:?}");
            assert_eq!(cut(text, b';'), text.split_once(';'), "{text:?}");
        }
    }
}
