//! What is counted is what is shown.

use std::sync::Arc;
use std::time::Duration;

use telemetry::{Kind, METRICS, Metrics, OK, RefusalReason};

use crate::page::Samples;

const ACTIONS: &[&str] = &["SendMessage", "ReceiveMessage"];

fn read(metrics: &Metrics) -> Samples {
    Samples::read(&metrics.render())
}

#[test]
fn the_page_has_every_metric_of_the_table_with_its_kind() {
    let samples = read(&Metrics::new(ACTIONS));
    let shown: Vec<(&str, &str)> = samples
        .kinds
        .iter()
        .map(|(name, kind)| (name.as_str(), kind.as_str()))
        .collect();
    let mut declared: Vec<(&str, String)> = METRICS
        .iter()
        .map(|metric| (metric.name, metric.kind.to_string()))
        .collect();
    declared.sort();
    let declared: Vec<(&str, &str)> = declared
        .iter()
        .map(|(name, kind)| (*name, kind.as_str()))
        .collect();
    assert_eq!(shown, declared);
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for metric in METRICS {
        assert!(metric.name.starts_with("holdfast_"), "{}", metric.name);
        assert_eq!(
            metric.kind == Kind::Counter,
            metric.name.ends_with("_total"),
            "{}",
            metric.name
        );
        assert_eq!(
            metric.unit == "seconds",
            metric.name.ends_with("_seconds"),
            "{}",
            metric.name
        );
        assert!(
            metric.meaning.ends_with('.') && !metric.meaning.contains(['\n', '\\', '|']),
            "{}",
            metric.name
        );
    }
}

#[test]
fn counters_gauges_and_facts_show_what_they_were_given() {
    let metrics = Metrics::new(ACTIONS);
    metrics.messages_sent.increment();
    metrics.messages_sent.add(9);
    metrics.connections_open.increment();
    metrics.connections_open.increment();
    metrics.connections_open.decrement();
    metrics.inbox_commands.set(77);
    metrics.durability.set("always");
    metrics.durability.set("off");
    metrics.build.set("1.0 \"a\\b\"\n");
    metrics
        .backpressure_refusals
        .increment(RefusalReason::RequestBytes);
    let samples = read(&metrics);
    for (key, value) in [
        ("holdfast_messages_sent_total", 10.0),
        ("holdfast_messages_received_total", 0.0),
        ("holdfast_connections_open", 1.0),
        ("holdfast_inbox_commands", 77.0),
        ("holdfast_durability_info{fsync=\"always\"}", 1.0),
        ("holdfast_build_info{version=\"1.0 \\\"a\\\\b\\\"\\n\"}", 1.0),
        (
            "holdfast_backpressure_refusals_total{reason=\"request_bytes\"}",
            1.0,
        ),
        ("holdfast_backpressure_refusals_total{reason=\"inbox\"}", 0.0),
    ] {
        assert_eq!(samples.get(key), value, "{key}");
    }
    assert_eq!(metrics.messages_sent.get(), 10);
    assert_eq!(metrics.connections_open.get(), 1);
    assert_eq!(metrics.backpressure_refusals.get(RefusalReason::RequestBytes), 1);
}

#[test]
fn a_reading_is_shown_once_it_is_taken() {
    let metrics = Metrics::new(ACTIONS);
    assert!(!read(&metrics).values.contains_key("holdfast_cluster_term"));
    for (value, shown) in [(0, 0.0), (7, 7.0), (3, 3.0), (u64::MAX, i64::MAX as f64)] {
        metrics.cluster_term.set(value);
        let samples = read(&metrics);
        assert_eq!(samples.get("holdfast_cluster_term"), shown);
        assert!(!samples.values.contains_key("holdfast_cluster_is_leader"));
    }
}

