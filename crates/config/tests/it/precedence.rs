//! Flag before environment before alias before file before default, and where a value came from.

use std::io;

use config::{Fsync, Limits};

use crate::process::{Process, refusal};

fn port(process: &Process) -> (u16, String) {
    let options = process.load().unwrap();
    let setting = options
        .origins()
        .find(|setting| setting.option.name == "server.port")
        .unwrap();
    assert_eq!(setting.text, options.server.port.to_string());
    (options.server.port, setting.origin.to_string())
}

#[test]
fn the_nearest_place_wins() {
    let process = Process::default();
    assert_eq!(port(&process), (4100, "the default".to_owned()));
    let process = process.config("# comment\n[server]\nport = 1\n");
    assert_eq!(port(&process), (1, "h.toml, line 3".to_owned()));
    let process = process.variable("PORT", "2");
    assert_eq!(port(&process), (2, "environment variable PORT".to_owned()));
    let process = process.variable("HOLDFAST_PORT", " 2 ");
    assert_eq!(
        port(&process),
        (2, "environment variable HOLDFAST_PORT".to_owned())
    );
    let process = process.flag("port", "3");
    assert_eq!(port(&process), (3, "flag --port".to_owned()));
    // An empty variable is one that is not set.
    let process = Process::default()
        .variable("HOLDFAST_PORT", "")
        .variable("PORT", " ");
    assert_eq!(port(&process), (4100, "the default".to_owned()));
}

#[test]
fn two_names_with_different_values_are_refused_even_under_a_flag() {
    let process = Process::default()
        .variable("HOLDFAST_PORT", "1")
        .variable("PORT", "2")
        .flag("port", "3");
    assert_eq!(
        refusal(&process),
        "error: server.port is set twice: to \"1\" and to \"2\"\n  \
         cause: two variables of the same meaning disagree, and either could be the one that is meant\n  \
         where: environment variable HOLDFAST_PORT; environment variable PORT\n  \
         try:   unset PORT"
    );
}

#[test]
fn the_words_of_another_program_are_understood() {
    let fsync = |ours: &str, theirs: &str| {
        let process = Process::default()
            .variable("HOLDFAST_FSYNC", ours)
            .variable("TINYMQ_FSYNC", theirs);
        process.load().map(|options| options.store.fsync)
    };
    assert_eq!(fsync("", "true"), Ok(Fsync::Always));
    assert_eq!(fsync("", "false"), Ok(Fsync::Off));
    assert_eq!(fsync("", "off"), Ok(Fsync::Off));
    assert_eq!(fsync("always", "true"), Ok(Fsync::Always));
    assert!(fsync("off", "true").is_err());
    assert!(fsync("", "maybe").is_err());
}

#[test]
fn a_default_may_differ_under_dev() {
    let limits = |process: Process| process.load().unwrap().server.limits;
    assert_eq!(limits(Process::default()), Limits::Strict);
    assert_eq!(limits(Process::default().dev()), Limits::Relaxed);
    assert_eq!(
        limits(Process::default().dev().flag("limits", "strict")),
        Limits::Strict
    );
    assert_eq!(
        limits(Process::default().variable("HOLDFAST_LIMITS", "relaxed")),
        Limits::Relaxed
    );
}

#[test]
fn a_file_is_found_by_name_or_where_one_usually_is() {
    let here = "./holdfast.toml";
    let system = "/etc/holdfast/holdfast.toml";
    let process = Process::default().file(system, "[server]\nport = 1");
    assert_eq!(port(&process), (1, format!("{system}, line 2")));
    let process = process.file(here, "[server]\nport = 2");
    assert_eq!(port(&process), (2, format!("{here}, line 2")));
    let process = process
        .file("named.toml", "[server]\nport = 3")
        .variable("HOLDFAST_CONFIG", "named.toml");
    assert_eq!(port(&process), (3, "named.toml, line 2".to_owned()));
    let process = process.config("[server]\nport = 4");
    assert_eq!(port(&process), (4, "h.toml, line 2".to_owned()));
}

#[test]
fn a_file_that_cannot_be_read_is_not_passed_over() {
    let text = refusal(&Process::default().flag("config", "none.toml"));
    assert!(
        text.contains("none.toml cannot be read") && text.contains("where: flag --config"),
        "{text}"
    );
    let process = Process::default().broken_file("./holdfast.toml", io::ErrorKind::PermissionDenied);
    let text = refusal(&process);
    assert!(text.contains("./holdfast.toml cannot be read"), "{text}");
}
