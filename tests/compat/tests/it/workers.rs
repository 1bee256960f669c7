//! Libraries that run tasks from a queue, unpatched, each with a small real workload.

use anyhow::Result;
use compat::{Client, Server, run_client};

fn celery(flow: &str) -> Result<()> {
    run_client(Client::PythonWorkers, "celery_flows.py", &Server::dev()?, &[flow])
}

#[test]
fn d35_celery_does_200_tasks_once_each() -> Result<()> {
    celery("two_hundred_tasks")
}

#[test]
fn d35_celery_uses_a_predefined_queue_and_makes_no_other() -> Result<()> {
    celery("predefined_queue")
}

#[test]
fn d35_celery_countdown_beyond_the_visibility_timeout() -> Result<()> {
    celery("countdown")
}

#[test]
fn d35_celery_loses_nothing_when_a_worker_is_stopped() -> Result<()> {
    celery("sigterm")
}

#[test]
fn d35_dramatiq_does_100_messages_and_dead_letters_what_fails() -> Result<()> {
    run_client(Client::PythonWorkers, "dramatiq_flows.py", &Server::dev()?, &[])
}

#[test]
fn sqs_consumer_handles_batches_heartbeats_and_failures() -> Result<()> {
    run_client(Client::JavaScript, "consumer_flows.cjs", &Server::dev()?, &[])
}
