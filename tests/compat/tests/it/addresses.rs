//! Where a server is found: ports that it chose itself, other names for its host, ports mapped to others, and a
//! public URL with a path.
//!
//! What a client is told must be usable as it was told, so these tests connect to what the answers say.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use compat::{ACCESS_KEY_ID, Client, Connection, Launch, SECRET_ACCESS_KEY, Server, decode, run_client};
use serde_json::{Value, json};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A queue URL taken apart as a client does that connects to what the URL names.
#[derive(Debug)]
struct Address {
    host: String,
    path: String,
}

impl Address {
    fn of(url: &str) -> Result<Self> {
        let rest = url
            .strip_prefix("http://")
            .with_context(|| format!("{url} is not http"))?;
        let (host, path) = rest
            .split_once('/')
            .with_context(|| format!("{url} has no path"))?;
        Ok(Self {
            host: host.to_owned(),
            path: format!("/{path}"),
        })
    }

    /// Connects to the host and port of the URL.
    fn connect(&self) -> Result<Connection> {
        let mut addresses = self.host.to_socket_addrs()?;
        // The server listens on one address; `localhost` may name two.
        let address = addresses.find(SocketAddr::is_ipv4);
        Connection::open(address.with_context(|| format!("{} names no address", self.host))?)
    }
}

/// Calls an action of the JSON protocol at a path, with a Host of the caller's choice.
fn json_call(connection: &mut Connection, at: &Address, action: &str, input: &Value) -> Result<Value> {
    let body = serde_json::to_vec(input)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amz-target: AmazonSQS.{action}\r\ncontent-length: {}\r\n\r\n",
        at.path,
        at.host,
        body.len()
    );
    connection.send(&[head.into_bytes(), body].concat())?;
    match decode(&connection.receive()?)? {
        Ok(output) => Ok(output),
        Err(refusal) => bail!("{action} at {at:?} was refused: {refusal:?}"),
    }
}

/// Sends to the queue and receives from it in both protocols, at the very address that its URL names.
fn use_as_returned(url: &str) -> Result<()> {
    let at = Address::of(url)?;
    let mut connection = at.connect()?;
    let form = b"Action=SendMessage&MessageBody=by+form";
    let reply = connection.request("POST", &at.path, &[FORM], form)?;
    ensure!(reply.status == 200, "{url}: {} {}", reply.status, reply.text());
    let send = json!({ "QueueUrl": url, "MessageBody": "by JSON" });
    json_call(&mut connection, &at, "SendMessage", &send)?;
    let receive = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10 });
    let output = json_call(&mut connection, &at, "ReceiveMessage", &receive)?;
    let messages = output["Messages"].as_array().context("no messages")?;
    let bodies: Vec<_> = messages.iter().map(|message| &message["Body"]).collect();
    ensure!(bodies == ["by form", "by JSON"], "{url}: {output}");
    for message in messages {
        let delete = json!({ "QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"] });
        json_call(&mut connection, &at, "DeleteMessage", &delete)?;
    }
    Ok(())
}

/// Returns what stands between two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str> {
    let rest = text.split_once(before).map(|(_, rest)| rest);
    let found = rest.and_then(|rest| rest.split_once(after));
    Ok(found
        .with_context(|| format!("no {before}...{after} in {text}"))?
        .0)
}

/// Passes connections on to `server`, as a container runtime does that maps ports, or a proxy.
fn relay(listener: TcpListener, server: SocketAddr) {
    // The threads end with their connections, the first one with the test's process.
    thread::spawn(move || -> io::Result<()> {
        for client in listener.incoming() {
            let (client, server) = (client?, TcpStream::connect(server)?);
            pass_on(client.try_clone()?, server.try_clone()?);
            pass_on(server, client);
        }
        Ok(())
    });
}

/// Returns a port that leads to `server`.
fn mapped_port(server: &Server) -> Result<u16> {
    let (listener, port) = free_port()?;
    relay(listener, server.sqs_address());
    Ok(port)
}

fn free_port() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || -> io::Result<()> {
        io::copy(&mut from, &mut to)?;
        to.shutdown(Shutdown::Write)
    });
}

