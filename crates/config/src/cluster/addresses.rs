//! Which address a node announces, and with whom it forms a cluster.

use crate::error::ConfigError;
use crate::node_address::NodeAddress;
use crate::raw::Raw;
use crate::table::cluster as table;

/// Most nodes that form a cluster together.
const SEEDS_MAX: usize = 31;

/// Returns the address that this node announces.
pub(crate) fn advertise(
    raw: &Raw,
    listen: &NodeAddress,
    warnings: &mut Vec<String>,
) -> Result<NodeAddress, ConfigError> {
    let Some(advertise) = raw.parse_given(&table::ADVERTISE, NodeAddress::parse)? else {
        if listen.is_unspecified() {
            warnings.push(format!(
                "this node announces {listen}, where no other node reaches it: set cluster.advertise to the address \
                 that others reach it under, such as holdfast-0.holdfast-headless:7901"
            ));
        }
        return Ok(listen.clone());
    };
    if advertise.is_unspecified() {
        return Err(ConfigError::new(
            format!("cluster.advertise cannot be {advertise}"),
            "it is every address of a machine, and other nodes would look for this one on their own",
            "give the name or the address under which other nodes reach this one",
        )
        .at(raw.origin(&table::ADVERTISE)));
    }
    Ok(advertise)
}

/// Returns the nodes that form the cluster, this one among them, or none.
pub(crate) fn seeds(
    raw: &Raw,
    advertise: &NodeAddress,
    warnings: &mut Vec<String>,
) -> Result<Vec<NodeAddress>, ConfigError> {
    let mut seeds = raw
        .parse_given(&table::SEEDS, NodeAddress::parse_list)?
        .unwrap_or_default();
    check_each(raw, &seeds)?;
    if seeds.is_empty() || seeds.contains(advertise) {
        return Ok(seeds);
    }
    // The lists of that program are of the other nodes. With this one each node has the same list.
    if let Some(variable) = raw.alias(&table::SEEDS).filter(|_| !advertise.is_unspecified()) {
        seeds.push(advertise.clone());
        warnings.push(format!(
            "{variable} does not name this node, so the cluster is formed of {}: if one of the others is this node \
             under another name, set cluster.advertise to that name",
            list(&seeds)
        ));
        return Ok(seeds);
    }
    let advertised_by = match raw.given(&table::ADVERTISE) {
        Some(_) => &table::ADVERTISE,
        None => &table::LISTEN,
    };
    Err(ConfigError::new(
        "this node is not in cluster.seeds",
        format!("it announces {advertise}, and the seeds are {}", list(&seeds)),
        "set cluster.advertise to the seed that is this node, or add this node to the seeds of all nodes",
    )
    .at(raw.origin(&table::SEEDS))
    .at(raw.origin(advertised_by)))
}

fn check_each(raw: &Raw, seeds: &[NodeAddress]) -> Result<(), ConfigError> {
    let refuse = |what: String, cause: &str, hint: &str| {
        Err(ConfigError::new(what, cause, hint).at(raw.origin(&table::SEEDS)))
    };
    for (i, seed) in seeds.iter().enumerate() {
        if seed.is_unspecified() {
            return refuse(
                format!("cluster.seeds cannot name {seed}"),
                "it is every address of a machine, and no other node is reached there",
                "give the address that the node advertises",
            );
        }
        if seeds[..i].contains(seed) {
            return refuse(
                format!("cluster.seeds names {seed} twice"),
                "every node of the cluster is in the list once",
                "remove one of the two, or correct it to the node that is meant",
            );
        }
    }
    if seeds.len() > SEEDS_MAX {
        return refuse(
            format!("cluster.seeds names {} nodes", seeds.len()),
            &format!("a cluster is formed of at most {SEEDS_MAX}"),
            "name three or five",
        );
    }
    Ok(())
}

fn list(addresses: &[NodeAddress]) -> String {
    let texts: Vec<String> = addresses.iter().map(NodeAddress::to_string).collect();
    texts.join(", ")
}
