//! The headers of a request, as they came over the wire.

/// One header: its name in whatever case the client wrote it, and its value without the blanks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a str,
    /// The value. It need not be text.
    pub value: &'a [u8],
}

/// The headers of a request in their order.
///
/// They are few and each is looked up once or twice, so that comparing names is cheaper than a map of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'a>(pub &'a [Header<'a>]);

impl<'a> Headers<'a> {
    /// Returns all values of a header. The case of its name does not matter.
    pub fn values<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.0
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    }

    /// Whether a header is there.
    pub fn contains(self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// Returns the first value of a header, unless that holds anything but ASCII.
    pub fn text(self, name: &str) -> Option<&'a str> {
        self.values(name).next().and_then(ascii)
    }
}

/// Returns a value as text if it is ASCII. A control character other than the tab is in no value.
pub(crate) fn ascii(value: &[u8]) -> Option<&str> {
    str::from_utf8(value).ok().filter(|text| text.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_case_and_values_an_order() {
        let header = |name, value| Header { name, value };
        let list = [
            header("Host", b"a".as_slice()),
            header("x-twice", b"1"),
            header("X-Twice", b"2"),
            header("x-latin", b"\xe9"),
        ];
        let headers = Headers(&list);
        assert_eq!(headers.text("host"), Some("a"));
        assert_eq!(headers.values("X-TWICE").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(headers.text("x-latin"), None);
        assert!(headers.contains("x-latin") && !headers.contains("hos"));
    }
}
