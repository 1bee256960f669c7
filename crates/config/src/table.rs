//! The table of options. A new option is a new entry here, a line in [`OPTIONS`] and a typed field in `options`.

pub(crate) mod cluster;

use crate::declared::{Alias, Declared, Kind};

const PORT_RANGE: Kind = Kind::Number {
    unit: "",
    range: 0..=65_535,
};

pub(crate) static DEV: Declared = Declared {
    name: "dev",
    in_file: false,
    flag: Some("dev"),
    doc: "Starts a server for development: any credentials are accepted, and unsigned requests too. An access key id \
          of 12 digits names the account; every other request acts for 000000000000. Only on a loopback address.",
    ..Declared::BLANK
};

pub(crate) static CONFIG: Declared = Declared {
    name: "config",
    in_file: false,
    kind: Kind::Text("a path"),
    variable: Some("HOLDFAST_CONFIG"),
    flag: Some("config"),
    doc: "The configuration file, in TOML. When none is named, `./holdfast.toml` is read if it is there, and else \
          `/etc/holdfast/holdfast.toml` if that is there.",
    ..Declared::BLANK
};

pub(crate) static FAULTS: Declared = Declared {
    name: "faults",
    in_file: false,
    kind: Kind::Text("a path"),
    variable: Some("HOLDFAST_FAULTS"),
    flag: Some("faults"),
    doc: "A file that says how the disk and the clock fail, for tests; only with `--dev`. Its form is in \
          [faults](faults.md).",
    ..Declared::BLANK
};

pub(crate) static BIND: Declared = Declared {
    name: "server.bind",
    kind: Kind::Text("an IP address"),
    default: Some("127.0.0.1"),
    variable: Some("HOLDFAST_BIND"),
    flag: Some("bind"),
    doc: "The address that both ports listen on. An address that other machines can reach needs keys in the \
          configuration file, and is refused with `--dev`.",
    ..Declared::BLANK
};

pub(crate) static PORT: Declared = Declared {
    name: "server.port",
    kind: PORT_RANGE,
    default: Some("4100"),
    variable: Some("HOLDFAST_PORT"),
    aliases: &[Alias {
        variable: "PORT",
        words: &[],
    }],
    flag: Some("port"),
    doc: "The port that clients of SQS connect to. 0 takes a free one, which `endpoints.json` in the data directory \
          and the first line of output then name.",
    ..Declared::BLANK
};

pub(crate) static CONTROL_PORT: Declared = Declared {
    name: "server.control_port",
    kind: PORT_RANGE,
    default: Some("4101"),
    variable: Some("HOLDFAST_CONTROL_PORT"),
    flag: Some("control-port"),
    doc: "The port for operators: health, readiness, metrics. 0 takes a free one.",
    ..Declared::BLANK
};

pub(crate) static REGION: Declared = Declared {
    name: "server.region",
    kind: Kind::Text("lower-case letters, digits and hyphens, at most 32"),
    default: Some("us-east-1"),
    variable: Some("HOLDFAST_REGION"),
    flag: Some("region"),
    doc: "The region that the server stands for. ARNs carry it, and signatures must be scoped to it.",
    ..Declared::BLANK
};

pub(crate) static PUBLIC_URL: Declared = Declared {
    name: "server.public_url",
    kind: Kind::Text("a URL of scheme, host and perhaps a path, such as \"https://sqs.example.org\""),
    variable: Some("HOLDFAST_PUBLIC_URL"),
    flag: Some("public-url"),
    doc: "What queue URLs begin with, for a server behind a proxy that changes the Host header. Without it they begin \
          with the Host that the client sent. With a path, as in `https://example.org/mq`, requests below that path are \
          those of the server; signatures cover the path, so the proxy must leave it in place. KEDA and the AWS \
          provider of Terraform take no queue URL with a path.",
    ..Declared::BLANK
};

pub(crate) static LIMITS: Declared = Declared {
    name: "server.limits",
    kind: Kind::Choice(&["strict", "relaxed"]),
    default: Some("strict"),
    default_dev: Some("relaxed"),
    variable: Some("HOLDFAST_LIMITS"),
    flag: Some("limits"),
    doc: "Whether the waits of SQS are kept: 60 seconds before a deleted queue's name can be used again, and between \
          two purges of one queue. `relaxed` drops them.",
    ..Declared::BLANK
};

pub(crate) static CONNECTIONS_MAX: Declared = Declared {
    name: "server.connections_max",
    kind: Kind::Number {
        unit: "of connections",
        range: 1..=1_000_000,
    },
    default: Some("10000"),
    variable: Some("HOLDFAST_CONNECTIONS_MAX"),
    doc: "How many client connections are open at once. A further one is closed at once.",
    ..Declared::BLANK
};

