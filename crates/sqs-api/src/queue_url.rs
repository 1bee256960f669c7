//! How clients name a queue: by a URL with any host, by a path, or by its bare name.

use types::{QueueKey, QueueName, Region, TenantId};

use crate::ApiError;

/// The path segment before the name in addresses of older servers, `http://host/queue/NAME`.
const LEGACY_SEGMENT: &str = "queue";

/// Returns the queue that `text` names, if `tenant` may know of it.
///
/// Host, port, scheme and everything before the account are not looked at: the same queue has different addresses
/// behind a proxy, in a container and on the host. Another tenant's queue gets the answer of a missing one.
pub(crate) fn resolve(text: &str, tenant: TenantId) -> Result<QueueKey, ApiError> {
    let path = match text.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => text,
    };
    let mut segments = path.trim_end_matches('/').rsplit('/');
    let name: QueueName = segments
        .next()
        .and_then(|name| name.parse().ok())
        .ok_or(ApiError::QueueDoesNotExist)?;
    match segments.next() {
        None | Some("" | LEGACY_SEGMENT) => Ok(QueueKey { tenant, name }),
        Some(account) if account.parse() == Ok(tenant) => Ok(QueueKey { tenant, name }),
        Some(_) => Err(ApiError::QueueDoesNotExist),
    }
}

/// Returns the URL of a queue below the address at which clients reach the server.
pub(crate) fn of(base: &str, key: &QueueKey) -> String {
    format!("{}/{}/{}", base.trim_end_matches('/'), key.tenant, key.name)
}

/// Returns the ARN of a queue.
pub(crate) fn arn(region: &Region, key: &QueueKey) -> String {
    format!("arn:aws:sqs:{region}:{}:{}", key.tenant, key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_queue_is_found() {
        let tenant: TenantId = "123456789012".parse().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let name = resolve(text, tenant).ok().map(|key| key.name.to_string());
            assert_eq!(name.as_deref(), expected, "{text:?}");
        };
        check("http://localhost:4100/123456789012/q", Some("q"));
        check(
            "https://sqs.us-east-1.amazonaws.com/123456789012/q.fifo",
            Some("q.fifo"),
        );
        check("http://proxy/mq/123456789012/q/", Some("q"));
        check("http://h/queue/us-east-1/123456789012/q", Some("q"));
        check("http://h/queue/q", Some("q"));
        check("http://h/q", Some("q"));
        check("/123456789012/q", Some("q"));
        check("123456789012/q", Some("q"));
        check("q", Some("q"));
        check("http://h/000000000000/q", None);
        check("/12345/q", None);
        check("http://h/", None);
        check("http://h", None);
        check("", None);
        check("a b", None);
        check("http://h/123456789012/q?x=1", None);
    }

    #[test]
    fn a_url_is_made_below_the_base() {
        let key = resolve("q", TenantId::DEV).unwrap();
        for base in ["http://h:1/mq", "http://h:1/mq/"] {
            assert_eq!(of(base, &key), "http://h:1/mq/000000000000/q");
        }
    }
}
