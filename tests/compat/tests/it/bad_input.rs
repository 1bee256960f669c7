//! Input that no SDK would send: the right error in the caller's protocol, a connection that serves on, and
//! nothing stored.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use compat::{Connection, Random, Refusal, Reply, Server, Sqs, decode, post_json};
use serde_json::json;

/// One queue, whose emptiness is looked at after each request.
struct Fixture {
    server: Server,
    sqs: Sqs,
    url: String,
    connection: Connection,
}

impl Fixture {
    fn new() -> Result<Self> {
        let server = Server::dev()?;
        let mut sqs = server.sqs();
        let url = sqs.create_queue("bad", json!({}))?;
        let connection = server.connect()?;
        Ok(Self {
            server,
            sqs,
            url,
            connection,
        })
    }

    /// Sends JSON that must be refused with one of `codes` (any code when empty).
    fn refuse_json(&mut self, action: &str, body: &[u8], codes: &[&str]) -> Result<Refusal> {
        let shown = String::from_utf8_lossy(body.get(..200).unwrap_or(body)).into_owned();
        let reply = post_json(&mut self.connection, action, body)?;
        let refusal = decode(&reply)?
            .err()
            .with_context(|| format!("{action} {shown} was accepted"))?;
        ensure!(refusal.status == 400, "{action} {shown}: {refusal:?}");
        ensure!(
            !refusal.code.is_empty(),
            "{action} {shown}: no __type in {}",
            reply.text()
        );
        ensure!(
            codes.is_empty() || codes.contains(&refusal.code.as_str()),
            "{action} {shown}: {refusal:?}"
        );
        let content_type = reply.header("content-type");
        ensure!(
            content_type == Some("application/x-amz-json-1.0"),
            "{shown}: {content_type:?}"
        );
        self.serves_on(&reply)
            .with_context(|| format!("after {action} {shown}"))?;
        Ok(refusal)
    }

    /// Sends a form that must be refused with one of `codes`, in XML.
    fn refuse_form(&mut self, form: &str, codes: &[&str]) -> Result<()> {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let reply = self.connection.request("POST", "/", &headers, form.as_bytes())?;
        ensure!(reply.status == 400, "{form}: {} {}", reply.status, reply.text());
        let content_type = reply.header("content-type").unwrap_or_default();
        ensure!(content_type.starts_with("text/xml"), "{form}: {content_type}");
        let text = reply.text();
        ensure!(
            text.contains("<ErrorResponse") && text.contains("<Type>Sender</Type>"),
            "{form}: {text}"
        );
        let named = codes
            .iter()
            .any(|code| text.contains(&format!("<Code>{code}</Code>")));
        ensure!(named, "{form}: none of {codes:?} in {text}");
        self.serves_on(&reply).with_context(|| format!("after {form}"))
    }

    /// Checks that the same connection still answers, and that the queue is as empty as before.
    fn serves_on(&mut self, refusal: &Reply) -> Result<()> {
        ensure!(
            refusal.header("connection") != Some("close"),
            "the connection is given up"
        );
        let reply = post_json(&mut self.connection, "ListQueues", b"{}")?;
        let queues = decode(&reply)?.ok().context("a good request was refused")?;
        ensure!(queues["QueueUrls"] == json!([self.url]), "{queues}");
        self.stores_nothing()
    }

    fn stores_nothing(&mut self) -> Result<()> {
        let counters = self.sqs.counters(&self.url)?;
        ensure!(counters == [0, 0, 0], "something was stored: {counters:?}");
        Ok(())
    }

    fn request_head(&self, headers: &str) -> Vec<u8> {
        let host = self.server.sqs_address();
        format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/x-amz-json-1.0\r\n\
             x-amz-target: AmazonSQS.SendMessage\r\n{headers}\r\n"
        )
        .into_bytes()
    }
}

