//! `aws-sdk-sqs`, signing its requests for a server that knows the key.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message, MessageAttributeValue,
    MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry,
};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::RetryConfig;
use compat::{ACCESS_KEY_ID, Connection, Launch, Reply, SECRET_ACCESS_KEY, Server};
use tokio::task::spawn_blocking;

/// Carries the SDK's requests over the harness's own connections: the SDK's usual HTTP client would bring TLS.
#[derive(Clone, Debug)]
struct PlainHttp;

impl HttpClient for PlainHttp {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for PlainHttp {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(async move {
            let exchanged = spawn_blocking(move || exchange(&request)).await;
            let reply = exchanged.map_err(|error| ConnectorError::other(error.into(), None))?;
            reply
                .and_then(|reply| response(&reply))
                .map_err(|error| ConnectorError::io(error.into()))
        })
    }
}

fn exchange(request: &HttpRequest) -> Result<Reply> {
    let uri = request.uri().strip_prefix("http://").context("not an http URL")?;
    let (authority, path) = uri.split_once('/').unwrap_or((uri, ""));
    let address: SocketAddr = authority
        .parse()
        .with_context(|| format!("{authority} is not an address"))?;
    // The connection writes these two itself.
    let headers: Vec<_> = request
        .headers()
        .iter()
        .filter(|(name, _)| !["host", "content-length"].contains(name))
        .collect();
    let body = request.body().bytes().context("the body is a stream")?;
    Connection::open(address)?.request(request.method(), &format!("/{path}"), &headers, body)
}

fn response(reply: &Reply) -> Result<HttpResponse> {
    let mut response = HttpResponse::new(reply.status.try_into()?, SdkBody::from(reply.body.as_slice()));
    for (name, value) in &reply.headers {
        response.headers_mut().try_append(name.clone(), value.clone())?;
    }
    Ok(response)
}

fn client(server: &Server) -> Client {
    let credentials = Credentials::new(ACCESS_KEY_ID, SECRET_ACCESS_KEY, None, None, "compat");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(server.sqs_url())
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .http_client(PlainHttp)
        .build();
    Client::from_conf(config)
}

/// Runs one flow against a new server with keys.
fn run<F: Future<Output = Result<()>>>(flow: impl FnOnce(Client) -> F) -> Result<()> {
    let server = Server::start(Launch::with_keys())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime
        .block_on(flow(client(&server)))
        .with_context(|| server.log_tail())
}

async fn new_queue(sqs: &Client, name: &str, attributes: &[(QueueAttributeName, &str)]) -> Result<String> {
    let mut create = sqs.create_queue().queue_name(name);
    for (attribute, value) in attributes {
        create = create.attributes(attribute.clone(), *value);
    }
    create.send().await?.queue_url.context("no queue URL")
}

async fn receive(sqs: &Client, url: &str, visibility_timeout: i32) -> Result<Vec<Message>> {
    let receive = sqs
        .receive_message()
        .queue_url(url)
        .max_number_of_messages(10)
        .visibility_timeout(visibility_timeout)
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All);
    Ok(receive.send().await?.messages.unwrap_or_default())
}

async fn attribute(sqs: &Client, url: &str, name: QueueAttributeName) -> Result<String> {
    let output = sqs
        .get_queue_attributes()
        .queue_url(url)
        .attribute_names(name.clone())
        .send()
        .await?;
    let value = output
        .attributes
        .and_then(|mut attributes| attributes.remove(&name));
    value.with_context(|| format!("no {name}"))
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|message| message.body.as_deref())
        .collect()
}

fn handle(message: &Message) -> Result<&str> {
    message.receipt_handle.as_deref().context("no receipt handle")
}

#[test]
fn single_messages_carry_their_attributes() -> Result<()> {
    run(|sqs| async move {
        let url = new_queue(&sqs, "rust-single", &[]).await?;
        let color = MessageAttributeValue::builder()
            .data_type("String")
            .string_value("red")
            .build()?;
        let raw = MessageAttributeValue::builder();
        let raw = raw
            .data_type("Binary")
            .binary_value(Blob::new([0, 1, 2, 255]))
            .build()?;
        let send = sqs
            .send_message()
            .queue_url(&url)
            .message_body("a \"quoted\" <body> \r\n 🦀");
        let sent = send
            .message_attributes("color", color)
            .message_attributes("raw", raw)
            .send()
            .await?;
        ensure!(sent.md5_of_message_attributes.is_some(), "{sent:?}");

        let messages = receive(&sqs, &url, 30).await?;
        ensure!(
            bodies(&messages) == ["a \"quoted\" <body> \r\n 🦀"],
            "{messages:?}"
        );
        let message = &messages[0];
        ensure!(message.message_id == sent.message_id, "{message:?}");
        ensure!(
            message.md5_of_message_attributes == sent.md5_of_message_attributes,
            "{message:?}"
        );
        let attributes = message.message_attributes.as_ref().context("no attributes")?;
        ensure!(
            attributes["color"].string_value.as_deref() == Some("red"),
            "{attributes:?}"
        );
        let raw = attributes["raw"]
            .binary_value
            .as_ref()
            .context("no binary value")?;
        ensure!(raw.as_ref() == [0, 1, 2, 255], "{attributes:?}");

        sqs.delete_message()
            .queue_url(&url)
            .receipt_handle(handle(message)?)
            .send()
            .await?;
        let left = attribute(
            &sqs,
            &url,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        )
        .await?;
        ensure!(left == "0", "{left} messages in flight after the delete");
        Ok(())
    })
}

