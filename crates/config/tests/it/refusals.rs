//! What is refused, and that the refusal says what, why, where and what to try.

use crate::process::{KEY, Process, refusal};

#[track_caller]
pub(crate) fn check(process: &Process, parts: &[&str]) {
    let text = refusal(process);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    for (line, start) in lines
        .iter()
        .zip(["error: ", "  cause: ", "  where: ", "  try:   "])
    {
        assert!(line.starts_with(start) && line.len() > start.len(), "{text}");
    }
    for part in parts {
        assert!(text.contains(part), "{text}\nhas no {part:?}");
    }
}

#[test]
fn values_out_of_range_or_form_are_refused() {
    for (flag, text, cause) in [
        ("port", "65536", "a number from 0 to 65535"),
        ("port", "-1", "a number from 0 to 65535"),
        ("port", "http", "a number from 0 to 65535"),
        ("port", "", "a number from 0 to 65535"),
        ("bind", "localhost", "an IP address"),
        ("bind", "127.0.0.1:80", "an IP address"),
        ("region", "US East", "lower-case letters"),
        ("region", "", "lower-case letters"),
        ("public-url", "sqs.example.org", "a URL"),
        ("public-url", "ftp://sqs.example.org", "a URL"),
        ("public-url", "http://", "a URL"),
        ("public-url", "http://h/a//b", "a URL"),
        ("public-url", "/mq", "a URL"),
        ("public-url", "http://h?q", "a URL"),
        ("public-url", "http://user:pass@h", "a URL"),
        ("fsync", "sometimes", "\"always\", \"off\""),
        ("limits", "Strict", "\"strict\", \"relaxed\""),
        ("log", "loud", "\"error\", \"warn\""),
        ("log", "info,", "\"error\", \"warn\""),
        ("log", "broker=loud", "\"error\", \"warn\""),
        ("log-format", "xml", "\"text\", \"json\""),
    ] {
        check(
            &Process::default().flag(flag, text),
            &[&format!("where: flag --{flag}"), cause],
        );
    }
    for (variable, text) in [
        ("HOLDFAST_SEGMENT_BYTES", "1048575"),
        ("HOLDFAST_SEGMENT_BYTES", "2GiB"),
        ("HOLDFAST_INBOX_COMMANDS_MAX", "0"),
        ("HOLDFAST_CONNECTIONS_MAX", "1KiB"),
        ("HOLDFAST_REQUEST_BYTES_IN_FLIGHT_MAX", "1"),
    ] {
        check(
            &Process::default().variable(variable, text),
            &[&format!("environment variable {variable}")],
        );
    }
}

#[test]
fn faults_are_for_development_alone() {
    let process = Process::default().variable("HOLDFAST_FAULTS", "faults.toml");
    check(&process, &["file of faults", "HOLDFAST_FAULTS", "--dev"]);
}

#[test]
fn a_near_word_is_suggested() {
    check(
        &Process::default().flag("limits", "relax"),
        &["did you mean \"relaxed\"?"],
    );
    check(
        &Process::default().config("[server]\nprot = 1"),
        &["\"server.prot\"", "line 2", "did you mean \"port\"?"],
    );
    check(
        &Process::default().config("\n\n[sever]\nport = 1"),
        &["\"sever\"", "line 3", "did you mean \"server\"?"],
    );
    check(
        &Process::default().config("[store]\nport = 1"),
        &["\"port\" belongs under [server]"],
    );
    check(
        &Process::default().config("port = 1"),
        &["\"port\" belongs under [server]"],
    );
    check(
        &Process::default().config("dev = true"),
        &["give the flag --dev instead"],
    );
    check(&Process::default().config("[server]\nzzz = 1"), &["remove it"]);
    check(&Process::default().config("[zzz]"), &["remove it"]);
    check(&Process::default().config("zzz = 1"), &["see the reference"]);
    let key = KEY.replace("access_key_id", "acces_key_id");
    check(
        &Process::default().config(&key),
        &[
            "\"key.acces_key_id\"",
            "line 3",
            "did you mean \"access_key_id\"?",
        ],
    );
}