#[test]
fn malformed_json_is_refused() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let url = fixture.url.clone();
    let malformed: Vec<Vec<u8>> = vec![
        b"{".to_vec(),
        b"\xff\xfe".to_vec(),
        b"{\"QueueUrl\":\"bad\",\"MessageBody\":\"\xff\"}".to_vec(),
        format!(r#"{{"QueueUrl":"{url}","MessageBody":"cut"#).into_bytes(),
        format!(r#"{{"QueueUrl":"{url}","MessageBody":"two"}}{{"#).into_bytes(),
        format!(r#"{{"QueueUrl":"{url}","MessageBody":"lone \ud800"}}"#).into_bytes(),
        format!("{{\"QueueUrl\":\"{url}\",\"MessageBody\":\"raw \u{1} control\"}}").into_bytes(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"null".to_vec(),
        vec![b'['; 100_000],
        [br#"{"QueueUrl":"#.as_slice(), &vec![b'{'; 100_000]].concat(),
    ];
    for body in malformed {
        fixture.refuse_json(
            "SendMessage",
            &body,
            &["SerializationException", "InvalidMessageContents"],
        )?;
    }
    Ok(())
}

#[test]
fn wrong_types_are_refused() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let url = fixture.url.clone();
    let wrong = [
        ("SendMessage", json!({ "QueueUrl": url, "MessageBody": 5 })),
        ("SendMessage", json!({ "QueueUrl": url, "MessageBody": ["x"] })),
        ("SendMessage", json!({ "QueueUrl": 7, "MessageBody": "x" })),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x", "DelaySeconds": "soon" }),
        ),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x", "MessageAttributes": [] }),
        ),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x", "MessageAttributes": { "a": "b" } }),
        ),
        (
            "SendMessageBatch",
            json!({ "QueueUrl": url, "Entries": { "Id": "1" } }),
        ),
        ("SendMessageBatch", json!({ "QueueUrl": url, "Entries": ["x"] })),
        (
            "ReceiveMessage",
            json!({ "QueueUrl": url, "MaxNumberOfMessages": {} }),
        ),
        ("CreateQueue", json!({ "QueueName": { "a": 1 } })),
        (
            "CreateQueue",
            json!({ "QueueName": "typed", "Attributes": "none" }),
        ),
    ];
    for (action, input) in wrong {
        fixture.refuse_json(action, &serde_json::to_vec(&input)?, &["SerializationException"])?;
    }
    Ok(())
}

#[test]
fn values_out_of_bounds_are_refused() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let url = fixture.url.clone();
    let wrong = [
        ("SendMessage", json!({ "QueueUrl": url })),
        ("SendMessage", json!({ "MessageBody": "x" })),
        ("SendMessage", json!({ "QueueUrl": url, "MessageBody": "" })),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x", "DelaySeconds": -1 }),
        ),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x", "DelaySeconds": 901 }),
        ),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x", "DelaySeconds": 1e300 }),
        ),
        (
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "x".repeat(1_048_577) }),
        ),
        ("SendMessageBatch", json!({ "QueueUrl": url, "Entries": [] })),
        (
            "ReceiveMessage",
            json!({ "QueueUrl": url, "MaxNumberOfMessages": 0 }),
        ),
        (
            "ReceiveMessage",
            json!({ "QueueUrl": url, "WaitTimeSeconds": 4_294_967_296_u64 }),
        ),
        (
            "ReceiveMessage",
            json!({ "QueueUrl": url, "VisibilityTimeout": 43_201 }),
        ),
        ("DeleteMessage", json!({ "QueueUrl": url })),
        ("DeleteMessage", json!({ "QueueUrl": url, "ReceiptHandle": "" })),
        (
            "DeleteMessage",
            json!({ "QueueUrl": url, "ReceiptHandle": "\u{0}" }),
        ),
        ("CreateQueue", json!({ "QueueName": "" })),
        ("CreateQueue", json!({ "QueueName": "a/b" })),
        ("CreateQueue", json!({ "QueueName": "x".repeat(81) })),
        (
            "CreateQueue",
            json!({ "QueueName": "v", "Attributes": { "VisibilityTimeout": "-1" } }),
        ),
        (
            "SetQueueAttributes",
            json!({ "QueueUrl": url, "Attributes": { "Foobar": "1" } }),
        ),
    ];
    for (action, input) in wrong {
        fixture.refuse_json(action, &serde_json::to_vec(&input)?, &[])?;
    }
    Ok(())
}

