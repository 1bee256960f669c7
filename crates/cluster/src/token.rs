//! Tokens of a new machine: what it proves itself with once, and by which it gets the secret that all nodes share.
//!
//! A token is derived from that secret, so no node keeps it: whoever has the secret can check it until it expires. Neither
//! the token's key nor the secret travels: the machine proves that it has the key, and the answer is sealed with it.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::Random;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use zeroize::Zeroizing;

use crate::cluster::Cluster;
use crate::link::{Secret, Security};

/// How long a token counts at most.
pub const TOKEN_LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
const PREFIX: &str = "hfj1-";
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 32;
const HEAD_BYTES: usize = 16 + 8;

/// Why a token, or what was asked or answered with it, does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not one.
    #[error("it is no join token: one begins with {PREFIX} and is copied whole")]
    Malformed,
    /// It was made by another cluster, or with a secret that is used no more, or by nobody.
    #[error("it is not a token of this cluster, or the secret of the cluster has been changed since")]
    Foreign,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// The answer was not made by a node of the token's cluster.
    #[error("the answer is not that of a node of the token's cluster")]
    Forged,
    /// Its life is longer than is allowed, or nothing.
    #[error("a token counts for a second to seven days")]
    Life,
    /// The nodes share no secret.
    #[error("the nodes of this cluster share no secret that could be handed on (cluster.secret)")]
    NoSecret,
}

/// What a new machine proves itself with.
#[derive(Clone)]
pub struct JoinToken {
    cluster: [u8; 16],
    expires_millis: u64,
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken(redacted, expires {})", self.expires_millis)
    }
}

/// What a new machine asks, and needs to open the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinQuestion {
    /// What is sent.
    pub text: String,
    nonce: [u8; NONCE_BYTES],
}

/// What a new machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinAnswer {
    /// The name of the cluster, as its nodes are set.
    pub name: String,
    /// The addresses of all nodes.
    pub seeds: Vec<String>,
    /// The shared secret, for whoever has the token.
    pub sealed: String,
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(context.sign().as_ref());
    Zeroizing::new(bytes)
}

impl JoinToken {
    fn derive(secret: &Secret, cluster: [u8; 16], expires_millis: u64) -> Self {
        let parts: [&[u8]; 3] = [b"holdfast join 1", &cluster, &expires_millis.to_le_bytes()];
        Self {
            cluster,
            expires_millis,
            key: hmac(secret.expose(), &parts),
        }
    }

    /// Returns it as an operator copies it. Whoever has it until it expires can be a node of the cluster.
    pub fn text(&self) -> String {
        let mut bytes = Zeroizing::new(self.head());
        bytes.extend_from_slice(&*self.key);
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(&*bytes))
    }

    /// Reads it back.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(TokenError::Malformed)?;
        let bytes = Zeroizing::new(decode(encoded)?);
        let (cluster, expires_millis, rest) = split_head(&bytes)?;
        let key = rest.try_into().map_err(|_| TokenError::Malformed)?;
        Ok(Self {
            cluster,
            expires_millis,
            key: Zeroizing::new(key),
        })
    }

    /// Returns when it expires, in milliseconds of Unix time.
    pub fn expires_millis(&self) -> u64 {
        self.expires_millis
    }

    fn head(&self) -> Vec<u8> {
        let mut bytes = self.cluster.to_vec();
        bytes.extend_from_slice(&self.expires_millis.to_le_bytes());
        bytes
    }

    /// Makes the question of a new machine.
    pub fn ask(&self, random: &dyn Random) -> JoinQuestion {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce);
        let mut bytes = self.head();
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&*self.proof(&nonce));
        JoinQuestion {
            text: URL_SAFE_NO_PAD.encode(bytes),
            nonce,
        }
    }

    fn proof(&self, nonce: &[u8]) -> Zeroizing<[u8; KEY_BYTES]> {
        hmac(&*self.key, &[b"ask", nonce])
    }

    fn sealing_key(&self, nonce: &[u8]) -> Option<LessSafeKey> {
        let key = hmac(&*self.key, &[b"seal", nonce]);
        UnboundKey::new(&AES_256_GCM, &*key).ok().map(LessSafeKey::new)
    }

    /// What the seal also covers.
    fn covered(&self, name: &str, seeds: &[String]) -> Vec<u8> {
        let mut bytes = self.head();
        for text in std::iter::once(name).chain(seeds.iter().map(String::as_str)) {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    fn seal(&self, asked: &[u8], mut answer: JoinAnswer, secret: &Secret, random: &dyn Random) -> JoinAnswer {
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce);
        let mut sealed = secret.expose().to_vec();
        let covered = Aad::from(self.covered(&answer.name, &answer.seeds));
        let key = self
            .sealing_key(asked)
            .expect("the key has the length of the cipher's");
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), covered, &mut sealed)
            .expect("a secret is far shorter than the cipher allows");
        answer.sealed = URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat());
        answer
    }

    /// Opens the answer to a question: the secret that all nodes share.
    pub fn open(&self, question: &JoinQuestion, answer: &JoinAnswer) -> Result<String, TokenError> {
        let sealed = decode(&answer.sealed).map_err(|_| TokenError::Forged)?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN).ok_or(TokenError::Forged)?;
        let mut nonce_bytes = [0; NONCE_LEN];
        nonce_bytes.copy_from_slice(nonce);
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let covered = Aad::from(self.covered(&answer.name, &answer.seeds));
        let key = self.sealing_key(&question.nonce).ok_or(TokenError::Forged)?;
        let opened = key.open_in_place(Nonce::assume_unique_for_key(nonce_bytes), covered, &mut sealed);
        let opened = opened.map_err(|_| TokenError::Forged)?;
        String::from_utf8(opened.to_vec()).map_err(|_| TokenError::Forged)
    }
}

