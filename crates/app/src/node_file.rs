//! Writes what a data directory says of its node's cluster.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use broker::Random;
use config::{NODE_FILE, NodeFile};

use crate::stopped::Failure;

/// Writes the file, durably and for its owner alone. One that is there stays as it is.
pub(crate) fn write(directory: &Path, file: &NodeFile<'_>) -> Result<(), Failure> {
    let path = directory.join(NODE_FILE);
    let failed = |error: io::Error| Failure {
        code: Failure::FAILED,
        what: format!("cannot write {}", path.display()),
        cause: error.to_string(),
        place: directory.display().to_string(),
        hint: "run as the user that the server runs as, with room on the disk".to_owned(),
    };
    if path.exists() {
        return Ok(());
    }
    let partial = directory.join(format!("{NODE_FILE}.partial"));
    let written = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut out = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        out.write_all(file.text().as_bytes())?;
        out.sync_all()?;
        fs::rename(&partial, &path)?;
        fs::File::open(directory)?.sync_all()
    };
    written().map_err(failed)
}

/// Makes a secret for the nodes of a new cluster.
pub(crate) fn secret(random: &dyn Random) -> String {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses what is no address of a node.
pub(crate) fn check_address(flag: &str, address: &str, place: &Path) -> Result<(), Failure> {
    port(address).map(|_| ()).map_err(|cause| Failure {
        code: Failure::USAGE,
        what: format!("{flag} {address} is no address"),
        cause,
        place: place.display().to_string(),
        hint: "give a host and a port, such as 10.0.1.11:7901".to_owned(),
    })
}

/// Returns where a node listens that nobody told: its advertised port at every address of the machine.
pub(crate) fn listen_for(advertise: &str) -> String {
    format!("0.0.0.0:{}", port(advertise).unwrap_or(7901))
}

fn port(address: &str) -> Result<u16, String> {
    let (host, port) = address.rsplit_once(':').ok_or("it has no port")?;
    match port.parse::<u16>() {
        Ok(port) if port > 0 && !host.is_empty() => Ok(port),
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
            assert_eq!(port(address).is_ok(), is_one, "{address:?}");
        }
        assert_eq!(listen_for("10.0.0.1:7911"), "0.0.0.0:7911");
    }
}
