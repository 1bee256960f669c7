//! What addresses, times and combinations are refused.

use super::{OTHER_SECRET, SECRET, node, warned, warnings, with_certificates};
use crate::process::Process;
use crate::refusals::check;

#[test]
fn two_names_may_only_say_the_same() {
    for (ours, theirs, text, same, other) in [
        ("LISTEN", "ADDR", "10.0.0.1:7901", "10.0.0.1", "10.0.0.2:7901"),
        ("ADVERTISE", "SELF", "node-1", "NODE-1:7901", "node-2"),
        (
            "SEEDS",
            "NODES",
            "10.0.0.1,b",
            "10.0.0.1:7901, b:7901",
            "10.0.0.1,c",
        ),
        ("SECRET", "SECRET", SECRET, SECRET, OTHER_SECRET),
        ("ALLOW_INSECURE", "ALLOW_INSECURE", "true", "true", "false"),
        ("REPLICATE_TIMEOUT", "REPLICATE_TIMEOUT", "500ms", "0.5s", "501ms"),
        ("PREFERRED_LEADER", "LEADER", "true", "true", "false"),
    ] {
        let (ours, theirs) = (
            format!("HOLDFAST_CLUSTER_{ours}"),
            format!("TINYMQ_CLUSTER_{theirs}"),
        );
        let process = node().variable(&ours, text);
        process.variable(&theirs, same).load().unwrap();
        let process = node().variable(&ours, text).variable(&theirs, other);
        check(
            &process,
            &[
                "is set twice",
                &format!("environment variable {ours}; environment variable {theirs}"),
                &format!("unset {theirs}"),
            ],
        );
    }
}

#[test]
fn bad_values_are_refused() {
    for (variable, text, parts) in [
        ("LISTEN", "node-1:0", ["a host and a port", "cluster.listen"]),
        ("LISTEN", "7901", ["a host and a port", "cluster.listen"]),
        (
            "ADVERTISE",
            "http://node-1",
            ["a host and a port", "cluster.advertise"],
        ),
        (
            "ADVERTISE",
            "[::]",
            ["cluster.advertise cannot be [::]:7901", "every address"],
        ),
        ("SEEDS", "10.0.0.1 b", ["hosts with ports", "cluster.seeds"]),
        (
            "SEEDS",
            "10.0.0.1,0.0.0.0",
            ["cannot name 0.0.0.0:7901", "every address"],
        ),
        (
            "SEEDS",
            "10.0.0.1,b,B:7901",
            ["names b:7901 twice", "in the list once"],
        ),
        (
            "SEEDS",
            "b,c",
            ["announces 10.0.0.1:7901", "seeds are b:7901, c:7901"],
        ),
        (
            "ELECTION_SILENCE",
            "1.2s-0.9s",
            ["from 500ms to 60s", "100ms or more above the first"],
        ),
        (
            "ELECTION_SILENCE",
            "1s-3s",
            ["200ms or more above half", "0.9s-1.2s"],
        ),
        (
            "REPLICATE_TIMEOUT",
            "5",
            ["a time from 10ms to 24h", "the default, 5s"],
        ),
        (
            "REPLICATE_TIMEOUT",
            "9ms",
            ["a time from 10ms to 24h", "the default, 5s"],
        ),
        (
            "REPLICATE_TIMEOUT",
            "24h1ns",
            ["a time from 10ms to 24h", "the default, 5s"],
        ),
        (
            "PREFERRED_LEADER",
            "True",
            ["true or false", "did you mean \"true\"?"],
        ),
        ("ALLOW_INSECURE", "1", ["true or false", "false"]),
    ] {
        let variable = format!("HOLDFAST_CLUSTER_{variable}");
        let process = node().variable(&variable, text);
        check(&process, &parts);
        check(&process, &[&format!("environment variable {variable}")]);
    }
    let many: Vec<String> = (1..=32).map(|n| format!("10.0.0.{n}")).collect();
    check(
        &node().variable("HOLDFAST_CLUSTER_SEEDS", &many.join(",")),
        &["names 32 nodes", "at most 31"],
    );
    // An empty flag is a script's mistake, and no wish for a server alone.
    check(&node().flag("cluster-listen", ""), &["flag --cluster-listen"]);
    check(
        &with_certificates(node()).flag("cluster-tls-ca", ""),
        &["a path", "flag --cluster-tls-ca"],
    );
}

#[test]
fn types_of_the_file_are_checked() {
    for (line, cause) in [
        ("listen = 7901", "it is a number"),
        ("seeds = 'a,b'", "it is a text"),
        ("seeds = ['a', 1]", "it is a list"),
        ("preferred_leader = 'true'", "it is a text"),
        ("replicate_timeout = 5", "it is a number"),
        ("secret = 5", "it is a number"),
    ] {
        let process = Process::default().config(&format!("[cluster]\n{line}"));
        check(&process, &["is of the wrong type", cause, "line 2"]);
    }
}

#[test]
fn where_other_nodes_reach_this_one_must_be_said() {
    for listen in ["0.0.0.0:7901", "[::]"] {
        let process = node().variable("HOLDFAST_CLUSTER_LISTEN", listen);
        warned(&process, &["no other node reaches it", "set cluster.advertise"]);
        let process = process.variable("HOLDFAST_CLUSTER_ADVERTISE", "node-1");
        assert_eq!(warnings(&process), [""; 0]);
    }
    let process = node().variable("HOLDFAST_CLUSTER_SEEDS", "b,c");
    check(
        &process,
        &["HOLDFAST_CLUSTER_SEEDS; environment variable HOLDFAST_CLUSTER_LISTEN"],
    );
    check(
        &process.flag("cluster-advertise", "a"),
        &[
            "it announces a:7901",
            "HOLDFAST_CLUSTER_SEEDS; flag --cluster-advertise",
        ],
    );
}

#[test]
fn no_option_of_a_cluster_is_without_one() {
    let of_cluster = config::OPTIONS
        .iter()
        .filter(|option| option.name.starts_with("cluster.") && option.name != "cluster.listen");
    for option in of_cluster {
        let aliases = option.aliases.iter().map(|alias| alias.variable);
        for variable in option.variable.into_iter().chain(aliases) {
            check(
                &Process::default().variable(variable, "true"),
                &[
                    &format!("{} is set and cluster.listen is not", option.name),
                    &format!("environment variable {variable}"),
                ],
            );
        }
    }
}
