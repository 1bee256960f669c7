//! `holdfast cluster init`: makes the data directory of a stopped single node that of the first node of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use broker::OsRandom;
use clap::{Arg, ArgMatches, Command, value_parser};
use journal::Layout;

use crate::stopped::{Failure, Stopped};

/// Describes the verb.
pub(crate) fn command() -> Command {
    Command::new("init")
        .about("Makes the data directory of a stopped single node that of the first node of a cluster")
        .after_help(
            "Nothing is lost, and it can be run again after a crash. Start the node with the settings of a cluster \
             then, and others with its address among their seeds; give them a vote with `holdfast cluster add`.\n\n\
             Exit codes: 0 done, or it is the directory of a node of a cluster already; 5 in use by a server, or \
             empty; 4 no such directory; 1 it cannot be read.",
        )
        .arg(
            Arg::new("directory")
                .long("data-dir")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The data directory"),
        )
        .arg(
            Arg::new("advertise")
                .long("advertise")
                .value_name("HOST:PORT")
                .required(true)
                .help("Where other nodes will reach this one: its cluster.advertise"),
        )
}

/// Runs the verb.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    match converted(matches) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(false),
    }
}

fn converted(matches: &ArgMatches) -> Result<String, Failure> {
    let stopped = Stopped::open(matches)?;
    let directory = stopped.path();
    let advertise = matches.get_one::<String>("advertise").expect("clap requires it");
    check_address(advertise).map_err(|cause| Failure {
        code: Failure::USAGE,
        what: format!("--advertise {advertise} is no address"),
        cause,
        place: directory.clone(),
        hint: "give a host and a port, such as 10.0.1.11:7901".to_owned(),
    })?;
    let of_journal = |error| Failure::of_journal(&directory, error);
    let empty = || Failure {
        code: Failure::CONFLICT,
        what: format!("{directory} was never used"),
        cause: "there is nothing to make a cluster of".to_owned(),
        place: directory.clone(),
        hint: "start the server with its own address alone as cluster.seeds: that forms a cluster of one"
            .to_owned(),
    };
    match Layout::of(&*stopped.disk).map_err(of_journal)? {
        Some(Layout::Local) => {}
        Some(Layout::Replicated) => {
            return Ok(format!(
                "{directory} is that of a node of a cluster already; nothing was changed"
            ));
        }
        None => return Err(empty()),
    }
    let mut first = None;
    let index = broker::convert(stopped.disk, stopped.lock, |index| {
        let node = cluster::first_node(index, advertise, &OsRandom)?;
        first = Some((node.node, node.cluster));
        Some((node.snapshot, node.mark))
    });
    let (Some(index), Some((node, id))) = (index.map_err(of_journal)?, first) else {
        return Err(empty());
    };
    let cluster: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(
        "{directory} is now that of node {node:016x}, the first of cluster {cluster}, with everything up to entry {index}\n  \
         next: start it with cluster.advertise = {advertise}, then others with {advertise} among their seeds, and give them \
         a vote with `holdfast cluster add`"
    ))
}

fn check_address(address: &str) -> Result<(), String> {
    let (host, port) = address.rsplit_once(':').ok_or("it has no port")?;
    match port.parse::<u16>() {
        Ok(port) if port > 0 && !host.is_empty() => Ok(()),
        Ok(_) | Err(_) => Err("it needs a host, and a port from 1 to 65535".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (address, is_one) in [
            ("10.0.0.1:7901", true),
            ("holdfast-0.holdfast:7901", true),
            ("[::1]:7901", true),
            ("7901", false),
            (":7901", false),
            ("host:0", false),
            ("host:65536", false),
            ("", false),
        ] {
            assert_eq!(check_address(address).is_ok(), is_one, "{address:?}");
        }
    }
}
