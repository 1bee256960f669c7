//! The three processes, and what can be done to them.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use compat::{Launch, Scratch, Server, wait_for};
use serde_json::Value;

use crate::proxy::Directory;
use crate::{NODES, Shared};

/// Longest that anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
const SECRET: &str = "a secret of the chaos that is long enough";

/// Three nodes of a cluster.
pub(crate) struct Nodes {
    servers: Vec<Server>,
    /// Where the files lie that make disks and clocks fail.
    home: Scratch,
    shared: Arc<Shared>,
}

/// Returns the addresses on which nodes listen, and those of their proxies: of this process, on the loopback network.
fn addresses() -> [(SocketAddr, SocketAddr); NODES] {
    let pid = std::process::id();
    let (high, low) = (u8::try_from(pid / 250 % 250 + 1), u8::try_from(pid % 250));
    let (high, low) = (high.unwrap_or(1), low.unwrap_or(1));
    let at = |last: u8| SocketAddr::from(([127, high, low, last], 7901));
    [(at(201), at(211)), (at(202), at(212)), (at(203), at(213))]
}

impl Nodes {
    /// Starts three nodes, which form a cluster.
    pub(crate) fn form(shared: &Arc<Shared>) -> Result<Self> {
        let home = Scratch::new("chaos")?;
        let addresses = addresses();
        let seeds = addresses.map(|(_, proxy)| proxy.to_string()).join(",");
        let mut servers = Vec::new();
        for (node, (listen, proxy)) in addresses.into_iter().enumerate() {
            shared.network.proxy(node, proxy, listen)?;
            let launch = Launch::dev()
                .variable("HOLDFAST_CLUSTER_LISTEN", &listen.to_string())
                .variable("HOLDFAST_CLUSTER_ADVERTISE", &proxy.to_string())
                .variable("HOLDFAST_CLUSTER_SEEDS", &seeds)
                .variable("HOLDFAST_CLUSTER_SECRET", SECRET)
                // So that snapshots are taken and sent while the run lasts.
                .variable("HOLDFAST_SNAPSHOT_LOG_BYTES", "256KiB")
                .variable("HOLDFAST_SEGMENT_BYTES", "1MiB")
                .variable("HOLDFAST_FAULTS", &faults_file(&home, node));
            servers.push(Server::start_unready(launch)?);
        }
        let mut nodes = Self {
            servers,
            home,
            shared: Arc::clone(shared),
        };
        for node in 0..NODES {
            nodes.shared.network.set_pid(node, nodes.servers[node].pid());
        }
        for node in 0..NODES {
            nodes.is_back(node)?;
        }
        Ok(nodes)
    }

    fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    fn list(&self, node: usize, address: Option<SocketAddr>) {
        self.directory().lock().expect("no client panics with it")[node] = address;
    }

    /// Waits until a node can serve, and tells clients of it.
    pub(crate) fn is_back(&mut self, node: usize) -> Result<()> {
        self.servers[node]
            .wait_until_ready()
            .with_context(|| self.servers[node].log_tail())?;
        self.list(node, Some(self.servers[node].sqs_address()));
        Ok(())
    }

    /// Returns the node that leads.
    pub(crate) fn leader(&self) -> Result<usize> {
        wait_for("a leader", LIMIT, || {
            for (node, server) in self.servers.iter().enumerate() {
                if self.directory().lock().expect("no client panics with it")[node].is_none() {
                    continue;
                }
                let Ok(reply) = server.get("/api/cluster/status") else {
                    continue;
                };
                let status: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                if status["role"] == "leader" {
                    return Ok(Some(node));
                }
            }
            Ok(None)
        })
    }

    /// Returns a node that follows.
    pub(crate) fn follower(&self) -> Result<usize> {
        Ok((self.leader()? + 1) % NODES)
    }

    /// Kills a node as a power cut of its machine would, but for what the operating system has not written.
    pub(crate) fn kill(&mut self, node: usize) -> Result<()> {
        self.servers[node].kill()?;
        self.list(node, None);
        Ok(())
    }

    /// Starts a node that has ended.
    pub(crate) fn restart(&mut self, node: usize) -> Result<()> {
        self.restart_unready(node)?;
        self.is_back(node)
    }

    /// The same, without waiting until it can serve.
    pub(crate) fn restart_unready(&mut self, node: usize) -> Result<()> {
        self.servers[node].restart_unready()?;
        self.shared.network.set_pid(node, self.servers[node].pid());
        Ok(())
    }

    /// Waits until all nodes can serve and have a vote: a further one that loses its disk would be one too many.
    pub(crate) fn wait_for_all(&mut self) -> Result<()> {
        (0..NODES).try_for_each(|node| self.is_back(node))?;
        for server in &self.servers {
            wait_for("a node to get its vote", LIMIT, || {
                let Ok(reply) = server.get("/api/cluster/status") else {
                    return Ok(None);
                };
                let status: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                let has_vote = status["role"].as_str().is_some_and(|role| role != "learner");
                Ok(has_vote.then_some(()))
            })?;
        }
        Ok(())
    }

    /// Lets a node end in order, which hands leadership over.
    pub(crate) fn stop(&mut self, node: usize) -> Result<()> {
        self.list(node, None);
        let status = self.servers[node].stop()?;
        ensure!(
            status.success(),
            "a node that was asked to stop ended with {status}"
        );
        Ok(())
    }

    /// Makes a node stand still.
    pub(crate) fn suspend(&self, node: usize) -> Result<()> {
        self.servers[node].suspend()
    }

    /// Lets it go on.
    pub(crate) fn resume(&self, node: usize) -> Result<()> {
        self.servers[node].resume()
    }

    /// Waits until a node has ended by itself.
    pub(crate) fn wait_for_exit(&mut self, node: usize) -> Result<()> {
        let status = self.servers[node].wait_for_exit()?;
        self.list(node, None);
        ensure!(!status.success(), "the node ended in order: {status}");
        Ok(())
    }

    /// Empties the directory of a node that has ended.
    pub(crate) fn wipe(&self, node: usize) -> Result<()> {
        Ok(fs::remove_dir_all(self.servers[node].data_dir())?)
    }

    /// Changes one bit in the middle of the oldest file of a node's log.
    pub(crate) fn flip_bit(&self, node: usize) -> Result<()> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(self.servers[node].data_dir())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "seg") {
                segments.push(path);
            }
        }
        segments.sort();
        let Some(oldest) = segments.first() else {
            bail!("no segment in {}", self.servers[node].data_dir().display());
        };
        let mut bytes = fs::read(oldest)?;
        let middle = bytes.len() / 4;
        bytes[middle] ^= 0x10;
        Ok(fs::write(oldest, bytes)?)
    }

    /// Makes the disk or the clock of a node fail.
    pub(crate) fn fail(&self, node: usize, faults: &str) -> Result<()> {
        let (new, file) = (self.home.path().join("new"), faults_file(&self.home, node));
        fs::write(&new, faults)?;
        Ok(fs::rename(new, file)?)
    }

    /// Waits for a while.
    pub(crate) fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            thread::sleep(left);
        }
    }

    /// Whether a node still runs.
    pub(crate) fn is_running(&mut self, node: usize) -> Result<bool> {
        self.servers[node].is_running()
    }

    /// Returns what a node wrote to its log.
    pub(crate) fn log(&self, node: usize) -> Vec<u8> {
        self.servers[node].log()
    }
}

fn faults_file(home: &Scratch, node: usize) -> String {
    home.path()
        .join(format!("faults-{node}.toml"))
        .display()
        .to_string()
}