#[test]
fn batches_are_sent_changed_and_deleted() -> Result<()> {
    run(|sqs| async move {
        let url = new_queue(&sqs, "rust-batch", &[]).await?;
        let mut send = sqs.send_message_batch().queue_url(&url);
        for number in 0..10 {
            let entry = SendMessageBatchRequestEntry::builder().id(format!("e{number}"));
            // The fourth holds a character that SQS forbids and must fail alone.
            let body = if number == 4 {
                "\u{b}".to_owned()
            } else {
                format!("body {number}")
            };
            send = send.entries(entry.message_body(body).build()?);
        }
        let sent = send.send().await?;
        ensure!(sent.successful.len() == 9, "{sent:?}");
        ensure!(sent.failed.len() == 1 && sent.failed[0].id == "e4", "{sent:?}");

        let messages = receive(&sqs, &url, 30).await?;
        ensure!(messages.len() == 9, "{messages:?}");
        let mut change = sqs.change_message_visibility_batch().queue_url(&url);
        let mut delete = sqs.delete_message_batch().queue_url(&url);
        for (number, message) in messages.iter().enumerate() {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(number.to_string());
            change = change.entries(
                entry
                    .receipt_handle(handle(message)?)
                    .visibility_timeout(600)
                    .build()?,
            );
            let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
            delete = delete.entries(entry.receipt_handle(handle(message)?).build()?);
        }
        let changed = change.send().await?;
        ensure!(
            changed.successful.len() == 9 && changed.failed.is_empty(),
            "{changed:?}"
        );
        let deleted = delete.send().await?;
        ensure!(
            deleted.successful.len() == 9 && deleted.failed.is_empty(),
            "{deleted:?}"
        );
        ensure!(
            receive(&sqs, &url, 30).await?.is_empty(),
            "a deleted message came back"
        );
        Ok(())
    })
}

#[test]
fn fifo_keeps_the_order_of_a_group() -> Result<()> {
    run(|sqs| async move {
        let url = new_queue(&sqs, "rust.fifo", &[(QueueAttributeName::FifoQueue, "true")]).await?;
        for (body, group) in [("a1", "a"), ("b1", "b"), ("a2", "a"), ("a2", "a")] {
            let send = sqs.send_message().queue_url(&url).message_body(body);
            let sent = send
                .message_group_id(group)
                .message_deduplication_id(body)
                .send()
                .await?;
            ensure!(sent.sequence_number.is_some(), "{sent:?}");
        }
        let messages = receive(&sqs, &url, 30).await?;
        ensure!(bodies(&messages) == ["a1", "a2", "b1"], "{messages:?}");
        for message in &messages {
            sqs.delete_message()
                .queue_url(&url)
                .receipt_handle(handle(message)?)
                .send()
                .await?;
        }
        ensure!(
            receive(&sqs, &url, 30).await?.is_empty(),
            "a duplicate was stored"
        );
        Ok(())
    })
}

#[test]
fn a_long_poll_meets_a_send() -> Result<()> {
    run(|sqs| async move {
        let url = new_queue(&sqs, "rust-poll", &[]).await?;
        let poll = sqs.receive_message().queue_url(&url).wait_time_seconds(20).send();
        let send = sqs.send_message().queue_url(&url).message_body("wake up").send();
        let (received, sent) = tokio::join!(poll, send);
        sent?;
        let messages = received?.messages.unwrap_or_default();
        ensure!(bodies(&messages) == ["wake up"], "{messages:?}");

        // A visibility timeout of 0 gives the message back at once.
        let change = sqs
            .change_message_visibility()
            .queue_url(&url)
            .receipt_handle(handle(&messages[0])?);
        change.visibility_timeout(0).send().await?;
        let again = receive(&sqs, &url, 30).await?;
        ensure!(
            again.len() == 1 && again[0].message_id == messages[0].message_id,
            "{again:?}"
        );
        Ok(())
    })
}

#[test]
fn a_poisoned_message_is_dead_lettered_and_purged() -> Result<()> {
    run(|sqs| async move {
        let dead = new_queue(&sqs, "rust-dead", &[]).await?;
        let arn = attribute(&sqs, &dead, QueueAttributeName::QueueArn).await?;
        let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}"#);
        let url = new_queue(
            &sqs,
            "rust-source",
            &[(QueueAttributeName::RedrivePolicy, &policy)],
        )
        .await?;
        sqs.send_message()
            .queue_url(&url)
            .message_body("poison")
            .send()
            .await?;
        ensure!(
            receive(&sqs, &url, 0).await?.len() == 1,
            "the first receive found nothing"
        );
        ensure!(
            receive(&sqs, &url, 0).await?.is_empty(),
            "received more often than allowed"
        );
        let moved = receive(&sqs, &dead, 0).await?;
        ensure!(bodies(&moved) == ["poison"], "{moved:?}");

        sqs.purge_queue().queue_url(&dead).send().await?;
        ensure!(
            receive(&sqs, &dead, 0).await?.is_empty(),
            "a purged message came back"
        );
        Ok(())
    })
}

#[test]
fn refusals_are_the_sdk_s_own_error_types() -> Result<()> {
    run(|sqs| async move {
        let missing = sqs.get_queue_url().queue_name("rust-missing").send().await;
        let error = missing.err().context("a missing queue was found")?;
        let text = DisplayErrorContext(&error).to_string();
        ensure!(error.into_service_error().is_queue_does_not_exist(), "{text}");

        let url = new_queue(&sqs, "rust-refuse", &[]).await?;
        let garbage = sqs
            .delete_message()
            .queue_url(&url)
            .receipt_handle("garbage")
            .send()
            .await;
        let error = garbage
            .err()
            .context("garbage was accepted as a receipt handle")?;
        let text = DisplayErrorContext(&error).to_string();
        ensure!(
            error.into_service_error().is_receipt_handle_is_invalid(),
            "{text}"
        );
        Ok(())
    })
}