#[test]
fn characters_that_xml_forbids_are_refused_in_both_protocols() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let url = fixture.url.clone();
    for forbidden in ["\u{0}", "\u{1}", "\u{b}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
        let body = format!("before {forbidden} after");
        let input = json!({ "QueueUrl": url, "MessageBody": body });
        fixture.refuse_json(
            "SendMessage",
            &serde_json::to_vec(&input)?,
            &["InvalidMessageContents"],
        )?;
        let encoded: String = forbidden.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let form = format!("Action=SendMessage&QueueUrl={url}&MessageBody=before+{encoded}");
        fixture.refuse_form(&form, &["InvalidMessageContents"])?;
    }
    Ok(())
}

#[test]
fn unknown_and_missing_actions_are_refused() -> Result<()> {
    let mut fixture = Fixture::new()?;
    for action in ["Nothing", "", "sendmessage", "../SendMessage"] {
        fixture.refuse_json(action, b"{}", &["UnknownOperationException", "InvalidAction"])?;
    }
    fixture.refuse_form("Action=Nothing&Version=2012-11-05", &["InvalidAction"])?;
    fixture.refuse_form("Version=2012-11-05", &["MissingAction"])?;
    fixture.refuse_form("", &["MissingAction"])?;
    Ok(())
}

#[test]
fn malformed_forms_are_refused() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let send = format!("Action=SendMessage&QueueUrl={}", fixture.url);
    let attribute = format!("{send}&MessageBody=x&MessageAttribute.1.Name=a");
    let missing = ["MissingParameter"];
    let wrong = [
        "InvalidParameterValue",
        "MalformedQueryString",
        "MalformedInput",
        "InvalidMessageContents",
    ];
    fixture.refuse_form(&send, &missing)?;
    fixture.refuse_form("Action=SendMessage&MessageBody=x", &missing)?;
    fixture.refuse_form(&format!("{send}&MessageBody"), &missing)?;
    fixture.refuse_form(&format!("{send}&MessageBody=%FF%FE"), &wrong)?;
    fixture.refuse_form(&format!("{send}&MessageBody=x&DelaySeconds=soon"), &wrong)?;
    fixture.refuse_form(
        &format!("{send}&MessageBody=x&DelaySeconds=99999999999999999999"),
        &wrong,
    )?;
    fixture.refuse_form(&attribute, &["InvalidParameterValue", "MissingParameter"])?;
    Ok(())
}

#[test]
fn an_oversized_body_is_refused_before_it_is_sent() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let mut connection = fixture.server.connect()?;
    connection.set_answer_limit(Duration::from_secs(10))?;
    // Only the head is sent: an answer can come only from the length that it announces.
    connection.send(&fixture.request_head("content-length: 50000000\r\n"))?;
    let reply = connection.receive()?;
    ensure!(reply.status == 413, "{} {}", reply.status, reply.text());
    fixture.stores_nothing()?;

    // A body of unknown length is cut off when it has become too long.
    let mut connection = fixture.server.connect()?;
    connection.send(&fixture.request_head("transfer-encoding: chunked\r\n"))?;
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
    let cut_off = (0..1_000).any(|_| connection.send(&chunk).is_err());
    ensure!(cut_off, "64 MB were taken in");
    fixture.stores_nothing()
}

#[test]
fn a_request_that_breaks_off_stores_nothing() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let body = serde_json::to_vec(&json!({ "QueueUrl": fixture.url, "MessageBody": "half" }))?;
    let head = fixture.request_head(&format!("content-length: {}\r\n", body.len() + 1));
    let mut connection = fixture.server.connect()?;
    connection.send(&[head, body].concat())?;
    connection.finish_writing()?;
    // The body is one byte short, so there is nothing to act on; a refusal is as good as a closed connection.
    if let Ok(reply) = connection.receive() {
        ensure!(
            [400, 408].contains(&reply.status),
            "{} {}",
            reply.status,
            reply.text()
        );
    }
    fixture.stores_nothing()
}

