//! A damaged data directory: the start is refused, `verify` says why, `repair` makes it start again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use compat::{Launch, Scratch, Server, run_to_end};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);
const MESSAGES: usize = 20;
/// The message in whose content a byte is flipped.
const DAMAGED: usize = 12;

/// Runs a verb on a data directory.
fn run(verb: &str, directory: &Path, arguments: &[&str]) -> Result<Output> {
    let program = Launch::dev().command(directory)?.get_program().to_owned();
    let mut command = Command::new(program);
    command.arg(verb).arg(directory).args(arguments);
    run_to_end(&mut command, LIMIT)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a verb that must end with a code, and returns what it wrote to its output and its error output.
fn ends_with(code: i32, verb: &str, directory: &Path, arguments: &[&str]) -> Result<(String, String)> {
    let output = run(verb, directory, arguments)?;
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    ensure!(
        output.status.code() == Some(code),
        "{verb} {arguments:?} ended with {}: {out}{error}",
        output.status
    );
    Ok((out, error))
}

fn body(number: usize) -> String {
    format!("the message with number {number:03}")
}

/// Returns every file of a directory with its content, folders left out.
fn contents(directory: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            contents.insert(path.clone(), fs::read(&path)?);
        }
    }
    Ok(contents)
}

/// Flips a bit of a message's content where it lies, and returns the file.
fn flip(directory: &Path, number: usize) -> Result<PathBuf> {
    let body = body(number);
    for (path, mut bytes) in contents(directory)? {
        let found = bytes
            .windows(body.len())
            .position(|window| window == body.as_bytes());
        if let Some(at) = found {
            bytes[at] ^= 4;
            fs::write(&path, bytes)?;
            return Ok(path);
        }
    }
    anyhow::bail!("{body:?} is nowhere in {}", directory.display())
}

/// A killed server with messages of which one is damaged, and the damaged file.
fn damaged() -> Result<(Server, PathBuf)> {
    let mut server = Server::dev()?;
    let directory = server.data_dir();
    let mut sqs = server.sqs();
    let url = sqs.create_queue("damaged", json!({}))?;
    for number in 0..MESSAGES {
        let input = json!({ "QueueUrl": url, "MessageBody": body(number) });
        sqs.call("SendMessage", input)?;
    }
    for verb in ["verify", "repair"] {
        let (_, error) = ends_with(5, verb, &directory, &[])?;
        ensure!(error.contains("is in use"), "{error}");
    }
    server.kill()?;
    ends_with(0, "verify", &directory, &["--deep"])?;
    let file = flip(&directory, DAMAGED)?;
    Ok((server, file))
}

#[test]
fn a_flipped_byte_is_refused_found_and_repaired() -> Result<()> {
    let (mut server, file) = damaged()?;
    let directory = server.data_dir();
    ensure!(server.restart().is_err(), "it started on a damaged log");
    server.kill()?;
    let tail = server.log_tail();
    let name = file.file_name().context("a file has a name")?.to_string_lossy();
    let verb = format!("holdfast repair {}", directory.display());
    for part in [name.as_ref(), verb.as_str(), "at byte"] {
        ensure!(tail.contains(part), "{part:?} is not in {tail}");
    }

    let before = contents(&directory)?;
    let (out, _) = ends_with(8, "verify", &directory, &["--deep", "--json"])?;
    let found: Value = serde_json::from_str(&out)?;
    ensure!(found["is_start_refused"] == true, "{found}");
    ensure!(
        found["damage"][0]["file"].as_str() == file.to_str(),
        "{found} does not name {}",
        file.display()
    );
    let (_, error) = ends_with(5, "repair", &directory, &[])?;
    ensure!(error.contains("--yes"), "{error}");
    let (out, _) = ends_with(0, "repair", &directory, &["--dry-run"])?;
    ensure!(out.contains("1 queue with 12 messages"), "{out}");
    ensure!(out.contains("which send 7 messages"), "{out}");
    let mut after = contents(&directory)?;
    // Each of them takes the lock, and the lock says who has it.
    after.insert(directory.join("lock"), before[&directory.join("lock")].clone());
    ensure!(before == after, "something was changed before it was confirmed");

    ends_with(0, "repair", &directory, &["--yes"])?;
    let aside = fs::read_dir(&directory)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.is_dir())
        .context("nothing was kept aside")?;
    let kept = fs::read(aside.join(name.as_ref()))?;
    ensure!(kept == before[&file], "the damaged file is not kept as it was");
    ends_with(0, "verify", &directory, &["--deep"])?;
    ends_with(0, "repair", &directory, &[])?;

    server.restart()?;
    let mut sqs = server.sqs();
    let mut bodies = Vec::new();
    while bodies.len() < DAMAGED {
        let messages = sqs.receive("damaged", 600)?;
        ensure!(!messages.is_empty(), "only {bodies:?} are there");
        bodies.extend(
            messages
                .iter()
                .filter_map(|message| message["Body"].as_str().map(str::to_owned)),
        );
    }
    bodies.sort_unstable();
    let expected: Vec<String> = (0..DAMAGED).map(body).collect();
    ensure!(bodies == expected, "{bodies:?}");
    ensure!(sqs.counters("damaged")? == [0, DAMAGED as u64, 0]);
    Ok(())
}

#[test]
fn a_directory_that_is_not_there_is_not_made() -> Result<()> {
    let home = Scratch::new("missing")?;
    let missing = home.path().join("missing");
    for verb in ["verify", "repair"] {
        let (_, error) = ends_with(4, verb, &missing, &[])?;
        ensure!(error.lines().count() == 4, "{error}");
        ensure!(!missing.exists(), "{verb} made it");
    }
    Ok(())
}
