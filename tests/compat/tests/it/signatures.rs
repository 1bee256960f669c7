//! SigV4 as boto3 makes it, right and wrong, against a server with keys.

use anyhow::Result;
use compat::{ACCESS_KEY_ID, ACCOUNT, Client, Launch, SECRET_ACCESS_KEY, Server, run_client};

#[test]
fn json_signatures_are_verified() -> Result<()> {
    check(Client::Boto3Json, "json")
}

#[test]
fn query_signatures_are_verified() -> Result<()> {
    check(Client::Boto3Query, "query")
}

fn check(client: Client, protocol: &str) -> Result<()> {
    let server = Server::start(Launch::with_keys())?;
    run_client(
        client,
        "signatures.py",
        &server,
        &[protocol, ACCESS_KEY_ID, SECRET_ACCESS_KEY, ACCOUNT],
    )
}
