//! The options of `[cluster]`.

use std::time::Duration;

use crate::declared::{Alias, Declared, Kind};
use crate::election_silence::ElectionSilence;

pub(crate) static NAME: Declared = Declared {
    name: "cluster.name",
    kind: Kind::Text("a name"),
    default: Some(""),
    variable: Some("HOLDFAST_CLUSTER_NAME"),
    flag: Some("cluster-name"),
    doc: "What people call the cluster. `holdfast cluster status` shows it, and nothing depends on it; without one the \
          cluster's id is shown.",
    ..Declared::BLANK
};

pub(crate) static LISTEN: Declared = Declared {
    name: "cluster.listen",
    kind: Kind::NodeAddress,
    variable: Some("HOLDFAST_CLUSTER_LISTEN"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_ADDR",
        words: &[],
    }],
    flag: Some("cluster-listen"),
    doc: "The address that this node listens on for the other nodes of its cluster. It turns clustering on; no other \
          option of the section may be set without it. `0.0.0.0:7901` is every address of the machine.",
    ..Declared::BLANK
};

pub(crate) static ADVERTISE: Declared = Declared {
    name: "cluster.advertise",
    kind: Kind::NodeAddress,
    variable: Some("HOLDFAST_CLUSTER_ADVERTISE"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_SELF",
        words: &[],
    }],
    flag: Some("cluster-advertise"),
    doc: "The address under which the other nodes reach this one, such as `holdfast-0.holdfast-headless:7901`. Without \
          it the address of `cluster.listen` is announced, which is of no use when that is every address of the \
          machine, as it mostly is in a container.",
    ..Declared::BLANK
};

pub(crate) static SEEDS: Declared = Declared {
    name: "cluster.seeds",
    kind: Kind::NodeAddresses,
    variable: Some("HOLDFAST_CLUSTER_SEEDS"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_NODES",
        words: &[],
    }],
    flag: Some("cluster-seeds"),
    doc: "The advertised addresses of all nodes that form the cluster, this node among them, the same on every node; \
          each is written once. A list that came by TINYMQ_CLUSTER_NODES may leave out this node. A node \
          with an empty data directory and without seeds finds no cluster.",
    ..Declared::BLANK
};

pub(crate) static SECRET: Declared = Declared {
    name: "cluster.secret",
    kind: Kind::Secret,
    variable: Some("HOLDFAST_CLUSTER_SECRET"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_SECRET",
        words: &[],
    }],
    doc: "What the nodes of a cluster prove to each other that they know, of at least 32 bytes; a shorter one is taken \
          from TINYMQ_CLUSTER_SECRET alone, with a warning. A cluster has a secret or certificates: without both it \
          does not start, and with both the certificates count. A line break at its end is not part of it.",
    ..Declared::BLANK
};

pub(crate) static SECRET_PREVIOUS: Declared = Declared {
    name: "cluster.secret_previous",
    kind: Kind::Secret,
    variable: Some("HOLDFAST_CLUSTER_SECRET_PREVIOUS"),
    doc: "The secret that is being replaced: nodes that still have it are let in. To change the secret, restart one node \
          after the other with the new `cluster.secret` and the old one here, and then each without the old one.",
    ..Declared::BLANK
};

pub(crate) static ALLOW_INSECURE: Declared = Declared {
    name: "cluster.allow_insecure",
    kind: Kind::Boolean,
    default: Some("false"),
    variable: Some("HOLDFAST_CLUSTER_ALLOW_INSECURE"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_ALLOW_INSECURE",
        words: &[],
    }],
    flag: Some("cluster-allow-insecure"),
    doc: "Whether a cluster may start without a secret and without certificates, for tests on one machine: whoever \
          reaches its port reads and changes everything.",
    ..Declared::BLANK
};

pub(crate) static TLS_CA: Declared = Declared {
    name: "cluster.tls_ca",
    kind: Kind::Text("a path"),
    variable: Some("HOLDFAST_CLUSTER_TLS_CA"),
    flag: Some("cluster-tls-ca"),
    doc: "The certificate, in PEM, of the authority that issued the certificates of all nodes. With it, \
          `cluster.tls_cert` and `cluster.tls_key` the nodes speak TLS and prove themselves to each other by their \
          certificates.",
    ..Declared::BLANK
};

pub(crate) static TLS_CERT: Declared = Declared {
    name: "cluster.tls_cert",
    kind: Kind::Text("a path"),
    variable: Some("HOLDFAST_CLUSTER_TLS_CERT"),
    flag: Some("cluster-tls-cert"),
    doc: "The certificate of this node, in PEM.",
    ..Declared::BLANK
};

pub(crate) static TLS_KEY: Declared = Declared {
    name: "cluster.tls_key",
    kind: Kind::Text("a path"),
    variable: Some("HOLDFAST_CLUSTER_TLS_KEY"),
    flag: Some("cluster-tls-key"),
    doc: "The private key of `cluster.tls_cert`, in PEM.",
    ..Declared::BLANK
};

pub(crate) static ELECTION_SILENCE: Declared = Declared {
    name: "cluster.election_silence",
    kind: Kind::Text(ElectionSilence::FORM),
    default: Some("0.9s-1.2s"),
    variable: Some("HOLDFAST_CLUSTER_ELECTION_SILENCE"),
    flag: Some("cluster-election-silence"),
    doc: "How long a node hears nothing of the leader before it stands for election: a random time between these two. \
          Longer ones let slow machines and networks be, and leave the cluster without a leader for as long when one \
          is lost.",
    ..Declared::BLANK
};

pub(crate) static REPLICATE_TIMEOUT: Declared = Declared {
    name: "cluster.replicate_timeout",
    kind: Kind::Duration(Duration::from_millis(10)..=Duration::from_hours(24)),
    default: Some("5s"),
    variable: Some("HOLDFAST_CLUSTER_REPLICATE_TIMEOUT"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_REPLICATE_TIMEOUT",
        words: &[],
    }],
    flag: Some("cluster-replicate-timeout"),
    doc: "How long a request waits for most nodes to have what it changes. After it the request is answered with an \
          error that says that its outcome is not known, and never as done.",
    ..Declared::BLANK
};

pub(crate) static PREFERRED_LEADER: Declared = Declared {
    name: "cluster.preferred_leader",
    kind: Kind::Boolean,
    default: Some("false"),
    variable: Some("HOLDFAST_CLUSTER_PREFERRED_LEADER"),
    aliases: &[Alias {
        variable: "TINYMQ_CLUSTER_LEADER",
        words: &[],
    }],
    flag: Some("cluster-preferred-leader"),
    doc: "Whether this node asks for the leadership, every 5 s, while another node has it. Elections stay on: another node \
          leads while this one is away. At most one node should have it.",
    ..Declared::BLANK
};

/// Variables of other programs that do nothing here, each with the reason.
pub(crate) static WITHOUT_EFFECT: [(&str, &str); 1] = [(
    "TINYMQ_CLUSTER_HTTP_ADVERTISE",
    "the other nodes pass requests on to the leader over `cluster.listen`, and send no client elsewhere",
)];
