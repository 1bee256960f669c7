//! CreateQueue: creates a queue, or finds the one that has this name and these attributes.

use broker::BrokerError;
use queue_core::{AttributeChange, QueueError};
use serde::{Deserialize, Serialize};
use types::{QueueKey, QueueName};

use super::{Action, Doc, optional, required};
use crate::attribute_values::{self, FIFO_QUEUE, Passed};
use crate::wire::{Pairs, Text};
use crate::{ApiError, Code, Context, Reply, redrive, tags};

pub(crate) struct CreateQueue;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_name: Option<Text<'a>>,
    #[serde(borrow)]
    attributes: Option<Pairs<'a, Text<'a>>>,
    #[serde(borrow, rename = "tags", alias = "Tags")]
    tags: Option<Pairs<'a, Text<'a>>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    queue_url: String,
}

impl Action for CreateQueue {
    const NAME: &'static str = "CreateQueue";
    const IS_FOR_QUEUE: bool = false;
    const DOC: Doc = Doc {
        summary: "Creates a queue, or finds the one that has this name and these attributes.",
        parameters: &[
            required(
                "QueueName",
                "1 to 80 letters, digits, hyphens and underscores; the name of a FIFO queue ends in `.fifo`.",
            ),
            optional(
                "Attributes",
                "Any of the attributes of SetQueueAttributes, and `FifoQueue`.",
            ),
            optional("tags", "Up to 50 tags. They count only if the queue is new."),
        ],
        errors: &[
            Code::InvalidAttributeName,
            Code::InvalidAttributeValue,
            Code::QueueDeletedRecently,
            Code::QueueNameExists,
        ],
        notes: &[
            "Creating a queue that exists compares only the attributes that are passed, with their present values.",
            "The wait of 60 seconds after a queue was deleted does not apply with relaxed limits, as in `--dev`.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let name = request.queue_name.ok_or_else(|| ApiError::missing("QueueName"))?;
        let attributes = request.attributes.unwrap_or_default();
        let key = QueueKey {
            tenant: context.principal.tenant,
            name: parse_name(&name, &attributes)?,
        };
        let Passed { changes, .. } = attribute_values::parse(&attributes, &key, context.options)?;
        let tags = tags::parse(&request.tags.unwrap_or_default())?;
        check_redrive(context, &key, &changes).await?;
        context.broker.create_queue(key.clone(), changes, tags).await?;
        Ok(context.reply(&Response {
            queue_url: context.queue_url(&key),
        }))
    }
}

/// Reads the name, which says what kind of queue it is and has to agree with the attribute that says it again.
fn parse_name(name: &str, attributes: &Pairs<'_, Text<'_>>) -> Result<QueueName, ApiError> {
    let fifo_queue = attributes.0.iter().rfind(|(name, _)| name.as_str() == FIFO_QUEUE);
    let is_fifo = fifo_queue.is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
    let parsed = name
        .parse::<QueueName>()
        .ok()
        .filter(|name| name.is_fifo() == is_fifo);
    let Some(parsed) = parsed else {
        return Err(ApiError::InvalidParameterValue(
            if is_fifo {
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end \
                 with .fifo suffix and be 1 to 80 in length"
            } else {
                "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
            }
            .to_owned(),
        ));
    };
    // Not even `false` is a legal value for a standard queue.
    if fifo_queue.is_some() && !is_fifo {
        return Err(attribute_values::unknown(FIFO_QUEUE));
    }
    Ok(parsed)
}

/// Checks that the dead-letter queue that is named exists and lets this queue use it.
pub(super) async fn check_redrive(
    context: &Context<'_>,
    source: &QueueKey,
    changes: &[AttributeChange],
) -> Result<(), ApiError> {
    let policy = changes.iter().find_map(|change| {
        if let AttributeChange::RedrivePolicy(policy) = change {
            policy.as_ref()
        } else {
            None
        }
    });
    // A queue can be its own dead-letter queue, also one that is about to be created.
    let Some(policy) = policy.filter(|policy| policy.dead_letter_queue != *source) else {
        return Ok(());
    };
    let text = redrive::policy_text(policy, &context.options.region);
    let refuse = |reason: &str| ApiError::invalid_value(&text, "RedrivePolicy", reason);
    let target = context
        .broker
        .describe_queue(policy.dead_letter_queue.clone())
        .await;
    let target = target.map_err(|error| {
        let is_missing = error == BrokerError::Queue(QueueError::NoSuchQueue);
        if is_missing {
            refuse("Dead letter target does not exist.")
        } else {
            error.into()
        }
    })?;
    if redrive::allows(target.attributes.redrive_allow_policy.as_deref(), source) {
        Ok(())
    } else {
        Err(refuse(
            "The redrive allow policy of the dead letter target does not allow this queue.",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_attribute_have_to_agree() {
        let standard = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
        let fifo = "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must \
                    end with .fifo suffix and be 1 to 80 in length";
        let unknown = "Unknown Attribute FifoQueue.";
        for (name, fifo_queue, expected) in [
            ("q", None, Ok(())),
            ("q.fifo", Some("true"), Ok(())),
            ("q.fifo", Some("True"), Ok(())),
            ("q", Some("true"), Err(fifo)),
            ("q", Some("false"), Err(unknown)),
            ("q.fifo", None, Err(standard)),
            ("q.fifo", Some("false"), Err(standard)),
            ("a/b", None, Err(standard)),
            ("", None, Err(standard)),
            (".fifo", Some("true"), Err(fifo)),
        ] {
            let pairs = fifo_queue.map(|value| (Text::from(FIFO_QUEUE), Text::from(value)));
            let result = parse_name(name, &Pairs(pairs.into_iter().collect()));
            let result = result.map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(result, expected.map_err(str::to_owned), "{name} {fifo_queue:?}");
        }
    }
}
