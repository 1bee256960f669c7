//! The characters that SQS allows in bodies and attribute values.

/// Whether a text holds only #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.
///
/// Surrogates cannot occur in a `str`, so what is left to find are control characters, U+FFFE and U+FFFF (bytes
/// EF BF BE and EF BF BF). The first pass is free of branches for the compiler to vectorise; only a text with an EF
/// byte needs a second look.
pub(crate) fn are_allowed(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut has_control = false;
    let mut has_ef = false;
    for byte in bytes {
        has_control |= (*byte < 0x20) & (*byte != b'\t') & (*byte != b'\n') & (*byte != b'\r');
        has_ef |= *byte == 0xef;
    }
    let is_noncharacter = |window: &[u8]| matches!(window, [0xef, 0xbf, 0xbe | 0xbf]);
    let has_noncharacter = has_ef && bytes.windows(3).any(is_noncharacter);
    !has_control && !has_noncharacter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_allowed_characters_pass() {
        for number in 0..=0x0011_0000 {
            let Some(character) = char::from_u32(number) else {
                continue;
            };
            let expected = matches!(
                character,
                '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}'
            );
            let mut buffer = [0; 4];
            assert_eq!(
                are_allowed(character.encode_utf8(&mut buffer)),
                expected,
                "U+{number:X}"
            );
        }
        assert!(are_allowed(""));
        assert!(!are_allowed("a\u{ffff}b"));
        assert!(!are_allowed("long text and then \0"));
    }
}