#[test]
fn requests_are_counted_by_action_and_code() {
    let metrics = Metrics::new(ACTIONS);
    let requests = &metrics.requests;
    let send = requests.action("SendMessage");
    requests.observe(send, OK, 1_000_000);
    requests.observe(send, OK, 3_000_000_000);
    requests.observe(send, "QueueDoesNotExist", 1);
    requests.observe(requests.action("DropTable"), "InvalidAction", 1);
    requests.observe(requests.action(""), "InvalidAction", 1);
    let samples = read(&metrics);
    for (key, value) in [
        ("holdfast_requests_total{action=\"SendMessage\",code=\"ok\"}", 2.0),
        (
            "holdfast_requests_total{action=\"SendMessage\",code=\"QueueDoesNotExist\"}",
            1.0,
        ),
        (
            "holdfast_requests_total{action=\"unknown\",code=\"InvalidAction\"}",
            2.0,
        ),
        (
            "holdfast_request_duration_seconds_count{action=\"SendMessage\"}",
            3.0,
        ),
        (
            "holdfast_request_duration_seconds_sum{action=\"SendMessage\"}",
            3.001_000_001,
        ),
        (
            "holdfast_request_duration_seconds_bucket{action=\"SendMessage\",le=\"0.0001\"}",
            1.0,
        ),
        (
            "holdfast_request_duration_seconds_bucket{action=\"SendMessage\",le=\"0.001\"}",
            2.0,
        ),
        (
            "holdfast_request_duration_seconds_bucket{action=\"SendMessage\",le=\"1\"}",
            2.0,
        ),
        (
            "holdfast_request_duration_seconds_bucket{action=\"SendMessage\",le=\"5\"}",
            3.0,
        ),
        (
            "holdfast_request_duration_seconds_bucket{action=\"SendMessage\",le=\"+Inf\"}",
            3.0,
        ),
    ] {
        assert_eq!(samples.get(key), value, "{key}");
    }
    assert!(
        !samples.values.keys().any(|key| key.contains("ReceiveMessage")),
        "an action that never came"
    );
    assert_eq!(requests.count(send, OK), 2);
}

#[test]
fn however_many_codes_come_their_label_is_bounded() {
    let metrics = Metrics::new(ACTIONS);
    let send = metrics.requests.action("SendMessage");
    for i in 0..200 {
        let code: &'static str = Box::leak(format!("Code{i}").into_boxed_str());
        metrics.requests.observe(send, code, 1);
    }
    metrics.requests.observe(send, "Code0", 1);
    let samples = read(&metrics);
    let codes: Vec<(&String, &f64)> = samples
        .values
        .iter()
        .filter(|(key, _)| key.starts_with("holdfast_requests_total"))
        .collect();
    assert_eq!(codes.len(), 63);
    assert_eq!(
        samples.get("holdfast_requests_total{action=\"SendMessage\",code=\"Code0\"}"),
        2.0
    );
    assert_eq!(
        samples.get("holdfast_requests_total{action=\"SendMessage\",code=\"other\"}"),
        138.0
    );
}

#[test]
fn buckets_take_their_upper_bound_and_grow_together() {
    let metrics = Metrics::new(ACTIONS);
    for nanos in [0, 50_000, 50_001, 100_000, u64::MAX / 8] {
        metrics.fsync.observe(nanos);
    }
    metrics.fsync.observe_duration(Duration::from_millis(3));
    metrics.commit_batch_commands.observe(64);
    let samples = read(&metrics);
    for (bound, count) in [
        ("0.00005", 2.0),
        ("0.0001", 4.0),
        ("0.002", 4.0),
        ("0.005", 5.0),
        ("5", 5.0),
        ("+Inf", 6.0),
    ] {
        assert_eq!(
            samples.get(&format!("holdfast_wal_fsync_seconds_bucket{{le=\"{bound}\"}}")),
            count,
            "{bound}"
        );
    }
    assert_eq!(samples.get("holdfast_wal_fsync_seconds_count"), 6.0);
    assert_eq!(metrics.fsync.count(), 6);
    assert_eq!(
        samples.get("holdfast_commit_batch_commands_bucket{le=\"32\"}"),
        0.0
    );
    assert_eq!(
        samples.get("holdfast_commit_batch_commands_bucket{le=\"64\"}"),
        1.0
    );
    assert_eq!(samples.get("holdfast_commit_batch_commands_sum"), 64.0);
}

#[test]
fn threads_lose_no_count_and_agree_on_the_places_of_codes() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 2_000;
    const CODES: [&str; 5] = [OK, "A", "B", "C", "D"];
    let metrics = Arc::new(Metrics::new(ACTIONS));
    let send = metrics.requests.action("SendMessage");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    metrics.messages_sent.increment();
                    metrics.fsync.observe(round);
                    metrics
                        .requests
                        .observe(send, CODES[round as usize % CODES.len()], round);
                }
            });
        }
    });
    assert_eq!(metrics.messages_sent.get(), THREADS * ROUNDS);
    assert_eq!(metrics.fsync.count(), THREADS * ROUNDS);
    for code in CODES {
        assert_eq!(
            metrics.requests.count(send, code),
            THREADS * ROUNDS / CODES.len() as u64,
            "{code}"
        );
    }
}