pub(crate) static REQUEST_BYTES_IN_FLIGHT_MAX: Declared = Declared {
    name: "server.request_bytes_in_flight_max",
    kind: Kind::Bytes(1 << 21..=1 << 40),
    default: Some("256MiB"),
    variable: Some("HOLDFAST_REQUEST_BYTES_IN_FLIGHT_MAX"),
    doc: "How many bytes of request bodies are held in memory at once. A request beyond them is answered 503 and may \
          be sent again.",
    ..Declared::BLANK
};

pub(crate) static DATA_DIR: Declared = Declared {
    name: "store.data_dir",
    kind: Kind::Text("a path"),
    default: Some("./data"),
    variable: Some("HOLDFAST_DATA_DIR"),
    flag: Some("data-dir"),
    doc: "The directory that holds everything the server keeps. It is made if it is not there, and belongs to one \
          server at a time.",
    ..Declared::BLANK
};

pub(crate) static FSYNC: Declared = Declared {
    name: "store.fsync",
    kind: Kind::Choice(&["always", "off"]),
    default: Some("always"),
    variable: Some("HOLDFAST_FSYNC"),
    aliases: &[Alias {
        variable: "TINYMQ_FSYNC",
        words: &[("true", "always"), ("false", "off")],
    }],
    flag: Some("fsync"),
    doc: "Whether a request is answered only when the disk has what it changed. `off` answers when the operating \
          system has it: faster, and a power cut can lose requests that were answered.",
    ..Declared::BLANK
};

pub(crate) static SEGMENT_BYTES: Declared = Declared {
    name: "store.segment_bytes",
    kind: Kind::Bytes(1 << 20..=1 << 30),
    default: Some("64MiB"),
    variable: Some("HOLDFAST_SEGMENT_BYTES"),
    doc: "The size of a file of the journal. Space is given back a file at a time.",
    ..Declared::BLANK
};

pub(crate) static SNAPSHOT_LOG_BYTES: Declared = Declared {
    name: "store.snapshot_log_bytes",
    kind: Kind::Bytes(1 << 16..=1 << 40),
    default: Some("128MiB"),
    variable: Some("HOLDFAST_SNAPSHOT_LOG_BYTES"),
    doc: "How much of the journal is written between two snapshots of the state, and read again at a start. A state \
          that takes more than this itself is stored less often.",
    ..Declared::BLANK
};

pub(crate) static RESERVE_BYTES: Declared = Declared {
    name: "store.reserve_bytes",
    kind: Kind::Bytes(0..=1 << 50),
    variable: Some("HOLDFAST_RESERVE_BYTES"),
    doc: "How much of the disk is kept free. Below it sends are refused with an error that clients try again after, \
          while messages are received and deleted as before, until there is room again. Without it the smaller of 2 \
          GiB and 15 % of the file system; with 0 the disk is used up, and then nothing can be changed any more. A file of the \
          journal is at most a sixteenth of it.",
    ..Declared::BLANK
};

pub(crate) static CACHE_BYTES: Declared = Declared {
    name: "store.cache_bytes",
    kind: Kind::Bytes(0..=1 << 40),
    default: Some("64MiB"),
    variable: Some("HOLDFAST_CACHE_BYTES"),
    doc: "How much memory is used to keep the newest message contents of up to 16 KiB at hand. All others are read from \
          the disk, or from what the operating system keeps of it in memory.",
    ..Declared::BLANK
};

pub(crate) static INBOX_COMMANDS_MAX: Declared = Declared {
    name: "broker.inbox_commands_max",
    kind: Kind::Number {
        unit: "of commands",
        range: 16..=1_000_000,
    },
    default: Some("8192"),
    variable: Some("HOLDFAST_INBOX_COMMANDS_MAX"),
    doc: "How many commands of one partition wait for their commit. A request beyond them is answered 503 and may be \
          sent again.",
    ..Declared::BLANK
};

pub(crate) static IN_FLIGHT_MAX: Declared = Declared {
    name: "broker.in_flight_max",
    kind: Kind::Number {
        unit: "of messages",
        range: 1..=100_000_000,
    },
    default: Some("120000"),
    variable: Some("HOLDFAST_IN_FLIGHT_MAX"),
    doc: "How many messages of one queue may be in flight. At the limit a short poll of a standard queue is refused \
          with OverLimit; FIFO queues and long polls get fewer messages or none.",
    ..Declared::BLANK
};

pub(crate) static DEDUPLICATION_IDS_MAX: Declared = Declared {
    name: "broker.deduplication_ids_max",
    kind: Kind::Number {
        unit: "of ids",
        range: 1..=1_000_000_000,
    },
    default: Some("4000000"),
    variable: Some("HOLDFAST_DEDUPLICATION_IDS_MAX"),
    doc: "How many deduplication ids of FIFO queues are in memory, of 64 bytes each. None is forgotten before its five \
          minutes are over: at the limit a send with an id is answered 503 and may be sent again.",
    ..Declared::BLANK
};

