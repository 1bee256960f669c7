//! The fuzz targets without a fuzzer: the saved corpus, changes of it, and bytes that have no plan.
#![allow(clippy::unwrap_used, reason = "a helper of a test is part of the test")]

use std::path::{Path, PathBuf};

use fuzz_targets::{TARGETS, Target};
use proptest::prelude::*;
use proptest::sample::Index;

/// What the corpus of one target, and of all, may weigh in the repository.
const CORPUS_BYTES_MAX: u64 = 20_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = root().join("corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A change that a fuzzer would make.
#[derive(Debug, Clone)]
enum Edit {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let few = 1..12_usize;
    prop_oneof![
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..8))
            .prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<Index>(), few.clone()).prop_map(|(at, count)| Edit::Remove(at, count)),
        (any::<Index>(), few).prop_map(|(at, count)| Edit::Repeat(at, count)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit) {
    let (Edit::Flip(at, _)
    | Edit::Set(at, _)
    | Edit::Insert(at, _)
    | Edit::Remove(at, _)
    | Edit::Repeat(at, _)) = edit;
    let at = at.index(bytes.len() + 1);
    let end = |count: &usize| (at + count).min(bytes.len());
    match edit {
        Edit::Flip(_, bit) => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= 1 << bit),
        Edit::Set(_, value) => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = *value),
        Edit::Insert(_, new) => drop(bytes.splice(at..at, new.iter().copied())),
        Edit::Remove(_, count) => drop(bytes.drain(at..end(count))),
        Edit::Repeat(_, count) => {
            let part = bytes[at..end(count)].to_vec();
            drop(bytes.splice(at..at, part));
        }
    }
}

/// Runs one target over what is saved, over what is near it, and over what is not.
fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let saved = corpus(name);
    assert!(!saved.is_empty(), "{name} has no corpus");
    for input in &saved {
        (target.check)(input);
    }
    near(target, saved);
    anything(target);
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn near(target: &Target, saved: Vec<Vec<u8>>) {
    let changed = (prop::sample::select(saved), prop::collection::vec(edit(), 1..6));
    let changed = changed.prop_map(|(mut bytes, edits)| {
        edits.iter().for_each(|edit| apply(&mut bytes, edit));
        bytes
    });
    proptest!(config(1_500), |(input in changed)| (target.check)(&input));
}

fn anything(target: &Target) {
    let bytes = prop::collection::vec(any::<u8>(), 0..400);
    proptest!(config(500), |(input in bytes)| (target.check)(&input));
}

#[test]
fn content() {
    run("content");
}

#[test]
fn forwarded() {
    run("forwarded");
}

#[test]
fn journal_entry() {
    run("journal_entry");
}

#[test]
fn json_body() {
    run("json_body");
}

#[test]
fn policy() {
    run("policy");
}

#[test]
fn query_form() {
    run("query_form");
}

#[test]
fn receipt_handle() {
    run("receipt_handle");
}

#[test]
fn redrive_policy() {
    run("redrive_policy");
}

#[test]
fn segment_recovery() {
    run("segment_recovery");
}

#[test]
fn signature() {
    run("signature");
}

#[test]
fn snapshot() {
    run("snapshot");
}

#[test]
fn every_target_has_a_program_a_test_and_a_small_corpus() {
    let this = include_str!("main.rs");
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for Target { name, .. } in TARGETS {
        assert!(this.contains(&format!("run(\"{name}\")")), "{name} has no test");
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name} is not in fuzz/Cargo.toml"
        );
        let program = std::fs::read_to_string(root().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(
            program.contains(&format!("fuzz_targets::{name}(bytes)")),
            "{name}"
        );
        let bytes: usize = corpus(name).iter().map(Vec::len).sum();
        assert!(
            bytes as u64 <= CORPUS_BYTES_MAX,
            "{name}: {bytes} bytes of corpus"
        );
    }
    for (folder, extension) in [("fuzz_targets", ".rs"), ("corpus", "")] {
        for file in std::fs::read_dir(root().join(folder)).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(extension).unwrap();
            assert!(
                TARGETS.iter().any(|target| target.name == name),
                "{folder}/{file} has no target"
            );
        }
    }
}

/// The targets whose promise is about what is accepted must see something accepted.
#[test]
fn seeds_get_to_what_they_are_for() {
    let accepted = |target: &str, accepts: &dyn Fn(&[u8]) -> bool| {
        let count = corpus(target).iter().filter(|input| accepts(input)).count();
        assert!(count > 0, "no input of {target} is accepted");
    };
    accepted("content", &|input| queue_core::Content::decode(input).is_ok());
    accepted("forwarded", &|input| {
        broker::decode_request(input).is_ok() && broker::decode_reply(input).is_err()
    });
    accepted("forwarded", &|input| {
        broker::decode_reply(input).is_ok() && broker::decode_request(input).is_err()
    });
    accepted("journal_entry", &|input| queue_core::Entry::decode(input).is_ok());
    accepted("snapshot", &|mut input| {
        queue_core::Partition::restore(&mut input).is_ok()
    });
    accepted("policy", &|input| {
        str::from_utf8(input).is_ok_and(|text| auth::Policy::parse(text).is_ok())
    });
    accepted("signature", &|input| {
        input.windows(11).any(|part| part == b"{signature}")
    });
}
