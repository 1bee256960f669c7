//! A file that makes the disk and the clock of a process fail while it runs.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use compat::{Launch, Scratch, Server, Sqs, wait_for};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);
const SIGABRT: i32 = 6;

/// A server, and the file that says what fails.
struct Faulty {
    server: Server,
    home: Scratch,
}

impl Faulty {
    fn start() -> Result<Self> {
        let home = Scratch::new("faults")?;
        let file = home.path().join("faults.toml");
        let launch = Launch::dev().variable("HOLDFAST_FAULTS", &file.display().to_string());
        Ok(Self {
            server: Server::start(launch)?,
            home,
        })
    }

    fn say(&self, faults: &str) -> Result<()> {
        let (new, file) = (self.home.path().join("new"), self.home.path().join("faults.toml"));
        fs::write(&new, faults)?;
        Ok(fs::rename(new, file)?)
    }
}

fn send(sqs: &mut Sqs, queue: &str, body: &str) -> Result<std::result::Result<Value, compat::Refusal>> {
    sqs.try_call("SendMessage", &json!({ "QueueUrl": queue, "MessageBody": body }))
}

#[test]
fn a_disk_is_full_while_the_file_says_so() -> Result<()> {
    let faulty = Faulty::start()?;
    let mut sqs = faulty.server.sqs();
    let queue = sqs.create_queue("full", json!({}))?;
    send(&mut sqs, &queue, "before")?.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    faulty.say("free_bytes = 0")?;
    let refusal = wait_for("a send to be refused", LIMIT, || {
        Ok(send(&mut sqs, &queue, "full")?.err())
    })?;
    ensure!(
        refusal.status == 503 && refusal.message.contains("room"),
        "{refusal:?}"
    );
    let received = sqs.receive(&queue, 600)?;
    let first = received
        .first()
        .context("nothing can be received while the disk is full")?;
    sqs.call(
        "DeleteMessage",
        json!({ "QueueUrl": queue, "ReceiptHandle": first["ReceiptHandle"] }),
    )?;
    faulty.say("")?;
    wait_for("a send to be taken again", LIMIT, || {
        Ok(send(&mut sqs, &queue, "after")?.ok())
    })?;
    Ok(())
}

#[test]
fn a_failed_sync_ends_the_process_and_loses_nothing() -> Result<()> {
    let mut faulty = Faulty::start()?;
    let mut sqs = faulty.server.sqs();
    let queue = sqs.create_queue("syncs", json!({}))?;
    faulty.say("fail_sync = 3")?;
    let mut answered = 0;
    while let Ok(Ok(_)) = send(&mut sqs, &queue, &format!("{answered}")) {
        answered += 1;
    }
    let status = faulty.server.wait_for_exit()?;
    ensure!(status.signal() == Some(SIGABRT), "{status}");
    faulty.say("")?;
    faulty.server.restart()?;
    let mut sqs = faulty.server.sqs();
    let [visible, ..] = sqs.counters(&queue)?;
    // The send that the sync failed under may be there too: it was never answered.
    ensure!(
        visible == answered || visible == answered + 1,
        "{visible} of {answered}"
    );
    Ok(())
}

#[test]
fn a_jump_of_the_clock_is_seen_and_ends_no_lease() -> Result<()> {
    let faulty = Faulty::start()?;
    let mut sqs = faulty.server.sqs();
    let queue = sqs.create_queue("clock", json!({}))?;
    send(&mut sqs, &queue, "leased")?.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    ensure!(sqs.receive(&queue, 1_800)?.len() == 1);
    faulty.say("wall_clock_millis = 7_200_000")?;
    let ahead = || -> Result<Option<()>> {
        let mut sqs = faulty.server.sqs();
        send(&mut sqs, &queue, "later")?.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        let input =
            json!({ "QueueUrl": queue, "MaxNumberOfMessages": 10, "AttributeNames": ["SentTimestamp"] });
        let output = sqs.call("ReceiveMessage", input)?;
        let messages = output["Messages"].as_array().context("nothing received")?;
        ensure!(
            messages.iter().all(|message| message["Body"] == "later"),
            "a lease ended with the jump: {messages:?}"
        );
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let jumped = messages.iter().any(|message| {
            let sent = message["Attributes"]["SentTimestamp"]
                .as_str()
                .and_then(|text| text.parse().ok());
            sent.is_some_and(|millis| Duration::from_millis(millis) > now + HOUR)
        });
        Ok(jumped.then_some(()))
    };
    wait_for("the clock to jump", LIMIT, ahead)
}
