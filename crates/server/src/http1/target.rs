//! The target of a request line.

/// What a request line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target<'a> {
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    /// The address, if the target is a whole URL.
    pub(super) authority: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Reads a path with its query, a whole URL, or the asterisk of a server as such; `None` for anything else.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if text.starts_with('/') || text == "*" {
            return Some(Self::of_path(text, None));
        }
        let (scheme, rest) = text.split_once("://")?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        (!authority.is_empty()).then(|| Self::of_path(path, Some(authority)))
    }

    fn of_path(text: &'a str, authority: Option<&'a str>) -> Self {
        // A fragment is the client's own affair.
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        Self {
            path: if path.is_empty() { "/" } else { path },
            query,
            authority,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_path_or_a_whole_url() {
        let check = |text: &str, expected: Option<(&str, Option<&str>, Option<&str>)>| {
            let parsed = Target::parse(text).map(|target| (target.path, target.query, target.authority));
            assert_eq!(parsed, expected, "{text}");
        };
        check("/", Some(("/", None, None)));
        check("/1/q?Action=x?y", Some(("/1/q", Some("Action=x?y"), None)));
        check("//a?", Some(("//a", Some(""), None)));
        check("/a#b?c", Some(("/a", None, None)));
        check("*", Some(("*", None, None)));
        check("http://h:1", Some(("/", None, Some("h:1"))));
        check("HTTP://h?a=/b", Some(("/", Some("a=/b"), Some("h"))));
        check("https://h/p/q?a#f", Some(("/p/q", Some("a"), Some("h"))));
        for refused in ["", "a", "?a", "http:///p", "ftp://h/", "h:1", "://h"] {
            check(refused, None);
        }
    }
}