#[test]
fn d29_the_file_and_the_printed_line_name_the_ports_that_were_bound() -> Result<()> {
    let mut server = Server::dev()?;
    for start in 0..2 {
        let file = fs::read(server.data_dir().join("endpoints.json"))?;
        let file: Value = serde_json::from_slice(&file)?;
        let (sqs, control) = (server.sqs_url(), server.control_url());
        ensure!(file == json!({ "sqs": sqs, "control": control }), "{file}");
        ensure!(server.sqs_address().port() != 0, "{sqs}");
        let line = format!("holdfast: SQS on {sqs}, control on {control}");
        // The line of this start is the last of its kind.
        let log = server.log_tail();
        let printed = log.lines().rfind(|line| line.contains("holdfast: SQS on"));
        ensure!(
            printed == Some(line.as_str()),
            "start {start}: {printed:?} instead of {line}"
        );
        if start == 0 {
            server.stop()?;
            server.restart()?;
        }
    }
    Ok(())
}

#[test]
fn d29_a_queue_url_is_usable_as_returned_under_another_name_and_port() -> Result<()> {
    let server = Server::dev()?;
    let own = server.sqs_address().port();
    let mapped = mapped_port(&server)?;
    for host in [
        format!("127.0.0.1:{own}"),
        format!("localhost:{own}"),
        format!("127.0.0.1:{mapped}"),
        format!("localhost:{mapped}"),
    ] {
        let root = Address {
            host: host.clone(),
            path: "/".to_owned(),
        };
        let mut connection = root.connect()?;
        let input = json!({ "QueueName": "mapped" });
        let created = json_call(&mut connection, &root, "CreateQueue", &input)?;
        let url = created["QueueUrl"].as_str().context("no QueueUrl")?;
        ensure!(url == format!("http://{host}/000000000000/mapped"), "{created}");
        use_as_returned(url)?;
    }
    Ok(())
}

/// Runs the SDKs against an address that is not the server's own; the URLs of their queues must lead there.
fn sdks_use(server: &Server, endpoint: &str) -> Result<()> {
    let arguments = [endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY];
    for client in [Client::Boto3Json, Client::Boto3Query] {
        run_client(client, "addresses.py", server, &arguments)?;
    }
    run_client(Client::JavaScript, "addresses.cjs", server, &arguments)
}

#[test]
fn d29_sdks_use_queue_urls_through_a_mapped_port() -> Result<()> {
    let server = Server::start(Launch::with_keys())?;
    sdks_use(&server, &format!("http://localhost:{}", mapped_port(&server)?))
}

#[test]
fn d29_sdks_use_queue_urls_below_a_path() -> Result<()> {
    let (listener, port) = free_port()?;
    let base = format!("http://localhost:{port}/mq");
    let server = Server::start(Launch::with_keys().argument("--public-url").argument(&base))?;
    relay(listener, server.sqs_address());
    sdks_use(&server, &base)
}

#[test]
fn d29_a_public_url_with_a_path_serves_both_protocols_below_it() -> Result<()> {
    let (listener, port) = free_port()?;
    let base = format!("http://127.0.0.1:{port}/mq");
    let server = Server::start(Launch::dev().argument("--public-url").argument(&base))?;
    relay(listener, server.sqs_address());

    let root = Address::of(&base)?;
    let mut connection = root.connect()?;
    let expected = format!("{base}/000000000000/below");
    let input = json!({ "QueueName": "below" });
    let created = json_call(&mut connection, &root, "CreateQueue", &input)?;
    ensure!(created["QueueUrl"] == expected.as_str(), "{created}");
    for path in ["/mq", "/mq/", "/"] {
        let reply = connection.request("POST", path, &[FORM], b"Action=GetQueueUrl&QueueName=below")?;
        let text = reply.text();
        ensure!(reply.status == 200, "{path}: {} {text}", reply.status);
        ensure!(
            between(&text, "<QueueUrl>", "</QueueUrl>")? == expected,
            "{path}: {text}"
        );
    }
    use_as_returned(&expected)?;
    // A proxy that takes the prefix off asks at the queue's own path.
    let reply = connection.request(
        "POST",
        "/000000000000/below",
        &[FORM],
        b"Action=SendMessage&MessageBody=x",
    )?;
    ensure!(reply.status == 200, "{}", reply.text());
    // No other path becomes the server's root.
    let reply = connection.request("POST", "/mqueue", &[FORM], b"Action=ListQueues")?;
    ensure!(reply.status == 400, "{} {}", reply.status, reply.text());
    Ok(())
}
