//! Join tokens: operators get them, and new machines prove themselves with them.

use std::time::Duration;

use ::cluster::{Cluster, JoinAnswer, TokenError};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::admin::{AdminAnswer, AdminError};

/// How long a token counts if nobody says otherwise.
const LIFE_SECONDS: u64 = 3_600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wish {
    ttl_seconds: u64,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            ttl_seconds: LIFE_SECONDS,
        }
    }
}

#[derive(Serialize)]
struct Issued {
    schema: &'static str,
    token: String,
    expires_at_millis: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    question: String,
}

#[derive(Serialize)]
struct Told {
    schema: &'static str,
    name: String,
    seeds: Vec<String>,
    sealed: String,
}

/// `POST /api/cluster/token`: a token by which a new machine may join.
pub(crate) fn issue(cluster: &Cluster, body: &[u8]) -> AdminAnswer {
    let wish = match body {
        [] => Ok(Wish::default()),
        body => serde_json::from_slice::<Wish>(body),
    };
    let wish = match wish {
        Ok(wish) => wish,
        Err(error) => {
            return usage(
                "no token was made",
                error.to_string(),
                r#"send {"ttl_seconds": N}"#,
            );
        }
    };
    match cluster.issue_token(Duration::from_secs(wish.ttl_seconds)) {
        Ok(token) => AdminAnswer::ok(&Issued {
            schema: "holdfast.cluster.token/1",
            token: token.text(),
            expires_at_millis: token.expires_millis(),
        }),
        Err(error) => refused("no token was made", error),
    }
}

/// `POST /api/cluster/join`: what a new machine has to know, for whoever has a token.
pub(crate) fn join(cluster: &Cluster, body: &[u8]) -> AdminAnswer {
    let what = "the machine may not join";
    let question = match serde_json::from_slice::<Question>(body) {
        Ok(question) => question.question,
        Err(error) => return usage(what, error.to_string(), "use `holdfast cluster join`"),
    };
    match cluster.answer_token(&question) {
        Ok(JoinAnswer { name, seeds, sealed }) => AdminAnswer::ok(&Told {
            schema: "holdfast.cluster.join/1",
            name,
            seeds,
            sealed,
        }),
        Err(error) => {
            tracing::warn!(%error, "a machine that asked to join was refused");
            refused(what, error)
        }
    }
}

fn usage(what: &str, cause: String, hint: &str) -> AdminAnswer {
    let error = AdminError {
        code: "usage",
        message: what.to_owned(),
        cause,
        hint: hint.to_owned(),
        retryable: false,
    };
    AdminAnswer::refused(StatusCode::BAD_REQUEST, &error)
}

fn refused(what: &str, error: TokenError) -> AdminAnswer {
    let (status, code, hint) = match error {
        TokenError::Malformed => (StatusCode::BAD_REQUEST, "usage", "copy the token whole"),
        TokenError::Life => (StatusCode::BAD_REQUEST, "usage", "choose another time"),
        TokenError::Foreign | TokenError::Expired | TokenError::Forged => (
            StatusCode::FORBIDDEN,
            "forbidden",
            "make a new one: holdfast cluster token URL",
        ),
        TokenError::NoSecret => (
            StatusCode::CONFLICT,
            "precondition",
            "start the new node with a certificate of its own, or none, and with members among cluster.seeds",
        ),
    };
    let error = AdminError {
        code,
        message: what.to_owned(),
        cause: error.to_string(),
        hint: hint.to_owned(),
        retryable: false,
    };
    AdminAnswer::refused(status, &error)
}