#[test]
fn what_is_not_http_is_refused_and_harms_nobody() -> Result<()> {
    let mut fixture = Fixture::new()?;
    for bytes in [
        "\r\n\r\nhello\r\n\r\n",
        "GET\r\n\r\n",
        "POST / HTTP/1.1\r\nno colon\r\n\r\n",
        "\x16\x03\x01\x02\x00",
    ] {
        let mut connection = fixture.server.connect()?;
        connection.send(bytes.as_bytes())?;
        connection.finish_writing()?;
        match connection.receive() {
            Ok(reply) if reply.status == 400 => {}
            Ok(reply) => bail!("{bytes:?} was answered {} {}", reply.status, reply.text()),
            // Closed without an answer.
            Err(_) => {}
        }
        fixture.stores_nothing()?;
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let mut connection = fixture.server.connect()?;
        let reply = connection.request(method, "/", &[], b"")?;
        ensure!(
            (400..500).contains(&reply.status),
            "{method} was answered {}",
            reply.status
        );
    }
    Ok(())
}

#[test]
fn a_head_that_comes_too_slowly_is_not_waited_for() -> Result<()> {
    let fixture = Fixture::new()?;
    let mut connection = fixture.server.connect()?;
    connection.send(b"POST / HTTP/1.1\r\nx-slow: ")?;
    connection.set_answer_limit(Duration::from_millis(500))?;
    let started = Instant::now();
    // A byte now and then must not keep the connection.
    while started.elapsed() < Duration::from_secs(30) {
        if connection.send(b"x").is_err() || connection.is_closed_by_server()? {
            return Ok(());
        }
    }
    bail!("the connection was still open after {:?}", started.elapsed())
}

#[test]
fn pipelined_requests_are_answered_in_order() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let url = fixture.url.clone();
    let mut bytes = Vec::new();
    for number in 0..5 {
        let body = serde_json::to_vec(&json!({ "QueueUrl": url, "MessageBody": format!("p{number}") }))?;
        bytes.extend(fixture.request_head(&format!("content-length: {}\r\n", body.len())));
        bytes.extend(body);
        // Every second request is refused; that must not disturb its neighbours.
        bytes.extend(fixture.request_head("content-length: 1\r\n"));
        bytes.push(b'{');
    }
    fixture.connection.send(&bytes)?;
    for number in 0..5 {
        let sent = fixture.connection.receive()?;
        ensure!(
            sent.status == 200,
            "request {number}: {} {}",
            sent.status,
            sent.text()
        );
        let refused = fixture.connection.receive()?;
        ensure!(
            refused.status == 400,
            "after request {number}: {} {}",
            refused.status,
            refused.text()
        );
    }
    let messages = fixture.sqs.receive(&url, 30)?;
    let bodies: Vec<_> = messages.iter().map(|message| &message["Body"]).collect();
    ensure!(bodies == ["p0", "p1", "p2", "p3", "p4"], "{messages:?}");
    Ok(())
}

#[test]
fn a_request_in_pieces_is_put_together() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let body = serde_json::to_vec(&json!({ "QueueUrl": fixture.url, "MessageBody": "in pieces" }))?;
    let request = [
        fixture.request_head(&format!("content-length: {}\r\n", body.len())),
        body,
    ]
    .concat();
    for piece in request.chunks(7) {
        fixture.connection.send(piece)?;
    }
    let reply = fixture.connection.receive()?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    let messages = fixture.sqs.receive(&fixture.url, 30)?;
    ensure!(
        messages.len() == 1 && messages[0]["Body"] == "in pieces",
        "{messages:?}"
    );
    Ok(())
}

