//! The file by which scripts find a server that chose its own ports.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

/// The addresses of both ports, as URLs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Endpoints {
    pub(crate) sqs: String,
    pub(crate) control: String,
}

const FILE: &str = "endpoints.json";
const TEMPORARY: &str = "endpoints.json.tmp";

impl Endpoints {
    pub(crate) fn new(sqs: SocketAddr, control: SocketAddr) -> Self {
        Self {
            sqs: format!("http://{sqs}"),
            control: format!("http://{control}"),
        }
    }

    /// Takes away the file of an earlier run: its ports are not these.
    pub(crate) fn remove(data_dir: &Path) -> io::Result<()> {
        match fs::remove_file(data_dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes the file whole or not at all.
    pub(crate) fn write(&self, data_dir: &Path) -> io::Result<()> {
        let temporary = data_dir.join(TEMPORARY);
        let mut file = fs::File::create(&temporary)?;
        file.write_all(serde_json::to_string(self).map_err(io::Error::other)?.as_bytes())?;
        drop(file);
        fs::rename(temporary, data_dir.join(FILE))
    }
}
