//! Just enough of Rust's grammar to measure functions: text without comments and literals, and matching braces.
//!
//! Not a parser. It sees the text before macros, which is what a reader sees too.

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of `fn`, counted from 1.
    pub(super) line: usize,
    /// From `fn` to the closing brace.
    pub(super) lines: usize,
}

/// Returns `text` with comments and the inside of literals replaced by spaces; every line stays where it was.
pub(super) fn mask(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = match characters[at] {
            '/' if characters.get(at + 1) == Some(&'/') => end_of_line(&characters, at),
            '/' if characters.get(at + 1) == Some(&'*') => end_of_comment(&characters, at),
            '"' => end_of_string(&characters, at),
            'r' if !follows_word(&characters, at) => end_of_raw_string(&characters, at).unwrap_or(at),
            '\'' => end_of_character(&characters, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            masked.push(characters[at]);
            at += 1;
        } else {
            let hidden = characters[at..end]
                .iter()
                .map(|c| if *c == '\n' { '\n' } else { ' ' });
            masked.extend(hidden);
            at = end;
        }
    }
    masked
}

fn end_of_line(characters: &[char], start: usize) -> usize {
    let length = characters[start..].iter().take_while(|c| **c != '\n').count();
    start + length
}

fn end_of_comment(characters: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < characters.len() {
        match (characters[at], characters.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    characters.len()
}

fn end_of_string(characters: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < characters.len() && characters[at] != '"' {
        at += if characters[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(characters.len())
}

/// Returns the end of `r"..."` or `r#"..."#`, and `None` when it is neither.
fn end_of_raw_string(characters: &[char], start: usize) -> Option<usize> {
    let hashes = characters[start + 1..].iter().take_while(|c| **c == '#').count();
    if characters.get(start + 1 + hashes) != Some(&'"') {
        return None;
    }
    let mut at = start + 2 + hashes;
    while at < characters.len() {
        let closing = characters[at + 1..]
            .iter()
            .take(hashes)
            .filter(|c| **c == '#')
            .count();
        if characters[at] == '"' && closing == hashes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(characters.len())
}

/// Returns the end of a character literal, and `None` for a lifetime.
fn end_of_character(characters: &[char], start: usize) -> Option<usize> {
    if characters.get(start + 1) == Some(&'\\') {
        // The escaped character itself may be a quote.
        let length = characters
            .get(start + 3..)?
            .iter()
            .take_while(|c| **c != '\'')
            .count();
        return Some(start + 4 + length);
    }
    (characters.get(start + 2) == Some(&'\'')).then_some(start + 3)
}

/// Returns true when the character at `at` continues a word that is no literal's prefix.
fn follows_word(characters: &[char], at: usize) -> bool {
    let is_word = |at: usize| {
        characters
            .get(at)
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
    };
    let Some(before) = at.checked_sub(1) else {
        return false;
    };
    let is_prefix = matches!(characters[before], 'b' | 'c') && !before.checked_sub(1).is_some_and(is_word);
    is_word(before) && !is_prefix
}

/// Returns the functions of masked text, inner ones included.
pub(super) fn functions(masked: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (start, word) in words(masked) {
        if word != "fn" {
            continue;
        }
        let rest = &masked[start + word.len()..];
        // `fn(` is a type.
        let Some((_, name)) = words(rest).next().filter(|(at, _)| rest[..*at].trim().is_empty()) else {
            continue;
        };
        let Some(length) = body_end(rest) else { continue };
        let line = 1 + masked[..start].matches('\n').count();
        let lines = 1 + rest[..length].matches('\n').count();
        found.push(Function {
            name: name.to_owned(),
            line,
            lines,
        });
    }
    found
}

/// Returns each word with its position.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !is_word(c))
        .filter(|word| !word.is_empty())
        .map(|word| {
            // A slice of `text`, so the difference of the addresses is its position.
            (word.as_ptr().addr() - text.as_ptr().addr(), word)
        })
}

/// Returns where the body of a function ends, given the text after `fn`; `None` when it has none.
fn body_end(text: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.checked_sub(1)?,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, usize, usize)]) {
        let found = functions(&mask(text));
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, expected, "in {text}");
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        check(
            "fn a() {}\n\nfn b(x: [u8; 2]) -> [u8; 4] {\n  x\n}\n",
            &[("a", 1, 1), ("b", 3, 3)],
        );
        check(
            "trait T {\n  fn none(&self);\n  fn some(&self) {\n  }\n}\n",
            &[("some", 3, 2)],
        );
        check(
            "fn outer() {\n  fn inner() {\n  }\n}\n",
            &[("outer", 1, 4), ("inner", 2, 2)],
        );
        check(
            "type F = fn(u8) -> u8;\nfn g(f: impl Fn() -> u8) where u8: Copy {\n}\n",
            &[("g", 2, 2)],
        );
    }

    #[test]
    fn comments_and_literals_hide_braces() {
        check("fn a() {\n  // }\n  /* } /* } */ } */\n}\n", &[("a", 1, 4)]);
        check("fn a() {\n  let s = \"}\\\"}\"; // \"\n}\n", &[("a", 1, 3)]);
        check("fn a() {\n  let s = br#\"}\"}\"#;\n}\n", &[("a", 1, 3)]);
        check(
            "fn a<'x>(s: &'x str) {\n  let c = ['}', '\\'', '\\u{7d}'];\n}\n",
            &[("a", 1, 3)],
        );
        check(
            "// fn not() {}\nfn a() { let hr = \"fn b() {}\"; }\n",
            &[("a", 2, 1)],
        );
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "a\n/* b\nc */ \"d\ne\"\n'f'\n";
        assert_eq!(mask(text).matches('\n').count(), text.matches('\n').count());
    }
}
