//! `holdfast repair`: makes a damaged data directory start again, after it has said what that costs.
//!
//! The repair is done twice: first on a copy in memory, so that what is said is what will be done.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use broker::{Dropped, Repair, inspect, repair};
use clap::{Arg, ArgAction, ArgMatches, Command};
use journal::{Disk, LocalJournal, Overlay};
use serde_json::{Value, json};
use types::LogIndex;

use crate::stopped::{Failure, Stopped, count, directory_argument};
use crate::utc;
use crate::verify::{damage_documents, json_argument, print_damage};

/// Describes the verb.
pub(crate) fn command() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("repair")
        .about("Makes a damaged data directory start again; says first what that drops, and asks")
        .after_help(
            "Every file that is changed or replaced is kept in DIR/damaged-<UTC time>/. A repair that was interrupted is \
             run again.\n\nExit codes: 0 repaired, or nothing to repair; 5 in use by a server, or not confirmed; 4 no \
             such directory; 8 still damaged; 1 failed.",
        )
        .arg(directory_argument())
        .arg(flag("dry-run", "Says what would be dropped, and changes nothing"))
        .arg(flag("yes", "Does not ask"))
        .arg(flag(
            "start-empty",
            "Allows a repair that keeps nothing; without it such a repair is refused",
        ))
        .arg(json_argument())
}

/// Runs the verb.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    match repaired(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(matches.get_flag("json")),
    }
}

fn repaired(matches: &ArgMatches) -> Result<(), Failure> {
    let stopped = Stopped::open(matches)?;
    let directory = stopped.path();
    let folder = folder(&stopped);
    let failed = |error| Failure::of_journal(&directory, error);
    let overlay = Arc::new(Overlay::new(stopped.disk.clone()));
    let lock = LocalJournal::lock(overlay.as_ref()).map_err(failed)?;
    let plan = repair(overlay, lock, &folder).map_err(failed)?;
    let show = |is_done| match matches.get_flag("json") {
        true => println!("{}", document(&directory, &folder, &plan, is_done)),
        false => print(&directory, &folder, &plan, is_done),
    };
    if !plan.is_needed() || matches.get_flag("dry-run") {
        show(false);
        return Ok(());
    }
    if !matches.get_flag("json") {
        show(false);
    }
    confirm(matches, &directory, &plan)?;
    let disk = stopped.disk.clone();
    repair(stopped.disk, stopped.lock, &folder).map_err(failed)?;
    check(&disk, &directory, &folder)?;
    show(true);
    Ok(())
}

/// Returns a name that nothing in the directory has.
fn folder(stopped: &Stopped) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let base = format!("damaged-{}", utc::basic(now.as_secs()));
    let more = (2..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.clone()).chain(more);
    names
        .find(|name| !stopped.has(name))
        .expect("the names do not end")
}

fn confirm(matches: &ArgMatches, directory: &str, plan: &Repair) -> Result<(), Failure> {
    let refused = |what: &str, hint: &str| Failure {
        code: Failure::CONFLICT,
        what: format!("{directory} was not repaired: {what}"),
        cause: "a repair drops what cannot be read, and so it asks first".to_owned(),
        place: directory.to_owned(),
        hint: hint.to_owned(),
    };
    if plan.log.keeps_nothing() && !matches.get_flag("start-empty") {
        return Err(refused(
            "nothing of it could be kept",
            "restore a backup; if there is none, --start-empty makes an empty directory and keeps the files aside",
        ));
    }
    if matches.get_flag("yes") {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(refused(
            "there is no terminal to ask on",
            "look at what --dry-run says, then pass --yes",
        ));
    }
    eprint!("Type yes to do this: ");
    let mut answer = String::new();
    let asked = io::stderr()
        .flush()
        .and_then(|()| io::stdin().read_line(&mut answer));
    match asked {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        Ok(_) | Err(_) => Err(refused(
            "the answer was not yes",
            "nothing was changed: run this again once you know what you want",
        )),
    }
}

/// Looks at the result as `verify --deep` does.
fn check(disk: &Arc<dyn Disk>, directory: &str, folder: &str) -> Result<(), Failure> {
    let failed = |error| Failure::of_journal(directory, error);
    let _lock = LocalJournal::lock(disk.as_ref()).map_err(failed)?;
    let found = inspect(disk.clone(), true).map_err(failed)?;
    if found.is_whole() {
        return Ok(());
    }
    Err(Failure {
        code: Failure::DAMAGED,
        what: format!("{directory} was repaired and is still damaged"),
        cause: format!("{:?}", found.log.damage),
        place: format!("{directory}; what was there before is in {directory}/{folder}"),
        hint: "check the disk, and restore a backup".to_owned(),
    })
}

fn print(directory: &str, folder: &str, plan: &Repair, is_done: bool) {
    if !plan.is_needed() {
        println!("{directory} needs no repair");
        return;
    }
    if is_done {
        println!("{directory} is repaired");
        return;
    }
    println!("{directory} is damaged");
    print_damage("  ", &plan.log.damage);
    println!("A repair drops");
    dropped_lines(plan).iter().for_each(|line| println!("  {line}"));
    println!("and keeps");
    println!(
        "  {} with {}, as they were after entry {}",
        count(plan.queues, "queue"),
        count(plan.messages, "message"),
        plan.log.last_index
    );
    if !plan.log.aside.is_empty() {
        println!("What it changes or replaces stays in {directory}/{folder}:");
        plan.log.aside.iter().for_each(|name| println!("  {name}"));
    }
}

fn dropped_lines(plan: &Repair) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(last) = plan.log.dropped_to {
        let first = LogIndex(plan.log.last_index.0 + 1);
        let Dropped {
            entries,
            commands,
            sent,
            deleted,
        } = plan.dropped;
        lines.push(format!(
            "entries {first} to {last} of the log, all that clients did from there on"
        ));
        lines.push(format!(
            "{entries} of them can be read: {}, which send {} and delete {deleted}, which come back",
            count(commands, "command"),
            count(sent, "message")
        ));
    }
    for name in &plan.log.unreadable {
        lines.push(format!(
            "whatever was in {name}, of which nothing can be read: it may have been the end of the log"
        ));
    }
    for (queue, messages) in &plan.lost {
        lines.push(format!(
            "{} of queue {queue}, whose contents are lost",
            count(*messages, "message")
        ));
    }
    if lines.is_empty() {
        lines.push("nothing: everything that was damaged can be made again".to_owned());
    }
    lines
}

fn document(directory: &str, folder: &str, plan: &Repair, is_done: bool) -> Value {
    let entries = plan.log.dropped_to.map(|last| {
        json!({
            "first": plan.log.last_index.0 + 1,
            "last": last.0,
            "readable": plan.dropped.entries,
            "commands": plan.dropped.commands,
            "messages_sent": plan.dropped.sent,
            "messages_deleted": plan.dropped.deleted,
        })
    });
    let lost = plan.lost.iter().map(|(queue, messages)| {
        json!({
            "account": queue.tenant.to_string(),
            "queue": queue.name.to_string(),
            "messages": messages,
        })
    });
    json!({
        "schema": "holdfast.repair/v1",
        "directory": directory,
        "is_needed": plan.is_needed(),
        "is_done": is_done,
        "damage": damage_documents(&plan.log.damage),
        "dropped": {
            "entries": entries,
            "unreadable": plan.log.unreadable,
            "contents": lost.collect::<Vec<_>>(),
        },
        "kept": {
            "last_index": plan.log.last_index.0,
            "queues": plan.queues,
            "messages": plan.messages,
        },
        "aside": { "folder": folder, "files": plan.log.aside },
    })
}
