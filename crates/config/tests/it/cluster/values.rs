//! What valid options become, under their own names and those of another program.

use std::path::Path;
use std::time::Duration;

use config::ClusterSecurity;

use super::{OTHER_SECRET, SECRET, cluster, node, secrets, texts, warned, warnings};
use crate::process::Process;
use crate::refusals::check;

#[test]
fn a_server_is_alone_unless_it_listens_for_others() {
    assert!(Process::default().load().unwrap().cluster.is_none());
    // What says no more than the defaults asks for nothing.
    let alone = Process::default()
        .variable("TINYMQ_CLUSTER_LEADER", "false")
        .variable("TINYMQ_CLUSTER_ALLOW_INSECURE", "false")
        .variable("TINYMQ_CLUSTER_ADDR", " ")
        .config("[cluster]\nseeds = []");
    assert!(alone.load().unwrap().cluster.is_none());
    assert_eq!(warnings(&alone), [""; 0]);
}

#[test]
fn defaults_are_as_documented() {
    let options = cluster(&node());
    assert_eq!(options.listen.to_string(), "10.0.0.1:7901");
    assert_eq!(options.advertise, options.listen);
    assert_eq!(texts(&options.seeds), [""; 0]);
    assert_eq!(secrets(&options), (SECRET.as_bytes(), None));
    let silence = options.election_silence;
    assert_eq!(
        (silence.low, silence.high),
        (Duration::from_millis(900), Duration::from_millis(1_200))
    );
    assert_eq!(options.replicate_timeout, Duration::from_secs(5));
    assert!(!options.preferred_leader);
    assert_eq!(warnings(&node()), [""; 0]);
}

#[test]
fn the_file_sets_every_option() {
    let text = "
        [cluster]
        listen = '0.0.0.0:7001'
        advertise = 'node-1'
        seeds = ['node-2:7901', 'node-1:7901', 'NODE-3']
        secret = 'file:/run/secret'
        secret_previous = 'env:OLD'
        election_silence = '8s-12s'
        replicate_timeout = '1h30m'
        preferred_leader = true
    ";
    let process = Process::default()
        .config(text)
        .file("/run/secret", &format!("{SECRET}\n"))
        .variable("OLD", OTHER_SECRET);
    let options = cluster(&process);
    assert_eq!(options.listen.to_string(), "0.0.0.0:7001");
    assert_eq!(options.advertise.to_string(), "node-1:7901");
    assert_eq!(
        texts(&options.seeds),
        ["node-2:7901", "node-1:7901", "node-3:7901"]
    );
    assert_eq!(
        secrets(&options),
        (SECRET.as_bytes(), Some(OTHER_SECRET.as_bytes()))
    );
    assert_eq!(options.election_silence.high, Duration::from_secs(12));
    assert_eq!(options.replicate_timeout, Duration::from_secs(5_400));
    assert!(options.preferred_leader);
    assert_eq!(warnings(&process), [""; 0]);

    let text = "
        [cluster]
        listen = 'node-1'
        tls_ca = '/ca.pem'
        tls_cert = '/cert.pem'
        tls_key = '/key.pem'
    ";
    let ClusterSecurity::Tls { ca, cert, key } = cluster(&Process::default().config(text)).security else {
        panic!("certificates do not count");
    };
    assert_eq!(
        [ca.as_path(), cert.as_path(), key.as_path()],
        ["/ca.pem", "/cert.pem", "/key.pem"].map(Path::new)
    );
}

#[test]
fn every_variable_and_flag_is_read() {
    let base = || {
        Process::default()
            .config("[cluster]\nlisten = 'a'\nsecret = 'env:S'\ntls_ca = 'a'\ntls_cert = 'a'\ntls_key = 'a'")
            .variable("S", SECRET)
    };
    for option in config::OPTIONS
        .iter()
        .filter(|option| option.name.starts_with("cluster."))
    {
        let text = match option.name {
            "cluster.seeds" => "a,b",
            "cluster.election_silence" => "8s-12s",
            "cluster.replicate_timeout" => "2s",
            "cluster.allow_insecure" | "cluster.preferred_leader" => "true",
            "cluster.secret" | "cluster.secret_previous" => "env:T",
            _ => "node-1",
        };
        let aliases = option.aliases.iter().map(|alias| alias.variable);
        let variables = option.variable.into_iter().chain(aliases);
        let variables = variables.map(|variable| base().variable(variable, text).variable("T", SECRET));
        let flag = option.flag.map(|flag| base().flag(flag, text));
        for process in variables.chain(flag) {
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
fn the_names_of_another_program_are_understood() {
    let process = Process::default()
        .variable("TINYMQ_CLUSTER_ADDR", ":7901")
        .variable("TINYMQ_CLUSTER_SELF", "tinymq-0.tinymq-headless:7901")
        .variable(
            "TINYMQ_CLUSTER_NODES",
            "tinymq-0.tinymq-headless:7901, tinymq-1.tinymq-headless:7901,",
        )
        .variable("TINYMQ_CLUSTER_SECRET", SECRET)
        .variable("TINYMQ_CLUSTER_REPLICATE_TIMEOUT", "500ms")
        .variable("TINYMQ_CLUSTER_LEADER", "false");
    let options = cluster(&process);
    assert_eq!(options.listen.to_string(), "0.0.0.0:7901");
    assert_eq!(options.advertise.to_string(), "tinymq-0.tinymq-headless:7901");
    assert_eq!(options.seeds.len(), 2);
    assert_eq!(secrets(&options), (SECRET.as_bytes(), None));
    assert_eq!(options.replicate_timeout, Duration::from_millis(500));
    assert!(!options.preferred_leader);
    assert_eq!(warnings(&process), [""; 0]);

    let leader = process.variable("TINYMQ_CLUSTER_LEADER", "true");
    assert!(cluster(&leader).preferred_leader);
    warned(&leader, &["TINYMQ_CLUSTER_LEADER", "elections stay on"]);
    let ours = node().variable("HOLDFAST_CLUSTER_PREFERRED_LEADER", "true");
    assert_eq!(warnings(&ours), [""; 0]);

    warned(
        &node().variable("TINYMQ_CLUSTER_HTTP_ADVERTISE", "node-1:7800"),
        &["TINYMQ_CLUSTER_HTTP_ADVERTISE has no effect", "cluster.listen"],
    );

    let insecure = Process::default()
        .variable("TINYMQ_CLUSTER_ADDR", "127.0.0.1:7901")
        .variable("TINYMQ_CLUSTER_ALLOW_INSECURE", "true");
    assert!(matches!(cluster(&insecure).security, ClusterSecurity::Insecure));
}

#[test]
fn a_list_of_the_other_nodes_is_completed() {
    let process = node().variable("TINYMQ_CLUSTER_NODES", "10.0.0.2:7901,10.0.0.3:7901");
    assert_eq!(
        texts(&cluster(&process).seeds),
        ["10.0.0.2:7901", "10.0.0.3:7901", "10.0.0.1:7901"]
    );
    warned(
        &process,
        &[
            "TINYMQ_CLUSTER_NODES",
            "10.0.0.2:7901, 10.0.0.3:7901, 10.0.0.1:7901",
        ],
    );
    // What this node is to the others is not known here.
    check(
        &process.variable("HOLDFAST_CLUSTER_LISTEN", "0.0.0.0"),
        &[
            "not in cluster.seeds",
            "announces 0.0.0.0:7901",
            "TINYMQ_CLUSTER_NODES; ",
        ],
    );
}