fn decode(text: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed)
}

fn split_head(bytes: &[u8]) -> Result<([u8; 16], u64, &[u8]), TokenError> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or(TokenError::Malformed)?;
    let (mut cluster, mut expires) = ([0; 16], [0; 8]);
    cluster.copy_from_slice(&head[..16]);
    expires.copy_from_slice(&head[16..]);
    Ok((cluster, u64::from_le_bytes(expires), rest))
}

/// What a node needs to make and to check tokens.
struct Issuer<'a> {
    cluster: [u8; 16],
    current: &'a Secret,
    previous: Option<&'a Secret>,
    now_millis: u64,
}

impl Issuer<'_> {
    fn issue(&self, life: Duration) -> Result<JoinToken, TokenError> {
        if life < Duration::from_secs(1) || life > TOKEN_LIFE_MAX {
            return Err(TokenError::Life);
        }
        let expires = self.now_millis + u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        Ok(JoinToken::derive(self.current, self.cluster, expires))
    }

    fn answer(&self, asked: &str, answer: JoinAnswer, random: &dyn Random) -> Result<JoinAnswer, TokenError> {
        let bytes = decode(asked)?;
        let (cluster, expires_millis, rest) = split_head(&bytes)?;
        let (nonce, proof) = rest.split_at_checked(NONCE_BYTES).ok_or(TokenError::Malformed)?;
        let secrets = std::iter::once(self.current).chain(self.previous);
        let mut tokens = secrets.map(|secret| JoinToken::derive(secret, cluster, expires_millis));
        let is_proven =
            |token: &JoinToken| bool::from(subtle::ConstantTimeEq::ct_eq(&token.proof(nonce)[..], proof));
        let token = tokens.find(is_proven).filter(|_| cluster == self.cluster);
        let token = token.ok_or(TokenError::Foreign)?;
        if expires_millis <= self.now_millis {
            return Err(TokenError::Expired);
        }
        if expires_millis - self.now_millis > u64::try_from(TOKEN_LIFE_MAX.as_millis()).unwrap_or(u64::MAX) {
            return Err(TokenError::Life);
        }
        Ok(token.seal(nonce, answer, self.current, random))
    }
}

impl Cluster {
    /// Makes a token by which a new machine may join, for `life`.
    pub fn issue_token(&self, life: Duration) -> Result<JoinToken, TokenError> {
        self.issuer()?.issue(life)
    }

    /// Answers the question of a new machine.
    pub fn answer_token(&self, asked: &str) -> Result<JoinAnswer, TokenError> {
        let view = self.started().ok_or(TokenError::Foreign)?.view();
        let answer = JoinAnswer {
            name: self.name().to_owned(),
            seeds: view.members.into_values().map(|(address, _)| address).collect(),
            sealed: String::new(),
        };
        self.issuer()?.answer(asked, answer, &*self.world().random)
    }

