//! The names of lists and maps, which differ between the protocols.
//!
//! JSON says `"Attributes": {"Policy": ".."}`; Query says `Attribute.1.Name=Policy&Attribute.1.Value=..` in a request
//! and `<Attribute><Name>Policy</Name><Value>..</Value></Attribute>` in an answer. Every other member has one name.

/// How a member looks when it is flat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value, or one structure.
    One,
    /// `Name.1`, `Name.2`, ...
    List,
    /// `Name.1.<key>` and `Name.1.<value>`.
    Map {
        /// What the key of an entry is called.
        key: &'static str,
        /// What the value of an entry is called.
        value: &'static str,
    },
}

const ATTRIBUTES: Shape = Shape::Map {
    key: "Name",
    value: "Value",
};
const TAGS: Shape = Shape::Map {
    key: "Key",
    value: "Value",
};

/// What the names of batch entries end with: `SendMessageBatchRequestEntry.1.Id`.
pub(crate) const BATCH_ENTRY_SUFFIX: &str = "BatchRequestEntry";
/// The member of every batch request.
pub(crate) const BATCH_ENTRIES: &str = "Entries";

/// Returns the flat name and the shape of a request's member. That of [`BATCH_ENTRIES`] depends on the action.
pub(crate) fn of_request(member: &'static str) -> (&'static str, Shape) {
    match member {
        "AWSAccountIds" => ("AWSAccountId", Shape::List),
        "Actions" => ("ActionName", Shape::List),
        "AttributeNames" => ("AttributeName", Shape::List),
        "Attributes" => ("Attribute", ATTRIBUTES),
        "MessageAttributeNames" => ("MessageAttributeName", Shape::List),
        "MessageAttributes" => ("MessageAttribute", ATTRIBUTES),
        "MessageSystemAttributeNames" => ("MessageSystemAttributeName", Shape::List),
        "MessageSystemAttributes" => ("MessageSystemAttribute", ATTRIBUTES),
        "TagKeys" => ("TagKey", Shape::List),
        "tags" => ("Tag", TAGS),
        "Tags" => ("Tags", TAGS),
        other => (other, Shape::One),
    }
}

/// Returns the name of an element that stands for one entry of an answer's list or map, and the names of a map's two
/// parts. The list of what went well is named after the action.
pub(crate) fn of_answer(member: &'static str) -> (&'static str, Shape) {
    match member {
        "Attributes" => ("Attribute", ATTRIBUTES),
        "Failed" => ("BatchResultErrorEntry", Shape::List),
        "MessageAttributes" => ("MessageAttribute", ATTRIBUTES),
        "Messages" => ("Message", Shape::List),
        "QueueUrls" | "queueUrls" => ("QueueUrl", Shape::List),
        "Results" => ("ListMessageMoveTasksResultEntry", Shape::List),
        "Tags" => ("Tag", TAGS),
        other => (other, Shape::One),
    }
}

/// The member of a batch answer whose elements are called `<action>ResultEntry`.
pub(crate) const BATCH_SUCCESSFUL: &str = "Successful";