pub(crate) static BYTES_IN_FLIGHT_MAX: Declared = Declared {
    name: "broker.bytes_in_flight_max",
    kind: Kind::Bytes(1 << 21..=1 << 40),
    default: Some("256MiB"),
    variable: Some("HOLDFAST_BYTES_IN_FLIGHT_MAX"),
    doc: "How many bytes of message contents are in memory at once on their way in, until they are durable, and on their \
          way out, until the client has them. A send or receive beyond them is answered 503 and may be sent again; what \
          a receive took goes back.",
    ..Declared::BLANK
};

pub(crate) static TENANT_BYTES_IN_FLIGHT_MAX: Declared = Declared {
    name: "broker.tenant_bytes_in_flight_max",
    kind: Kind::Bytes(1 << 21..=1 << 40),
    default: Some("128MiB"),
    variable: Some("HOLDFAST_TENANT_BYTES_IN_FLIGHT_MAX"),
    doc: "The part of `broker.bytes_in_flight_max` that one tenant can use up.",
    ..Declared::BLANK
};

pub(crate) static ADMIN_TOKEN: Declared = Declared {
    name: "admin.token",
    kind: Kind::Secret,
    variable: Some("HOLDFAST_ADMIN_TOKEN"),
    aliases: &[Alias {
        variable: "SHARED_SQS_ADMIN_TOKEN",
        words: &[],
    }],
    doc: "What an operator sends as `Authorization: Bearer` to drain the server or to change its cluster. Without it, and \
          without `--dev`, which asks for none, nobody can. A line break at its end is not part of it.",
    ..Declared::BLANK
};

pub(crate) static LOG_LEVEL: Declared = Declared {
    name: "log.level",
    kind: Kind::Text(
        "\"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", also by part: \"info,broker=debug\"",
    ),
    default: Some("info"),
    variable: Some("HOLDFAST_LOG"),
    flag: Some("log"),
    doc: "What is logged. Bodies of messages and secrets never are.",
    ..Declared::BLANK
};

pub(crate) static LOG_FORMAT: Declared = Declared {
    name: "log.format",
    kind: Kind::Choice(&["text", "json"]),
    default: Some("text"),
    variable: Some("HOLDFAST_LOG_FORMAT"),
    flag: Some("log-format"),
    doc: "How the log is written to standard error: lines to read, or one JSON object a line.",
    ..Declared::BLANK
};

/// Every option.
pub static OPTIONS: [&Declared; 38] = [
    &DEV,
    &CONFIG,
    &FAULTS,
    &BIND,
    &PORT,
    &CONTROL_PORT,
    &REGION,
    &PUBLIC_URL,
    &LIMITS,
    &CONNECTIONS_MAX,
    &REQUEST_BYTES_IN_FLIGHT_MAX,
    &DATA_DIR,
    &FSYNC,
    &SEGMENT_BYTES,
    &SNAPSHOT_LOG_BYTES,
    &RESERVE_BYTES,
    &CACHE_BYTES,
    &INBOX_COMMANDS_MAX,
    &IN_FLIGHT_MAX,
    &DEDUPLICATION_IDS_MAX,
    &BYTES_IN_FLIGHT_MAX,
    &TENANT_BYTES_IN_FLIGHT_MAX,
    &cluster::NAME,
    &cluster::LISTEN,
    &cluster::ADVERTISE,
    &cluster::SEEDS,
    &cluster::SECRET,
    &cluster::SECRET_PREVIOUS,
    &cluster::ALLOW_INSECURE,
    &cluster::TLS_CA,
    &cluster::TLS_CERT,
    &cluster::TLS_KEY,
    &cluster::ELECTION_SILENCE,
    &cluster::REPLICATE_TIMEOUT,
    &cluster::PREFERRED_LEADER,
    &ADMIN_TOKEN,
    &LOG_LEVEL,
    &LOG_FORMAT,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_is_taken_twice_and_every_option_can_be_set() {
        let mut names = BTreeSet::new();
        let mut variables = BTreeSet::new();
        let mut flags = BTreeSet::new();
        for option in OPTIONS {
            assert!(names.insert(option.name), "{}", option.name);
            let aliases = option.aliases.iter().map(|alias| alias.variable);
            for variable in option.variable.into_iter().chain(aliases) {
                assert!(variables.insert(variable), "{variable}");
            }
            assert!(
                option.flag.is_none_or(|flag| flags.insert(flag)),
                "{}",
                option.name
            );
            assert_eq!(
                option.in_file,
                option.name.split('.').count() == 2,
                "{}",
                option.name
            );
            assert!(option.in_file || option.flag.is_some(), "{}", option.name);
            assert!(
                option.doc.ends_with('.') && option.summary().ends_with('.'),
                "{}",
                option.name
            );
            let is_ours = |variable: &str| variable.starts_with("HOLDFAST_");
            assert!(option.variable.is_none_or(is_ours), "{}", option.name);
            for alias in option.aliases {
                assert!(
                    option.variable.is_some() && !is_ours(alias.variable),
                    "{}",
                    option.name
                );
            }
        }
    }
}
