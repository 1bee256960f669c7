//! The SDKs of other languages, run as programs.
//!
//! `cargo xtask test` installs them and says where they are; nothing is installed or downloaded here.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::run_to_end;
use crate::server::Server;

const RUN_LIMIT: Duration = Duration::from_secs(120);

/// One installed SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The present boto3, which speaks the JSON protocol.
    Boto3Json,
    /// boto3 1.28.62, the last kind that speaks the Query protocol.
    Boto3Query,
    /// Celery and dramatiq, on the present boto3.
    PythonWorkers,
    /// `@aws-sdk/client-sqs` and `sqs-consumer` on Node.
    JavaScript,
}

impl Client {
    fn command(self) -> Result<Command> {
        match self {
            Self::Boto3Json => Ok(Command::new(installed("HOLDFAST_TEST_PYTHON")?)),
            Self::Boto3Query => Ok(Command::new(installed("HOLDFAST_TEST_PYTHON_QUERY")?)),
            Self::PythonWorkers => Ok(Command::new(installed("HOLDFAST_TEST_PYTHON_WORKERS")?)),
            Self::JavaScript => {
                let mut command = Command::new(installed("HOLDFAST_TEST_NODE")?);
                command.env("NODE_PATH", installed("HOLDFAST_TEST_NODE_MODULES")?);
                Ok(command)
            }
        }
    }
}

/// Runs a script of `clients/` against `server`; it must end with success.
pub fn run_client(client: Client, script: &str, server: &Server, arguments: &[&str]) -> Result<()> {
    let mut command = client.command()?;
    command
        .arg(folder().join(script))
        .arg(server.sqs_url())
        .arg(server.control_url())
        .args(arguments);
    without_aws_settings(&mut command);
    succeed(&mut command, server)
}

/// Checks the manifests of a folder, with the reference of all options beside them.
pub fn check_manifests(deploy: &Path, reference: &Path) -> Result<()> {
    let mut command = Client::PythonWorkers.command()?;
    command
        .arg(folder().join("manifests.py"))
        .arg(deploy)
        .arg(reference);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = run_to_end(&mut command, RUN_LIMIT)?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// Runs one command of the AWS CLI against `server` and returns what it printed.
pub fn aws_cli(server: &Server, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(installed("HOLDFAST_TEST_AWS")?);
    without_aws_settings(&mut command);
    // Version 1 of the CLI ignores AWS_ENDPOINT_URL for SQS and would call the real service.
    command.args([
        "--endpoint-url",
        &server.sqs_url(),
        "--region",
        "us-east-1",
        "--output",
        "json",
        "sqs",
    ]);
    command
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    let output = run_to_end(&mut command, RUN_LIMIT)?;
    ensure!(
        output.status.success(),
        "aws sqs {arguments:?} ended with {}:\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
        server.log_tail()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs an example of a document as a reader would, against `server`, and returns what it printed.
pub fn run_example(server: &Server, language: &str, example: &str) -> Result<String> {
    let mut command = match language {
        "python" => Client::Boto3Json.command()?,
        "sh" => shell()?,
        other => bail!("no way to run an example in {other}"),
    };
    without_aws_settings(&mut command);
    command.arg("-c").arg(example);
    let output = run_to_end(&mut command, RUN_LIMIT)?;
    ensure!(
        output.status.success(),
        "{example}\nended with {}:\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
        server.log_tail()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a shell that stops at the first failure and finds the AWS CLI.
fn shell() -> Result<Command> {
    let aws = installed("HOLDFAST_TEST_AWS")?;
    let own = aws.parent().context("the AWS CLI is in no folder")?.to_path_buf();
    let others = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(std::iter::once(own).chain(env::split_paths(&others)))?;
    let mut command = Command::new("sh");
    command.arg("-e").env("PATH", path);
    Ok(command)
}

fn succeed(command: &mut Command, server: &Server) -> Result<()> {
    let output = run_to_end(command, RUN_LIMIT)?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}:\n{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        server.log_tail()
    );
    Ok(())
}

/// Keeps the settings of whoever runs the tests away from them.
fn without_aws_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    let nowhere = folder().join("no-such-file");
    command
        .env("AWS_CONFIG_FILE", &nowhere)
        .env("AWS_SHARED_CREDENTIALS_FILE", &nowhere);
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1");
}

fn installed(variable: &str) -> Result<PathBuf> {
    let path = env::var_os(variable).map(PathBuf::from);
    path.filter(|path| path.exists()).with_context(|| {
        format!("{variable} does not name an installed client: run the tests with `cargo xtask test`")
    })
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients")
}
