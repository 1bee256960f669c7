//! The examples of the README, run as they are written against a server started as it says.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use compat::{Server, run_example};

/// The address in the examples, which stands for the server of the test.
const ADDRESS: &str = "http://127.0.0.1:4100";

/// Runs every example in `language` that speaks to the server, and returns what they printed.
fn run_all(language: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let fence = format!("```{language}\n");
    let blocks = readme
        .split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let server = Server::dev()?;
    let (mut printed, mut count) = (String::new(), 0);
    // The commands that start the server speak to no address.
    for example in blocks.filter(|block| block.contains(ADDRESS) && !block.contains("cargo")) {
        printed += &run_example(&server, language, &example.replace(ADDRESS, &server.sqs_url()))?;
        count += 1;
    }
    ensure!(
        count > 0,
        "the README has no {language} example that names {ADDRESS}"
    );
    Ok(printed)
}

#[test]
fn the_boto3_example_works_as_written() -> Result<()> {
    let printed = run_all("python")?;
    ensure!(printed.contains("hello"), "it printed {printed:?}");
    Ok(())
}

#[test]
fn the_aws_cli_example_works_as_written() -> Result<()> {
    let printed = run_all("sh")?;
    ensure!(
        printed.contains("hello") && printed.contains("QueueUrl"),
        "it printed {printed:?}"
    );
    Ok(())
}