#[test]
fn types_and_syntax_of_the_file_are_checked() {
    check(
        &Process::default().config("[server]\nport = '1'"),
        &["server.port is of the wrong type", "it is a text"],
    );
    check(
        &Process::default().config("[server]\nport = 0x10"),
        &["wrong type"],
    );
    check(
        &Process::default().config("[server]\nport = 1.5"),
        &["it is a fraction"],
    );
    check(
        &Process::default().config("[server]\nregion = 1"),
        &["it is a number", "the default, us-east-1"],
    );
    check(
        &Process::default().config("[server]\nport = [1]"),
        &["it is a list"],
    );
    check(
        &Process::default().config("[server.port]\nx = 1"),
        &["it is a table"],
    );
    check(
        &Process::default().config("[store]\nfsync = true"),
        &["it is true or false"],
    );
    check(
        &Process::default().config("[server]\nport = -1"),
        &["server.port cannot be \"-1\"", "line 2"],
    );
    check(
        &Process::default().config("[server]\nport ="),
        &["not valid TOML", "line 2"],
    );
    check(
        &Process::default().config("[server]\nport = 1\nport = 2"),
        &["not valid TOML", "line 3"],
    );
}

#[test]
fn keys_are_checked_and_their_secrets_never_shown() {
    let with = |from: &str, to: &str| Process::default().config(&KEY.replace(from, to));
    check(
        &with("123456789012", "12345"),
        &["\"12345\" is not an account", "line 2"],
    );
    check(
        &with("AKIDEXAMPLE", "a/b"),
        &["\"a/b\" is not an access key id", "line 3"],
    );
    check(&with("AKIDEXAMPLE", ""), &["is not an access key id"]);
    check(
        &with("AKIDEXAMPLE", &"k".repeat(129)),
        &["is not an access key id"],
    );
    check(
        &with("account = \"123456789012\"\n", ""),
        &["a [[key]] has no account", "line 1"],
    );
    check(
        &with("secret_access_key = \"hunter2\"\n", ""),
        &["has no secret_access_key"],
    );
    check(&with("hunter2", ""), &["it is empty", "line 4"]);
    check(&with("hunter2", "env:NONE"), &["variable NONE is not set"]);
    check(&with("hunter2", "file:/none"), &["/none: "]);
    check(
        &with("\"123456789012\"", "123456789012"),
        &["key.account is of the wrong type", "in quotes"],
    );
    check(&with("[[key]]", "[key]"), &["not written as tables", "[[key]]"]);
    check(
        &Process::default().config("key = [1]"),
        &["not written as tables"],
    );
    check(
        &Process::default().config(&format!("{KEY}{KEY}")),
        &["is there twice", "line 3; h.toml, line 7"],
    );
    for broken in [
        "\"hunter2",
        "'hunter2\"",
        "\"hunter2\\q\"",
        "hunter2",
        "{ hunter2 }",
        "[\"hunter2\"]",
        "\"\"\"hunter2",
    ] {
        let text = refusal(&with("\"hunter2\"", broken));
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn two_sockets_need_two_ports() {
    let both = Process::default().flag("port", "4101");
    check(
        &both,
        &[
            "server.port and server.control_port are both 4101",
            "flag --port; the default",
        ],
    );
    Process::default()
        .flag("port", "0")
        .flag("control-port", "0")
        .load()
        .unwrap();
}

#[test]
fn nothing_open_to_the_network_without_keys() {
    for address in ["0.0.0.0", "192.168.1.1", "::", "::ffff:10.0.0.1"] {
        check(
            &Process::default().flag("bind", address),
            &["no access key", "put a [[key]]", "flag --bind"],
        );
        check(
            &Process::default().flag("bind", address).dev(),
            &["--dev accepts any", "flag --bind; flag --dev"],
        );
        let with_keys = Process::default().flag("bind", address).config(KEY);
        with_keys.load().unwrap();
        check(&with_keys.dev(), &["--dev accepts any"]);
    }
    for address in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
        Process::default().flag("bind", address).load().unwrap();
        Process::default().flag("bind", address).dev().load().unwrap();
    }
}