    fn issuer(&self) -> Result<Issuer<'_>, TokenError> {
        let Security::Secret { current, previous } = &self.settings().security else {
            return Err(TokenError::NoSecret);
        };
        let cluster = self.started().and_then(crate::Node::cluster);
        Ok(Issuer {
            cluster: cluster.ok_or(TokenError::Foreign)?,
            current,
            previous: previous.as_ref(),
            now_millis: self.world().clock.wall().as_millis(),
        })
    }
}

#[cfg(test)]
mod tests {
    use broker::SeededRandom;

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).unwrap()
    }

    fn issuer(current: &Secret) -> Issuer<'_> {
        Issuer {
            cluster: [7; 16],
            current,
            previous: None,
            now_millis: 1_000_000,
        }
    }

    fn told() -> JoinAnswer {
        JoinAnswer {
            name: "prod".to_owned(),
            seeds: vec!["a:7901".to_owned(), "b:7901".to_owned()],
            sealed: String::new(),
        }
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn who_has_the_token_gets_the_secret_and_nobody_else() {
        let (shared, random) = (
            secret("what all nodes share, and no one else"),
            SeededRandom::new(1),
        );
        let issuer = issuer(&shared);
        let token = issuer.issue(HOUR).unwrap();
        let read = JoinToken::parse(&token.text()).unwrap();
        let question = read.ask(&random);
        let answer = issuer.answer(&question.text, told(), &random).unwrap();
        let opened = read.open(&question, &answer).unwrap();
        assert_eq!(opened.as_bytes(), shared.expose());
        assert!(!answer.sealed.contains("share") && !format!("{token:?}").contains(&token.text()[20..]));
        // Another question's answer, another token, other addresses, a changed seal.
        let other = read.ask(&random);
        assert_eq!(read.open(&other, &answer), Err(TokenError::Forged));
        let later = issuer.issue(2 * HOUR).unwrap();
        assert_eq!(later.open(&question, &answer), Err(TokenError::Forged));
        let mut changed = answer.clone();
        changed.seeds[0] = "evil:7901".to_owned();
        assert_eq!(read.open(&question, &changed), Err(TokenError::Forged));
        let mut changed = answer;
        changed
            .sealed
            .replace_range(30..31, if &changed.sealed[30..31] == "A" { "B" } else { "A" });
        assert_eq!(read.open(&question, &changed), Err(TokenError::Forged));
    }

    #[test]
    fn a_token_counts_for_its_cluster_and_its_time() {
        let (shared, random) = (secret("what all nodes share"), SeededRandom::new(1));
        let question = |issuer: &Issuer<'_>| issuer.issue(HOUR).unwrap().ask(&random).text;
        let mut own = issuer(&shared);
        let asked = question(&own);
        own.now_millis += 3_600_000;
        assert_eq!(own.answer(&asked, told(), &random), Err(TokenError::Expired));
        own.now_millis = 0;
        own.cluster = [8; 16];
        assert_eq!(own.answer(&asked, told(), &random), Err(TokenError::Foreign));
        // Made with a secret of somebody's own, or with one that counts no more.
        let foreign = secret("another");
        let forged = question(&issuer(&foreign));
        assert_eq!(
            issuer(&shared).answer(&forged, told(), &random),
            Err(TokenError::Foreign)
        );
        // While the secret is being changed, tokens of before count.
        let mut changing = issuer(&foreign);
        changing.previous = Some(&shared);
        assert!(changing.answer(&asked, told(), &random).is_ok());
        // A clock that was set back gives no token more than the longest life.
        let mut back = issuer(&shared);
        let far = back.issue(TOKEN_LIFE_MAX).unwrap().ask(&random).text;
        back.now_millis -= 1_000;
        assert_eq!(back.answer(&far, told(), &random), Err(TokenError::Life));
        for life in [Duration::ZERO, TOKEN_LIFE_MAX + HOUR] {
            assert_eq!(back.issue(life).unwrap_err(), TokenError::Life);
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let shared = secret("what all nodes share");
        let text = issuer(&shared).issue(HOUR).unwrap().text();
        for end in 0..text.len() {
            assert!(JoinToken::parse(&text[..end]).is_err(), "{end}");
        }
        assert!(JoinToken::parse(&format!("{text}A")).is_err());
        let random = SeededRandom::new(1);
        let asked = JoinToken::parse(&text).unwrap().ask(&random).text;
        for end in 0..asked.len() {
            assert!(
                issuer(&shared).answer(&asked[..end], told(), &random).is_err(),
                "{end}"
            );
        }
    }
}
