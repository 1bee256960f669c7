//! What valid values become.

use std::path::Path;

use config::{Fsync, Limits, LogFormat};

use crate::process::{KEY, Process};

#[test]
fn defaults_are_valid_and_as_documented() {
    let options = Process::default().load().unwrap();
    assert_eq!(options.server.bind.to_string(), "127.0.0.1");
    assert_eq!((options.server.port, options.server.control_port), (4100, 4101));
    assert_eq!(options.server.region.as_str(), "us-east-1");
    assert_eq!(options.server.public_url, None);
    assert_eq!(options.server.limits, Limits::Strict);
    assert_eq!(options.server.connections_max, 10_000);
    assert_eq!(options.server.request_bytes_in_flight_max, 256 << 20);
    assert_eq!(options.store.data_dir, Path::new("./data"));
    assert_eq!(options.store.fsync, Fsync::Always);
    assert_eq!(options.store.segment_bytes, 64 << 20);
    assert_eq!(options.store.snapshot_log_bytes, 128 << 20);
    assert_eq!(options.store.reserve_bytes, None);
    assert_eq!(options.store.cache_bytes, 64 << 20);
    assert_eq!(options.broker.inbox_commands_max, 8192);
    assert_eq!(
        (options.log.level.as_str(), options.log.format),
        ("info", LogFormat::Text)
    );
    assert!(!options.auth.dev && options.auth.keys.is_empty());
    assert_eq!(options.warnings.len(), 1);
    assert!(
        options.warnings[0].contains("every request will be refused"),
        "{:?}",
        options.warnings
    );
    assert_eq!(options.origins().count(), config::OPTIONS.len());
}

#[test]
fn every_option_of_the_file_is_read() {
    let text = "
        [server]
        bind = '::1'
        port = 0
        control_port = 0
        region = 'eu-west-1'
        public_url = 'https://sqs.example.org:8443/'
        limits = 'relaxed'
        connections_max = 1_000
        request_bytes_in_flight_max = '1GiB'
        [store]
        data_dir = '/var/lib/holdfast'
        fsync = 'off'
        segment_bytes = 1048576
        snapshot_log_bytes = '1MiB'
        reserve_bytes = '1GiB'
        cache_bytes = 0
        [broker]
        inbox_commands_max = 16
        in_flight_max = 5
        deduplication_ids_max = 7
        bytes_in_flight_max = '1GiB'
        tenant_bytes_in_flight_max = '1GiB'
        [admin]
        token = 'open sesame'
        [log]
        level = 'warn, broker=debug,journal::segment=trace'
        format = 'json'
    ";
    let options = Process::default().config(text).dev().load().unwrap();
    assert_eq!(options.server.bind.to_string(), "::1");
    assert_eq!((options.server.port, options.server.control_port), (0, 0));
    assert_eq!(options.server.region.as_str(), "eu-west-1");
    assert_eq!(
        options.server.public_url.as_deref(),
        Some("https://sqs.example.org:8443")
    );
    assert_eq!(options.server.limits, Limits::Relaxed);
    assert_eq!(options.server.connections_max, 1000);
    assert_eq!(options.server.request_bytes_in_flight_max, 1 << 30);
    assert_eq!(options.store.data_dir, Path::new("/var/lib/holdfast"));
    assert_eq!(options.store.fsync, Fsync::Off);
    assert_eq!(options.store.segment_bytes, 1 << 20);
    assert_eq!(options.store.snapshot_log_bytes, 1 << 20);
    assert_eq!(options.store.reserve_bytes, Some(1 << 30));
    assert_eq!(options.store.cache_bytes, 0);
    assert_eq!(options.broker.inbox_commands_max, 16);
    assert_eq!(options.broker.in_flight_max, 5);
    assert_eq!(options.broker.deduplication_ids_max, 7);
    assert_eq!(options.broker.bytes_in_flight_max, 1 << 30);
    assert_eq!(options.broker.tenant_bytes_in_flight_max, 1 << 30);
    assert_eq!(options.log.level, "warn, broker=debug,journal::segment=trace");
    assert_eq!(options.log.format, LogFormat::Json);
    assert!(options.auth.dev);
    assert!(
        options.warnings[0].contains("power cut"),
        "{:?}",
        options.warnings
    );
    // Those of a cluster exclude each other: they have a test of their own.
    let in_file = config::OPTIONS
        .iter()
        .filter(|option| option.in_file && !option.name.starts_with("cluster."))
        .count();
    let from_file = options
        .origins()
        .filter(|setting| setting.origin.to_string().starts_with("h.toml"));
    assert_eq!(
        from_file.count(),
        in_file,
        "an option of the table is not in this test"
    );
}

