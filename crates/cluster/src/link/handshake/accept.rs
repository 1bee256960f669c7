//! The end that was dialled.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::message::{Challenge, Hello, Introduction, Kind, MAGIC, Message, refuse};
use super::{Established, HandshakeError, Own, transcript};
use crate::link::limits::VERSIONS;
use crate::link::network::BoxStream;
use crate::link::seal::{Derived, Protection};
use crate::link::{Peer, Reason, Security, Side};

/// A dialler that has proved itself and waits to be let in.
pub(in crate::link) struct Greeted {
    stream: BoxStream,
    who: Introduction,
    protection: Protection,
    transcript: [u8; 32],
}

/// Meets whoever dialled, as far as its proof.
pub(in crate::link) async fn greet(
    own: &Own,
    security: &Security,
    mut stream: BoxStream,
) -> Result<Greeted, HandshakeError> {
    let mut begun = [0; MAGIC.len()];
    stream.read_exact(&mut begun).await?;
    let mut begun = begun.as_slice();
    if let Security::Tls(tls) = security {
        if begun == MAGIC {
            return Err(refuse(&mut stream, Reason::OtherSecurity).await);
        }
        let stream_with_begin = Box::new(Begun {
            begun: begun.to_vec(),
            stream,
        });
        let accepted = tls.accept(stream_with_begin).await;
        stream = accepted.map_err(|error| HandshakeError::Tls(Reason::Tls, error))?;
        begun = &[];
    }
    let message = Message::read(&mut stream, Kind::Hello, begun).await?;
    let hello = match Hello::decode(&message) {
        Ok(hello) => hello,
        Err(reason) => return Err(refuse(&mut stream, reason).await),
    };
    if let Some(reason) = objection(own, security, &hello) {
        return Err(refuse(&mut stream, reason).await);
    }
    let challenge = Challenge {
        version: VERSIONS.1.min(hello.versions.1),
        security: security.code(),
        who: own.introduce(),
    }
    .encode();
    challenge.write(&mut stream).await?;
    let transcript = transcript(message.as_bytes(), challenge.as_bytes());
    let proof = Message::read(&mut stream, Kind::Proof, &[]).await?;
    let Some(protection) = proven(security, &transcript, proof.payload()) else {
        return Err(refuse(&mut stream, Reason::WrongSecret).await);
    };
    let who = hello.who;
    Ok(Greeted {
        stream,
        who,
        protection,
        transcript,
    })
}

fn objection(own: &Own, security: &Security, hello: &Hello) -> Option<Reason> {
    if hello.security != security.code() {
        return Some(Reason::OtherSecurity);
    }
    let objection = own.objection(&hello.who);
    let is_other = hello.expects.is_some_and(|node| node != own.identity.node);
    objection.or(is_other.then_some(Reason::OtherNode))
}

/// Returns what protects the session, if the proof is one.
fn proven(security: &Security, transcript: &[u8; 32], proof: &[u8]) -> Option<Protection> {
    match security {
        Security::Tls(_) => proof.is_empty().then_some(Protection::Tls),
        Security::Insecure => proof.is_empty().then_some(Protection::Insecure),
        Security::Secret { current, previous } => [Some(current), previous.as_ref()]
            .into_iter()
            .flatten()
            .map(|secret| Derived::new(secret, transcript))
            .find(|derived| derived.proof_of_dialler.as_ref().ct_eq(proof).into())
            .map(Protection::Secret),
    }
}

impl Greeted {
    /// Who it is.
    pub(in crate::link) fn peer(&self, own: &Own) -> Peer {
        own.peer(self.who.clone())
    }

    /// Lets it in.
    pub(in crate::link) async fn accept(mut self, own: &Own) -> Result<Established, HandshakeError> {
        let proof: &[u8] = match &self.protection {
            Protection::Secret(derived) => derived.proof_of_acceptor.as_ref(),
            Protection::Tls | Protection::Insecure => &[],
        };
        Message::new(Kind::Accept, proof).write(&mut self.stream).await?;
        Ok(own.establish(
            self.stream,
            self.who,
            &self.protection,
            &self.transcript,
            Side::Accepted,
        ))
    }

    /// Sends it away.
    pub(in crate::link) async fn refuse(mut self, reason: Reason) -> HandshakeError {
        refuse(&mut self.stream, reason).await
    }
}

/// A stream some bytes of which were read already.
struct Begun {
    begun: Vec<u8>,
    stream: BoxStream,
}

impl AsyncRead for Begun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begun.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let taken = self.begun.len().min(buf.remaining());
        buf.put_slice(&self.begun[..taken]);
        self.begun.drain(..taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Begun {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
