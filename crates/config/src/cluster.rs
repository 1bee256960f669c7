//! Checked options of a cluster.

mod addresses;
mod security;

use std::time::Duration;

use crate::election_silence::ElectionSilence;
use crate::error::ConfigError;
use crate::node_address::NodeAddress;
use crate::options::{Environment, ReadFile};
use crate::raw::Raw;
use crate::table::cluster as table;

pub use security::ClusterSecurity;

/// What a node of a cluster is started with.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// What people call the cluster; nothing if they do not.
    pub name: String,
    /// The address to listen on for other nodes.
    pub listen: NodeAddress,
    /// The address that this node announces. It is every address of the machine if that is listened on and no other
    /// was given; other nodes cannot reach that.
    pub advertise: NodeAddress,
    /// The announced addresses of all nodes that form the cluster, `advertise` among them, each once; or none.
    pub seeds: Vec<NodeAddress>,
    /// How nodes prove themselves to each other.
    pub security: ClusterSecurity,
    /// The silence after which a follower stands for election.
    pub election_silence: ElectionSilence,
    /// How long a request waits for its commit, 10 ms to 24 h; after it the outcome is not known.
    pub replicate_timeout: Duration,
    /// Whether this node leads when it can.
    pub preferred_leader: bool,
}

/// Checks the section, and says what is allowed and probably not meant.
pub(crate) fn check(
    raw: &Raw,
    environment: Environment<'_>,
    read_file: ReadFile<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<ClusterOptions>, ConfigError> {
    for (variable, reason) in &table::WITHOUT_EFFECT {
        if environment(variable).is_some_and(|text| !text.trim().is_empty()) {
            warnings.push(format!("{variable} has no effect: {reason}"));
        }
    }
    let Some(listen) = raw.parse_given(&table::LISTEN, NodeAddress::parse)? else {
        return refuse_without_listen(raw).map(|()| None);
    };
    let advertise = addresses::advertise(raw, &listen, warnings)?;
    let seeds = addresses::seeds(raw, &advertise, warnings)?;
    let security = security::check(raw, environment, read_file, warnings)?;
    let preferred_leader = raw.boolean(&table::PREFERRED_LEADER)?;
    if let Some(variable) = raw.alias(&table::PREFERRED_LEADER).filter(|_| preferred_leader) {
        warnings.push(format!(
            "{variable} makes this node the preferred leader and no more: elections stay on, and another node leads \
             while this one is away"
        ));
    }
    Ok(Some(ClusterOptions {
        name: raw.text(&table::NAME).unwrap_or_default().to_owned(),
        listen,
        advertise,
        seeds,
        security,
        election_silence: raw.parse(&table::ELECTION_SILENCE, ElectionSilence::parse)?,
        replicate_timeout: raw.duration(&table::REPLICATE_TIMEOUT)?,
        preferred_leader,
    }))
}

/// Refuses an option that would do nothing: whoever sets it believes to have a cluster.
fn refuse_without_listen(raw: &Raw) -> Result<(), ConfigError> {
    let Some(option) = raw.asked_for("cluster").next() else {
        return Ok(());
    };
    let name = option.name;
    Err(ConfigError::new(
        format!("{name} is set and cluster.listen is not"),
        "cluster.listen turns clustering on, and without it the server is alone",
        format!("set cluster.listen, for example to 0.0.0.0:7901, or leave out {name}"),
    )
    .at(raw.origin(option)))
}
