//! An HTTP server that does nothing: it reads each request and answers the same 240 bytes.
//!
//! `cargo xtask bench` runs it beside the real server, so that a figure can be told as a multiple of what any
//! server on this machine has to pay. It prints its URL and serves until it is killed.

use std::convert::Infallible;
use std::num::NonZeroUsize;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// As long as the answer to a SendMessage; it also passes for one, and for a CreateQueue.
const ANSWER: &[u8; 240] = b"{\"MD5OfMessageBody\":\"0cc175b9c0f1b6a831c399e269772661\",\
    \"MessageId\":\"00000000-0000-4000-8000-000000000000\",\
    \"QueueUrl\":\"http://127.0.0.1/000000000000/hello\",\
    \"Filler\":\".........................................................................\"}";

fn main() -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()?
        .block_on(serve())
}

async fn serve() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            // The load generator closes its connections as it likes.
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // A body that breaks off has no reader to complain to.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    let content_type = hyper::header::HeaderValue::from_static("application/x-amz-json-1.0");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, content_type);
    Ok(response)
}
