//! GetQueueAttributes: what a queue is set to, and how many messages it has.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::{Action, Doc, QUEUE_URL, optional};
use crate::wire::Text;
use crate::{Access, ApiError, Code, Context, Reply, attribute_values, queue_url};

const ALL: &str = "All";
const QUEUE_ARN: &str = "QueueArn";
const VISIBLE: &str = "ApproximateNumberOfMessages";
const DELAYED: &str = "ApproximateNumberOfMessagesDelayed";
const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";
const CREATED: &str = "CreatedTimestamp";
const MODIFIED: &str = "LastModifiedTimestamp";
/// What nobody can set.
const READ_ONLY: [&str; 6] = [QUEUE_ARN, VISIBLE, DELAYED, IN_FLIGHT, CREATED, MODIFIED];

pub(crate) struct GetQueueAttributes;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    attribute_names: Option<Vec<Text<'a>>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    #[serde(skip_serializing_if = "Shown::is_empty")]
    attributes: Shown,
}

/// Attributes with their values, written as a map.
#[derive(Debug)]
struct Shown(Vec<(&'static str, String)>);

impl Shown {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Action for GetQueueAttributes {
    const NAME: &'static str = "GetQueueAttributes";
    const ACCESS: Access = Access::OwnerOrAllowed("GetQueueAttributes");
    const DOC: Doc = Doc {
        summary: "Returns attributes of a queue, its counters among them.",
        parameters: &[
            QUEUE_URL,
            optional(
                "AttributeNames",
                "The names of the attributes, or `All`. Without names there is no answer.",
            ),
        ],
        errors: &[Code::InvalidAttributeName, Code::QueueDoesNotExist],
        notes: &[
            "The counters are exact and say how it is now, where those of AWS are approximate and late.",
            "Attributes that were never set are left out. Booleans are shown in lower case.",
            "RedrivePolicy is shown in one canonical form, however it was written.",
        ],
    };
    type Request<'a> = Request<'a>;

    async fn run<'a>(context: &'a Context<'a>, request: Request<'a>) -> Result<Reply, ApiError> {
        let key = context.queue(request.queue_url.as_ref())?;
        let names = request.attribute_names.unwrap_or_default();
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            return Err(attribute_values::unknown(unknown));
        }
        let queue = context.broker.describe_queue(key.clone()).await?;
        let mut shown = attribute_values::shown(&queue.attributes, context.options);
        shown.extend([
            (QUEUE_ARN, queue_url::arn(&context.options.region, &key)),
            (VISIBLE, queue.counters.visible.to_string()),
            (DELAYED, queue.counters.delayed.to_string()),
            (IN_FLIGHT, queue.counters.in_flight.to_string()),
            (CREATED, queue.created.as_seconds().to_string()),
            (MODIFIED, queue.modified.as_seconds().to_string()),
        ]);
        if !names.iter().any(|name| name.as_str() == ALL) {
            shown.retain(|(shown, _)| names.iter().any(|name| name.as_str() == *shown));
        }
        Ok(context.reply(&Response {
            attributes: Shown(shown),
        }))
    }
}

fn is_known(name: &str) -> bool {
    name == ALL || READ_ONLY.contains(&name) || attribute_values::is_known(name)
}
