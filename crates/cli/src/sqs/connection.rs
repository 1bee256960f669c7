//! One keep-alive connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Endpoint;

type Driver = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// A connection with at most one request on its way.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Polled together with the request instead of in a task of its own, which saves two wake-ups a call.
    /// None once it has ended.
    driver: Option<Pin<Box<Driver>>>,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let (host, port) = &endpoint.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        Ok(Self {
            sender,
            driver: Some(Box::pin(driver)),
        })
    }

    /// Returns the connection if a further request can be sent, as far as is known: nothing is read while no request
    /// is on its way, so this looks for an end that came in between.
    pub(crate) async fn if_open(mut self) -> Option<Self> {
        let driver = self.driver.as_mut()?;
        let has_ended = poll_fn(|context| Poll::Ready(driver.as_mut().poll(context).is_ready())).await;
        (!has_ended).then_some(self)
    }

    /// Sends a request and returns the whole answer. Dropped before its end, the connection must not be used again.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<(StatusCode, Bytes)> {
        let sender = &mut self.sender;
        let exchange = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            Ok((status, body))
        };
        let mut exchange = std::pin::pin!(exchange);
        if let Some(driver) = &mut self.driver {
            tokio::select! {
                biased;
                answer = &mut exchange => return answer,
                // What went wrong, if something did, is also the answer's error.
                _ = driver => {}
            }
        }
        // Only when it is dropped does the request learn that nobody is there to send it.
        self.driver = None;
        exchange.await
    }
}
