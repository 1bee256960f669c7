//! SPDX licence expressions, as far as they occur in manifests.

use std::collections::BTreeSet;

/// Returns true when the expression can be met with allowed licences alone.
pub(super) fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Old manifests write a slash for OR.
    let text = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let met = either(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    match words.next() {
        Some("(") => {
            let met = either(words, allowed);
            words.next_if_eq(&")").is_some() && met
        }
        Some(name) => match words.next_if_eq(&"WITH") {
            Some(_) => words
                .next()
                .is_some_and(|exception| allowed.contains(&format!("{name} WITH {exception}"))),
            None => allowed.contains(name),
        },
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: bool) {
        let allowed = [
            "MIT",
            "Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "Unicode-3.0",
        ];
        let allowed = allowed.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }

    #[test]
    fn expressions_are_weighed() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check("(MIT OR Apache-2.0) AND OpenSSL", false);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("Apache-2.0 WITH other-exception", false);
        check("", false);
        check("MIT Apache-2.0", false);
    }
}
