//! `holdfast cluster init`: makes the data directory of a stopped single node that of the first node of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use broker::OsRandom;
use clap::{Arg, ArgMatches, Command, value_parser};
use config::{NODE_FILE, NodeFile};
use journal::Layout;

use crate::node_file::{check_address, listen_for, secret, write};
use crate::stopped::{Failure, Stopped};

/// Describes the verb.
pub(crate) fn command() -> Command {
    Command::new("init")
        .about("Makes the data directory of a stopped single node that of the first node of a cluster")
        .after_help(
            "Nothing is lost, and it can be run again after a crash. The directory gets settings of its cluster, with a new \
             secret (cluster.toml): flags, environment and configuration file go before them. Start the node then, and let \
             other machines join it with `holdfast cluster token` and `holdfast cluster join`.\n\n\
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
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("HOST:PORT")
                .help("Where it will listen for them; the advertised port at every address of the machine if left out"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .help("What people call the cluster: its cluster.name"),
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
    check_address("--advertise", advertise, &stopped.root)?;
    let listen = matches.get_one::<String>("listen").cloned();
    let listen = listen.unwrap_or_else(|| listen_for(advertise));
    check_address("--listen", &listen, &stopped.root)?;
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
    // Before the directory is that of a node, so that it can always be started as one.
    let name = matches.get_one::<String>("name");
    let file = NodeFile {
        name: name.map_or("", String::as_str),
        listen: &listen,
        advertise,
        seeds: std::slice::from_ref(advertise),
        secret: &secret(&OsRandom),
    };
    write(&stopped.root, &file)?;
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
         next: start it with `holdfast serve --data-dir {directory}`: it is set as the only node so far, with a new secret \
         ({NODE_FILE}); then `holdfast cluster token URL` on it, and `holdfast cluster join URL --token TOKEN` on other machines"
    ))
}
