//! How clients name a queue: by a URL with any host, by a path, or by its bare name.

use types::{QueueArn, QueueKey, QueueName, Region, TenantId};

use crate::{ApiError, ApiOptions};

/// The path segment before the name in addresses of older servers, `http://host/queue/NAME`.
const LEGACY_SEGMENT: &str = "queue";

/// Returns the queue that `text` names: one of `tenant` where it names no account.
///
/// Host, port, scheme and everything before the account are not looked at: the same queue has different addresses
/// behind a proxy, in a container and on the host. Whether the caller may know of the queue is asked in `access.rs`.
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
        Some(account) => match account.parse() {
            Ok(tenant) => Ok(QueueKey { tenant, name }),
            Err(_) => Err(ApiError::QueueDoesNotExist),
        },
    }
}

/// Returns the URL of a queue below the address at which clients reach the server.
pub(crate) fn of(base: &str, key: &QueueKey) -> String {
    format!("{}/{}/{}", base.trim_end_matches('/'), key.tenant, key.name)
}

/// Returns the queue that an ARN names, if it is one of `tenant` and of this server.
pub(crate) fn own_queue(arn: &str, tenant: TenantId, options: &ApiOptions) -> Option<QueueKey> {
    let arn: QueueArn = arn.parse().ok()?;
    let is_ours = arn.key.tenant == tenant && (options.is_dev || arn.region == options.region);
    is_ours.then_some(arn.key)
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
            let key = resolve(text, tenant).ok();
            let own = key.filter(|key| key.tenant == tenant);
            let name = own.map(|key| key.name.to_string());
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
        let other = resolve("http://h/000000000000/q", tenant).unwrap();
        assert_eq!(other.tenant, TenantId::DEV);
    }

    #[test]
    fn a_url_is_made_below_the_base() {
        let key = resolve("q", TenantId::DEV).unwrap();
        for base in ["http://h:1/mq", "http://h:1/mq/"] {
            assert_eq!(of(base, &key), "http://h:1/mq/000000000000/q");
        }
    }
}
