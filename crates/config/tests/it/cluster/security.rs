//! Secrets and certificates: which count, how good they must be, that they are not shown.

use config::{ClusterSecurity, ConfigError};

use super::{OTHER_SECRET, SECRET, cluster, node, secrets, warned, with_certificates};
use crate::process::{Process, refusal};
use crate::refusals::check;

#[test]
fn a_cluster_that_everybody_could_enter_does_not_start() {
    let open = Process::default().variable("HOLDFAST_CLUSTER_LISTEN", "10.0.0.1");
    check(
        &open,
        &[
            "no secret and no certificates",
            "openssl rand -hex 32",
            "HOLDFAST_CLUSTER_ALLOW_INSECURE=true",
            "environment variable HOLDFAST_CLUSTER_LISTEN",
        ],
    );
    let open = open.flag("cluster-allow-insecure", "true");
    assert!(matches!(cluster(&open).security, ClusterSecurity::Insecure));
    warned(&open, &["INSECURE CLUSTER"]);
    // Left behind, it would open the cluster on the day that the secret is lost.
    warned(
        &node().flag("cluster-allow-insecure", "true"),
        &["cluster.allow_insecure has no effect now"],
    );
}

#[test]
fn secrets_have_a_length() {
    let short = &SECRET[1..];
    check(
        &node().variable("HOLDFAST_CLUSTER_SECRET", short),
        &["cluster.secret is too short", "31 bytes", "openssl rand -hex 32"],
    );
    check(
        &node()
            .variable("HOLDFAST_CLUSTER_SECRET", "file:/s")
            .file("/s", &format!("{short}\n")),
        &["cluster.secret is too short"],
    );
    let theirs = Process::default()
        .variable("TINYMQ_CLUSTER_ADDR", "10.0.0.1:7901")
        .variable("TINYMQ_CLUSTER_SECRET", short);
    assert_eq!(secrets(&cluster(&theirs)), (short.as_bytes(), None));
    warned(
        &theirs,
        &["WEAK CLUSTER SECRET", "TINYMQ_CLUSTER_SECRET has 31 bytes"],
    );
    // Both names: ours decides.
    check(
        &theirs.variable("HOLDFAST_CLUSTER_SECRET", short),
        &["cluster.secret is too short"],
    );
    // Who replaces a short one must be able to name it.
    let replaced = node().variable("HOLDFAST_CLUSTER_SECRET_PREVIOUS", "short");
    assert_eq!(
        secrets(&cluster(&replaced)),
        (SECRET.as_bytes(), Some(b"short".as_slice()))
    );
    warned(&replaced, &["cluster.secret_previous has 5 bytes"]);
    check(
        &Process::default()
            .variable("HOLDFAST_CLUSTER_LISTEN", "10.0.0.1")
            .variable("HOLDFAST_CLUSTER_ALLOW_INSECURE", "true")
            .variable("HOLDFAST_CLUSTER_SECRET_PREVIOUS", SECRET),
        &["cluster.secret_previous is set and cluster.secret is not"],
    );
    for (text, cause) in [
        ("file:/none", "/none: "),
        ("env:NONE", "variable NONE is not set"),
        ("file:/empty", "it is empty"),
    ] {
        let process = node().file("/empty", "\n");
        check(
            &process.variable("HOLDFAST_CLUSTER_SECRET", text),
            &["cluster.secret cannot be read", cause],
        );
    }
    check(
        &Process::default().config("[cluster]\nlisten = 'a'\nsecret = ''"),
        &["it is empty", "line 3"],
    );
}

#[test]
fn certificates_count_more_than_a_secret_and_are_three() {
    let certified = with_certificates(node());
    assert!(matches!(
        cluster(&certified).security,
        ClusterSecurity::Tls { .. }
    ));
    warned(&certified, &["cluster.secret is not used", "by certificates"]);
    for missing in ["CA", "CERT", "KEY"] {
        let process = with_certificates(node()).variable(&format!("HOLDFAST_CLUSTER_TLS_{missing}"), "");
        let option = format!("cluster.tls_{}", missing.to_ascii_lowercase());
        check(
            &process,
            &[&format!("error: {option} must be set too"), "all three"],
        );
    }
    check(
        &node().variable("HOLDFAST_CLUSTER_TLS_KEY", "/key.pem"),
        &[
            "cluster.tls_ca and cluster.tls_cert must be set too",
            "HOLDFAST_CLUSTER_TLS_KEY",
        ],
    );
}

#[test]
fn secrets_are_never_shown() {
    let process = node().variable("HOLDFAST_CLUSTER_SECRET_PREVIOUS", OTHER_SECRET);
    let printed = format!("{:?}", process.load().unwrap());
    assert!(
        !printed.contains(SECRET) && !printed.contains(OTHER_SECRET),
        "{printed}"
    );
    let shown = |process: &Process| -> Result<String, ConfigError> {
        let options = process.load()?;
        let setting = options
            .origins()
            .find(|setting| setting.option.name == "cluster.secret");
        Ok(setting.unwrap().text.clone())
    };
    assert_eq!(shown(&node()).as_deref(), Ok("(secret)"));
    assert_eq!(shown(&Process::default()).as_deref(), Ok(""));
    let elsewhere = node()
        .variable("HOLDFAST_CLUSTER_SECRET", "env:ELSEWHERE")
        .variable("ELSEWHERE", SECRET);
    assert_eq!(shown(&elsewhere).as_deref(), Ok("env:ELSEWHERE"));
    let text = refusal(&node().variable("TINYMQ_CLUSTER_SECRET", OTHER_SECRET));
    assert!(
        text.contains("cluster.secret is set twice")
            && !text.contains(SECRET)
            && !text.contains(OTHER_SECRET),
        "{text}"
    );
    let file = format!("[cluster]\nlisten = 'a'\nsecret = \"{SECRET}");
    let text = refusal(&Process::default().config(&file));
    assert!(!text.contains(SECRET), "{text}");
}
