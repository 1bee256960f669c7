//! The bytes of answers and errors in each protocol.

use bytes::Bytes;
use serde::Serialize;

use super::{Protocol, query_json, xml};

const XML_HEAD: &str = "<?xml version=\"1.0\"?>";
const NAMESPACE: &str = "http://queue.amazonaws.com/doc/2012-11-05/";

/// Returns the body of an answer.
///
/// An action without output answers `()`: no result element in XML, and `{}` in JSON, which every client can parse.
pub(crate) fn result_body(
    protocol: Protocol,
    action: &str,
    request_id: &str,
    answer: &impl Serialize,
) -> Bytes {
    match protocol {
        Protocol::Json => json_body(answer),
        Protocol::QueryXml => xml_body(action, request_id, answer),
        Protocol::QueryJson => query_json::result_text(action, request_id, answer).into(),
    }
}

/// Returns the body of an error. `json_type` names it in AWS JSON, `code` in Query.
pub(crate) fn error_body(
    protocol: Protocol,
    json_type: &str,
    fault: &str,
    code: &str,
    message: &str,
    request_id: &str,
) -> Bytes {
    match protocol {
        Protocol::Json => {
            #[derive(Serialize)]
            struct Error<'a> {
                #[serde(rename = "__type")]
                json_type: &'a str,
                message: &'a str,
            }
            json_body(&Error { json_type, message })
        }
        Protocol::QueryXml => {
            let mut out = String::with_capacity(512);
            out.push_str(XML_HEAD);
            out.push_str("<ErrorResponse xmlns=\"");
            out.push_str(NAMESPACE);
            out.push_str("\"><Error><Type>");
            out.push_str(fault);
            out.push_str("</Type><Code>");
            xml::write_text(&mut out, code);
            out.push_str("</Code><Message>");
            xml::write_text(&mut out, message);
            out.push_str("</Message><Detail/></Error><RequestId>");
            out.push_str(request_id);
            out.push_str("</RequestId></ErrorResponse>");
            out.into()
        }
        Protocol::QueryJson => query_json::error_text(fault, code, message, request_id).into(),
    }
}

/// Returns the body for a queue's URL that is opened without an action: XML, whatever the client asked for.
pub(crate) fn unknown_operation_body() -> Bytes {
    Bytes::from_static(b"<UnknownOperationException/>\n")
}

fn json_body(answer: &impl Serialize) -> Bytes {
    let mut out = Vec::with_capacity(256);
    serde_json::to_writer(&mut out, answer).expect("answers are made of what JSON can hold");
    if out == b"null" {
        return Bytes::from_static(b"{}");
    }
    out.into()
}

fn xml_body(action: &str, request_id: &str, answer: &impl Serialize) -> Bytes {
    let mut out = String::with_capacity(512);
    for part in [XML_HEAD, "<", action, "Response xmlns=\"", NAMESPACE, "\">"] {
        out.push_str(part);
    }
    xml::write_element(&mut out, action, &format!("{action}Result"), answer);
    for part in [
        "<ResponseMetadata><RequestId>",
        request_id,
        "</RequestId></ResponseMetadata></",
    ] {
        out.push_str(part);
    }
    out.push_str(action);
    out.push_str("Response>");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Nothing {}

    #[test]
    fn an_answer_without_output_has_no_result_element() {
        assert_eq!(result_body(Protocol::Json, "DeleteQueue", "id", &()), "{}");
        assert_eq!(
            result_body(Protocol::QueryXml, "DeleteQueue", "id", &()),
            "<?xml version=\"1.0\"?><DeleteQueueResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">\
             <ResponseMetadata><RequestId>id</RequestId></ResponseMetadata></DeleteQueueResponse>"
        );
        assert_eq!(
            result_body(Protocol::QueryXml, "ReceiveMessage", "id", &Nothing {}),
            "<?xml version=\"1.0\"?><ReceiveMessageResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">\
             <ReceiveMessageResult/>\
             <ResponseMetadata><RequestId>id</RequestId></ResponseMetadata></ReceiveMessageResponse>"
        );
    }

    #[test]
    fn errors_have_the_form_of_their_protocol() {
        let body = |protocol| {
            error_body(
                protocol,
                "com.amazonaws.sqs#X",
                "Sender",
                "A.X",
                "it's <\"wrong\">",
                "id",
            )
        };
        assert_eq!(
            body(Protocol::Json),
            r#"{"__type":"com.amazonaws.sqs#X","message":"it's <\"wrong\">"}"#
        );
        assert_eq!(
            body(Protocol::QueryXml),
            "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error>\
             <Type>Sender</Type><Code>A.X</Code><Message>it's &lt;&quot;wrong&quot;&gt;</Message><Detail/></Error>\
             <RequestId>id</RequestId></ErrorResponse>"
        );
        assert_eq!(
            body(Protocol::QueryJson),
            r#"{"Error":{"Code":"A.X","Message":"it's <\"wrong\">","Type":"Sender"},"RequestId":"id"}"#
        );
    }
}