/// Two readers of these could see different requests, one of which sends a message. None may be seen.
#[test]
fn what_could_be_read_as_two_requests_is_refused_and_the_connection_closed() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let body = serde_json::to_vec(&json!({ "QueueUrl": fixture.url, "MessageBody": "smuggled" }))?;
    let hidden = [
        fixture.request_head(&format!("content-length: {}\r\n", body.len())),
        body,
    ]
    .concat();
    let length = hidden.len();
    let in_chunks = "transfer-encoding: chunked\r\n";
    for (headers, before) in [
        (
            format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
            "0\r\n\r\n",
        ),
        (format!("{in_chunks}content-length: 4\r\n"), "0\r\n\r\n"),
        (format!("content-length: 0\r\ncontent-length: {length}\r\n"), ""),
        ("content-length: 0, 0\r\n".to_owned(), ""),
        ("content-length: +0\r\n".to_owned(), ""),
        ("content-length:\r\n".to_owned(), ""),
        ("content-length: 99999999999999999999\r\n".to_owned(), ""),
        ("content-length : 0\r\n".to_owned(), ""),
        ("x: a\r\n content-length: 0\r\n".to_owned(), ""),
        ("x: a\rcontent-length: 0\r\n".to_owned(), ""),
        ("transfer-encoding: xchunked\r\n".to_owned(), "0\r\n\r\n"),
        ("transfer-encoding: gzip, chunked\r\n".to_owned(), "0\r\n\r\n"),
        (format!("{in_chunks}{in_chunks}"), "0\r\n\r\n"),
        (in_chunks.to_owned(), "0\n\r\n"),
        (in_chunks.to_owned(), "0x0\r\n\r\n"),
        (in_chunks.to_owned(), "-0\r\n\r\n"),
        (in_chunks.to_owned(), "1\r\n{}\r\n0\r\n\r\n"),
        (in_chunks.to_owned(), "10000000000000000\r\n"),
        (in_chunks.to_owned(), "0;a\n\r\n"),
    ] {
        let mut connection = fixture.server.connect()?;
        connection.send(&[&fixture.request_head(&headers), before.as_bytes(), &hidden].concat())?;
        let reply = connection
            .receive()
            .with_context(|| format!("{headers:?} {before:?}"))?;
        let is_refused = reply.status == 400 && reply.header("connection") == Some("close");
        ensure!(
            is_refused,
            "{headers:?} {before:?}: {} {}",
            reply.status,
            reply.text()
        );
        ensure!(
            connection.is_closed_by_server()?,
            "{headers:?} {before:?}: the connection is open"
        );
        fixture.stores_nothing()?;
    }
    Ok(())
}

#[test]
fn requests_in_any_pieces_are_the_same_requests() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let mut numbers = (0..).map(|number| format!("n{number}"));
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let sent: Vec<_> = numbers.by_ref().take(6).collect();
        let mut bytes = Vec::new();
        for (at, text) in sent.iter().enumerate() {
            let body = serde_json::to_vec(&json!({ "QueueUrl": fixture.url, "MessageBody": text }))?;
            if at % 2 == 0 {
                bytes.extend(fixture.request_head(&format!("content-length: {}\r\n", body.len())));
                bytes.extend(body);
            } else {
                let (one, other) = body.split_at(body.len() / 2);
                bytes.extend(b"\r\n");
                bytes.extend(fixture.request_head("transfer-encoding: chunked\r\n"));
                for chunk in [one, other] {
                    bytes.extend(format!("{:x};extension\r\n", chunk.len()).into_bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\nTrailer: x\r\n\r\n");
            }
        }
        while !bytes.is_empty() {
            let end = bytes.len().min(1 + usize::try_from(random.below(300))?);
            fixture.connection.send(&bytes[..end])?;
            bytes.drain(..end);
        }
        for _ in &sent {
            let reply = fixture.connection.receive()?;
            ensure!(
                reply.status == 200,
                "seed {seed}: {} {}",
                reply.status,
                reply.text()
            );
        }
        let messages = fixture.sqs.receive(&fixture.url, 30)?;
        let bodies: Vec<_> = messages.iter().map(|message| &message["Body"]).collect();
        ensure!(
            bodies == sent.iter().collect::<Vec<_>>(),
            "seed {seed}: {bodies:?}"
        );
    }
    Ok(())
}

#[test]
fn a_client_that_waits_for_a_word_gets_it_before_it_sends_the_body() -> Result<()> {
    let mut fixture = Fixture::new()?;
    let body = serde_json::to_vec(&json!({ "QueueUrl": fixture.url, "MessageBody": "waited" }))?;
    let head = fixture.request_head(&format!(
        "expect: 100-continue\r\ncontent-length: {}\r\n",
        body.len()
    ));
    fixture.connection.send(&head)?;
    ensure!(fixture.connection.receive_any()?.status == 100, "no word came");
    fixture.connection.send(&body)?;
    let reply = fixture.connection.receive_any()?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.text());
    // A body that would be refused is not asked for.
    fixture
        .connection
        .send(&fixture.request_head("expect: 100-continue\r\ncontent-length: 50000000\r\n"))?;
    let reply = fixture.connection.receive_any()?;
    ensure!(reply.status == 413, "{} {}", reply.status, reply.text());
    Ok(())
}
