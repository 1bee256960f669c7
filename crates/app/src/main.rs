//! The `holdfast` binary.

mod init;
mod join;
mod node_file;
#[cfg(test)]
mod reference;
mod repair;
mod settings;
mod stopped;
mod utc;
mod verify;

use std::process::ExitCode;

use clap::Command;
use config::{ConfigError, Flags};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Describes all verbs.
fn command() -> Command {
    let serve = Command::new("serve")
        .about("Runs a server")
        .args(config::arguments());
    Command::new("holdfast")
        .about("A durable message queue that speaks Amazon SQS")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve)
        .subcommand(cli::queue_command())
        .subcommands(cli::message_commands())
        .subcommand(cli::redrive_command())
        .subcommand(cli::health_command())
        .subcommand(settings::command())
        .subcommand(cli::bench_command())
        .subcommand(
            cli::cluster_command()
                .subcommand(init::command())
                .subcommand(join::command()),
        )
        .subcommand(verify::command())
        .subcommand(repair::command())
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    match matches.subcommand() {
        Some(("serve", flags)) => run_server(&Flags::from_matches(flags)),
        Some(("queue", arguments)) => cli::run_queue(arguments),
        Some(("redrive", arguments)) => cli::run_redrive(arguments),
        Some((name @ ("send" | "receive" | "ack" | "nack" | "extend"), arguments)) => {
            cli::run_message(name, arguments)
        }
        Some(("health", arguments)) => cli::run_health(arguments),
        Some(("config", arguments)) => settings::run(arguments),
        Some(("bench", arguments)) => cli::run_bench(arguments),
        Some(("cluster", arguments)) => match arguments.subcommand() {
            Some(("init", arguments)) => init::run(arguments),
            Some(("join", arguments)) => join::run(arguments),
            Some(_) | None => cli::run_cluster(arguments),
        },
        Some(("verify", arguments)) => verify::run(arguments),
        Some(("repair", arguments)) => repair::run(arguments),
        Some(_) | None => ExitCode::from(ConfigError::EXIT_CODE),
    }
}

fn run_server(flags: &Flags) -> ExitCode {
    let options = match config::load_from_process(flags) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(ConfigError::EXIT_CODE);
        }
    };
    let format = match options.log.format {
        config::LogFormat::Text => telemetry::LogFormat::Text,
        config::LogFormat::Json => telemetry::LogFormat::Json,
    };
    if let Err(error) = telemetry::init_log(&options.log.level, format) {
        eprintln!("error: {error}");
        return ExitCode::from(ConfigError::EXIT_CODE);
    }
    options
        .warnings
        .iter()
        .for_each(|warning| tracing::warn!("{warning}"));
    match server::serve(&options, &sqs_api::ACTIONS) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
