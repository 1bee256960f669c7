//! What is known of SQS from answers that were recorded on AWS is numbered, from 1 to 158. A test that shows such a
//! fact names its number: `# Fact 77: ...` in a case file, `// Facts 12 and 13.` at a test. This test knows which
//! numbers there are, so that a fact without a test does not go unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const LAST: u32 = 158;

/// Facts that no test of this repository shows, each with the reason.
const WITHOUT_TEST: [(u32, &str); 1] = [(35, "a server answers for one region")];

/// Adds the numbers that a text names after the word `Fact` or `Facts`: `12`, `12, 13 and 14`, `12-14`.
fn add_named(text: &str, place: &str, named: &mut BTreeMap<u32, String>) {
    for (at, _) in text.match_indices("act") {
        let is_word = ["F", " f", "(f"].iter().any(|start| text[..at].ends_with(start));
        let Some(rest) = text[at + 3..]
            .strip_prefix('s')
            .or(Some(&text[at + 3..]))
            .filter(|_| is_word)
        else {
            continue;
        };
        let mut range_from = None;
        let mut numbers = rest.split_inclusive(|character: char| !character.is_ascii_digit());
        let Some(" ") = numbers.next() else { continue };
        for part in numbers {
            let digits = part.trim_end_matches(|character: char| !character.is_ascii_digit());
            match digits.parse::<u32>() {
                Ok(number) => {
                    for number in range_from.take().unwrap_or(number)..=number {
                        named.entry(number).or_insert_with(|| place.to_owned());
                    }
                    range_from = part.ends_with('-').then_some(number);
                }
                // Between two numbers stand a comma, blanks and `and`.
                Err(_) if part.chars().all(|character| " and,".contains(character)) => {}
                Err(_) => break,
            }
            if part.ends_with([':', '.', ';', ')', '\n']) {
                break;
            }
        }
    }
}

/// Reads all that is a test below a folder.
fn read_folder(folder: &Path, named: &mut BTreeMap<u32, String>) {
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["node_modules", "target", "__pycache__"].contains(&name) && !name.starts_with('.') {
                read_folder(&path, named);
            }
            continue;
        }
        let is_read = [".rs", ".txt", ".py", ".mjs", ".js", ".ts"]
            .iter()
            .any(|end| name.ends_with(end));
        if is_read && name != "facts.rs" {
            add_named(&std::fs::read_to_string(&path).unwrap(), name, named);
        }
    }
}

#[test]
fn every_fact_is_named_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut named = BTreeMap::new();
    read_folder(&root.join("tests"), &mut named);
    for krate in std::fs::read_dir(root.join("crates")).unwrap() {
        for part in ["src", "tests"] {
            let folder = krate.as_ref().unwrap().path().join(part);
            if folder.is_dir() {
                read_folder(&folder, &mut named);
            }
        }
    }
    let excepted: BTreeSet<u32> = WITHOUT_TEST.iter().map(|(fact, _)| *fact).collect();
    let missing: Vec<u32> = (1..=LAST)
        .filter(|fact| !named.contains_key(fact) && !excepted.contains(fact))
        .collect();
    assert!(missing.is_empty(), "no test names the facts {missing:?}");
    for fact in named.keys() {
        assert!(
            (1..=LAST).contains(fact) && !excepted.contains(fact),
            "{} names the fact {fact}",
            named[fact]
        );
    }
}

#[test]
fn the_ways_of_naming_a_fact_are_read() {
    for (text, expected) in [
        ("# Fact 77: a size.", vec![77]),
        ("// Facts 12, 13 and 140.", vec![12, 13, 140]),
        ("# Facts 5-7 and 9: x", vec![5, 6, 7, 9]),
        ("(fact 60); in fact, 3 are", vec![60]),
        ("Facts 1 and 2: 3 of them", vec![1, 2]),
        ("facts are 12", vec![]),
        ("artefact 5", vec![]),
    ] {
        let mut named = BTreeMap::new();
        add_named(text, "here", &mut named);
        assert_eq!(named.into_keys().collect::<Vec<_>>(), expected, "{text}");
    }
}
