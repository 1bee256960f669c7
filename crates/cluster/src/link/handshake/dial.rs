//! The end that dialled.

use subtle::ConstantTimeEq;

use super::message::{Challenge, Hello, Kind, Message, refuse};
use super::{Established, HandshakeError, Own, transcript};
use crate::link::limits::VERSIONS;
use crate::link::network::BoxStream;
use crate::link::seal::{Derived, Protection};
use crate::link::secret::Secret;
use crate::link::{Reason, Security, Side, Target};

/// Meets whoever was dialled. `secret` is the one to prove oneself with, where one is used.
pub(in crate::link) async fn dial(
    own: &Own,
    security: &Security,
    secret: Option<&Secret>,
    target: &Target,
    mut stream: BoxStream,
) -> Result<Established, HandshakeError> {
    if let Security::Tls(tls) = security {
        let dialled = tls.dial(&target.address, stream).await;
        stream = dialled.map_err(|error| HandshakeError::Tls(Reason::Tls, error))?;
    }
    let hello = Hello {
        versions: VERSIONS,
        security: security.code(),
        expects: target.node,
        who: own.introduce(),
    }
    .encode();
    hello.write(&mut stream).await?;
    let message = Message::read(&mut stream, Kind::Challenge, &[]).await?;
    let challenge = match Challenge::decode(&message) {
        Ok(challenge) => challenge,
        Err(reason) => return Err(refuse(&mut stream, reason).await),
    };
    if let Some(reason) = objection(own, security, target, &challenge) {
        return Err(refuse(&mut stream, reason).await);
    }
    let transcript = transcript(hello.as_bytes(), message.as_bytes());
    let derived = secret.map(|secret| Derived::new(secret, &transcript));
    let proof: &[u8] = derived
        .as_ref()
        .map_or(&[], |derived| derived.proof_of_dialler.as_ref());
    Message::new(Kind::Proof, proof).write(&mut stream).await?;
    let accept = Message::read(&mut stream, Kind::Accept, &[]).await?;
    let due: &[u8] = derived
        .as_ref()
        .map_or(&[], |derived| derived.proof_of_acceptor.as_ref());
    if !bool::from(accept.payload().ct_eq(due)) {
        return Err(HandshakeError::Here(Reason::WrongSecret));
    }
    let protection = match (security, derived) {
        (Security::Tls(_), _) => Protection::Tls,
        (Security::Secret { .. }, Some(derived)) => Protection::Secret(derived),
        (Security::Secret { .. }, None) => return Err(HandshakeError::Here(Reason::WrongSecret)),
        (Security::Insecure, _) => Protection::Insecure,
    };
    Ok(own.establish(stream, challenge.who, &protection, &transcript, Side::Dialled))
}

fn objection(own: &Own, security: &Security, target: &Target, challenge: &Challenge) -> Option<Reason> {
    if challenge.security != security.code() {
        return Some(Reason::OtherSecurity);
    }
    let objection = own.objection(&challenge.who);
    let is_other = target.node.is_some_and(|node| node != challenge.who.node);
    objection.or(is_other.then_some(Reason::OtherNode))
}