#[test]
fn every_variable_and_flag_is_read() {
    for option in config::OPTIONS
        .iter()
        .filter(|option| option.name != "config" && option.name != "dev")
        // A secret is not among the origins, and has a test of its own.
        .filter(|option| !option.name.starts_with("cluster.") && option.name != "admin.token")
    {
        let text = match option.name {
            "server.bind" => "127.0.0.2",
            "server.region" => "eu-west-1",
            "server.public_url" => "http://h",
            "server.limits" => "relaxed",
            "store.data_dir" => "/d",
            "store.fsync" => "off",
            "store.segment_bytes"
            | "store.snapshot_log_bytes"
            | "store.reserve_bytes"
            | "store.cache_bytes"
            | "broker.bytes_in_flight_max"
            | "broker.tenant_bytes_in_flight_max"
            | "server.request_bytes_in_flight_max" => "4MiB",
            "log.level" => "trace",
            "log.format" => "json",
            _ => "77",
        };
        let variable = Process::default().variable(option.variable.unwrap(), text);
        let flag = option.flag.map(|flag| Process::default().flag(flag, text));
        for process in [variable].into_iter().chain(flag) {
            // Faults are for development alone.
            let process = if option.name == "faults" {
                process.dev()
            } else {
                process
            };
            let options = process.load().unwrap();
            let changed: Vec<&str> = options
                .origins()
                .filter(|setting| setting.text == text && setting.origin.to_string() != "the default")
                .map(|setting| setting.option.name)
                .collect();
            assert_eq!(changed, [option.name]);
        }
    }
}

#[test]
fn a_public_url_may_have_a_path() {
    for (text, expected) in [
        ("http://h", "http://h"),
        ("http://h:80/", "http://h:80"),
        ("https://example.org/mq", "https://example.org/mq"),
        ("https://example.org/a/b/", "https://example.org/a/b"),
    ] {
        let options = Process::default().flag("public-url", text).load().unwrap();
        assert_eq!(options.server.public_url.as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn keys_come_from_the_file_and_their_secrets_from_where_it_says() {
    let text = format!(
        "{KEY}
        [[key]]
        account = '000000000000'
        access_key_id = 'from-file'
        secret_access_key = 'file:/run/secret'
        [[key]]
        account = '000000000000'
        access_key_id = 'from_env'
        secret_access_key = 'env:SECRET'"
    );
    let process = Process::default()
        .config(&text)
        .file("/run/secret", "s3cret\r\n")
        .variable("SECRET", "s3cret")
        .flag("bind", "0.0.0.0");
    let options = process.load().unwrap();
    let keys: Vec<(String, &str)> = options
        .auth
        .keys
        .iter()
        .map(|key| (key.tenant.to_string(), key.access_key_id.as_str()))
        .collect();
    assert_eq!(
        keys,
        [
            ("123456789012".to_owned(), "AKIDEXAMPLE"),
            ("000000000000".to_owned(), "from-file"),
            ("000000000000".to_owned(), "from_env"),
        ]
    );
    assert!(options.warnings.is_empty(), "{:?}", options.warnings);
    let printed = format!("{options:?}");
    assert!(
        !printed.contains("s3cret") && !printed.contains("hunter2"),
        "{printed}"
    );
}

#[test]
fn keys_under_dev_are_pointed_out() {
    let options = Process::default().config(KEY).dev().load().unwrap();
    assert!(
        options.warnings[0].contains("are not checked"),
        "{:?}",
        options.warnings
    );
}

#[test]
fn the_token_of_operators_has_two_names_and_is_never_shown() {
    let ours = Process::default().variable("HOLDFAST_ADMIN_TOKEN", "open sesame");
    let theirs = Process::default().variable("SHARED_SQS_ADMIN_TOKEN", "open sesame");
    for options in [ours.load().unwrap(), theirs.load().unwrap()] {
        let token = options.admin.token.as_ref().unwrap();
        assert!(token.is(b"open sesame"));
        assert!(!token.is(b"open sesamf") && !token.is(b"open sesam") && !token.is(b""));
        assert!(!format!("{options:?}").contains("sesame"));
    }
    assert!(Process::default().load().unwrap().admin.token.is_none());
}
