//! `holdfast verify`: says whether a stopped data directory is whole. Changes nothing.

use std::process::ExitCode;

use broker::{Inspection, StateInspection, inspect};
use clap::{Arg, ArgAction, ArgMatches, Command};
use journal::Corruption;
use serde_json::{Value, json};

use crate::stopped::{Failure, Stopped, count, directory_argument};

/// Lines of one kind that a person is shown.
const LINES_MAX: usize = 20;

/// Describes the verb.
pub(crate) fn command() -> Command {
    Command::new("verify")
        .about("Says whether the data directory of a stopped server is whole; changes nothing")
        .after_help(
            "Exit codes: 0 whole (a torn tail, which was never acknowledged, is whole), 8 damaged, 5 in use by a \
             server, 4 no such directory, 1 it cannot be read.",
        )
        .arg(directory_argument())
        .arg(
            Arg::new("deep")
                .long("deep")
                .action(ArgAction::SetTrue)
                .help("Also replays the state in memory, checks it, and reads every message content"),
        )
        .arg(json_argument())
}

/// Declares `--json`.
pub(crate) fn json_argument() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Writes one JSON document for programs")
}

/// Runs the verb.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let is_json = matches.get_flag("json");
    match verified(matches) {
        Ok((directory, found)) => {
            if is_json {
                println!("{}", document(&directory, &found));
            } else {
                print(&directory, &found);
            }
            match found.is_whole() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(Failure::DAMAGED),
            }
        }
        Err(failure) => failure.report(is_json),
    }
}

fn verified(matches: &ArgMatches) -> Result<(String, Inspection), Failure> {
    let stopped = Stopped::open(matches)?;
    let directory = stopped.path();
    let found = inspect(stopped.disk.clone(), matches.get_flag("deep"))
        .map_err(|error| Failure::of_journal(&directory, error))?;
    Ok((directory, found))
}

fn print(directory: &str, found: &Inspection) {
    let state = if found.is_whole() { "whole" } else { "damaged" };
    println!("{directory} is {state}");
    let log = &found.log;
    println!(
        "  {}, {}; {} after {}, up to entry {}; {} bytes of log",
        count(log.snapshots, "snapshot"),
        count(log.segments, "segment"),
        // "entrys" is no word.
        match log.entries {
            1 => "1 entry".to_owned(),
            entries => format!("{entries} entries"),
        },
        log.snapshot.map_or("the beginning".to_owned(), |index| format!(
            "the snapshot of entry {index}"
        )),
        log.last_index,
        log.log_bytes
    );
    if let Some(tail) = &log.torn_tail {
        println!(
            "  torn tail: {} bytes from byte {} of {}; never acknowledged, and cut off at the next start",
            tail.bytes, tail.offset, tail.file
        );
    }
    if let Some(state) = &found.state {
        print_state(state);
    }
    print_damage("  damage: ", &log.damage);
    if log.is_start_refused {
        println!("  a server refuses to start here; `holdfast repair {directory}` says what can be kept");
    } else if !found.is_whole() {
        println!("  a server starts here; `holdfast repair {directory}` takes the damage away");
    }
}

fn print_state(state: &StateInspection) {
    println!(
        "  {} with {}; {} of {} are as they were stored",
        count(state.queues, "queue"),
        count(state.messages, "message"),
        count(state.contents, "content"),
        count(state.content_bytes, "byte")
    );
    for (queue, damage) in &state.lost {
        println!(
            "  lost in queue {queue}: {}",
            count(damage.len() as u64, "content")
        );
        print_damage("    ", damage);
    }
    if let Some(contradiction) = &state.contradiction {
        println!("  the state contradicts itself: {contradiction}");
    }
}

/// Prints the first places that are damaged.
pub(crate) fn print_damage(indent: &str, damage: &[Corruption]) {
    for Corruption { file, offset, reason } in damage.iter().take(LINES_MAX) {
        println!("{indent}{file} at byte {offset}: {reason}");
    }
    if damage.len() > LINES_MAX {
        println!("{indent}and {} more places", damage.len() - LINES_MAX);
    }
}

fn document(directory: &str, found: &Inspection) -> Value {
    let log = &found.log;
    let torn_tail = log
        .torn_tail
        .as_ref()
        .map(|tail| json!({ "file": tail.file, "offset": tail.offset, "bytes": tail.bytes }));
    let state = found.state.as_ref().map(|state| {
        let lost = state.lost.iter().map(|(queue, damage)| {
            json!({
                "account": queue.tenant.to_string(),
                "queue": queue.name.to_string(),
                "damage": damage_documents(damage),
            })
        });
        json!({
            "queues": state.queues,
            "messages": state.messages,
            "contents": state.contents,
            "content_bytes": state.content_bytes,
            "lost": lost.collect::<Vec<_>>(),
            "contradiction": state.contradiction,
        })
    });
    json!({
        "schema": "holdfast.verify/v1",
        "directory": directory,
        "is_whole": found.is_whole(),
        "is_start_refused": log.is_start_refused,
        "snapshots": log.snapshots,
        "segments": log.segments,
        "snapshot": log.snapshot.map(|index| index.0),
        "entries": log.entries,
        "last_index": log.last_index.0,
        "log_bytes": log.log_bytes,
        "torn_tail": torn_tail,
        "damage": damage_documents(&log.damage),
        "state": state,
    })
}

/// Returns damage as programs read it.
pub(crate) fn damage_documents(damage: &[Corruption]) -> Vec<Value> {
    let document = |damage: &Corruption| json!({ "file": damage.file, "offset": damage.offset, "reason": damage.reason });
    damage.iter().map(document).collect()
}
