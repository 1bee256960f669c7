//! Answers of both protocols in one form, so that one expectation holds for both.

use quick_xml::events::Event;
use serde_json::{Map, Value, json};

use crate::world::Response;

/// What a request came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Answer(Value),
    Error {
        status: u16,
        code: String,
        message: String,
    },
}

pub(crate) fn of_json(response: &Response) -> Outcome {
    assert_eq!(
        response.header("content-type"),
        Some("application/x-amz-json-1.0")
    );
    assert!(response.header("x-amzn-requestid").is_some());
    let body: Value = serde_json::from_str(&response.body).unwrap();
    if response.status == 200 {
        return Outcome::Answer(body);
    }
    let (code, fault) = response
        .header("x-amzn-query-error")
        .unwrap()
        .split_once(';')
        .unwrap();
    assert_eq!(
        fault,
        if response.status < 500 {
            "Sender"
        } else {
            "Receiver"
        }
    );
    assert!(body["__type"].as_str().unwrap().contains('#'));
    Outcome::Error {
        status: response.status,
        code: code.to_owned(),
        message: body["message"].as_str().unwrap().to_owned(),
    }
}

pub(crate) fn of_xml(action: &str, response: &Response) -> Outcome {
    assert_eq!(response.header("content-type"), Some("text/xml"));
    let root = parse(&response.body);
    if response.status == 200 {
        assert_eq!(root.name, format!("{action}Response"));
        assert!(root.has_namespace);
        let result = root
            .children
            .iter()
            .find(|child| child.name == format!("{action}Result"));
        assert!(root.children.iter().any(|child| child.name == "ResponseMetadata"));
        return Outcome::Answer(result.map_or_else(|| json!({}), structure));
    }
    assert_eq!(root.name, "ErrorResponse");
    let error = &root.children[0];
    let text = |name: &str| {
        error
            .children
            .iter()
            .find(|child| child.name == name)
            .unwrap()
            .text
            .clone()
    };
    Outcome::Error {
        status: response.status,
        code: text("Code"),
        // Fact 12: the one text that differs between the protocols.
        message: text("Message").replace("does not exist for this wsdl version.", "does not exist."),
    }
}

/// An element of an XML document.
#[derive(Debug, Default)]
struct Element {
    name: String,
    has_namespace: bool,
    text: String,
    children: Vec<Element>,
}

fn parse(xml: &str) -> Element {
    // A parser is free to turn it into LF, which this one does not.
    assert!(!xml.contains('\r'), "a raw CR in {xml}");
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut open: Vec<Element> = vec![Element::default()];
    let begin = |start: &quick_xml::events::BytesStart<'_>| Element {
        name: start.name().as_ref().to_owned(),
        has_namespace: start
            .attributes()
            .any(|attribute| attribute.unwrap().key.as_ref() == "xmlns"),
        ..Element::default()
    };
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => open.push(begin(&start)),
            Event::Empty(start) => open.last_mut().unwrap().children.push(begin(&start)),
            Event::End(_) => {
                let element = open.pop().unwrap();
                open.last_mut().unwrap().children.push(element);
            }
            Event::Text(text) => open.last_mut().unwrap().text.push_str(&text),
            Event::GeneralRef(reference) => {
                let character = match &*reference {
                    "amp" => '&',
                    "lt" => '<',
                    "gt" => '>',
                    "quot" => '"',
                    _ => reference.resolve_char_ref().unwrap().unwrap(),
                };
                open.last_mut().unwrap().text.push(character);
            }
            Event::Eof => break,
            Event::Decl(_) => {}
            other @ (Event::CData(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_)) => {
                panic!("unexpected {other:?}");
            }
        }
    }
    open.pop().unwrap().children.pop().unwrap()
}

/// Returns the JSON that stands for an element's content.
fn structure(element: &Element) -> Value {
    let mut members = Map::new();
    for child in &element.children {
        let mut push = |list: &str, value| {
            let list = members.entry(list).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(value);
        };
        match child.name.as_str() {
            "Message" if element.name == "ReceiveMessageResult" => push("Messages", structure(child)),
            "QueueUrl" if element.name == "ListQueuesResult" => push("QueueUrls", json!(child.text)),
            "QueueUrl" if element.name == "ListDeadLetterSourceQueuesResult" => {
                push("queueUrls", json!(child.text));
            }
            "ListMessageMoveTasksResultEntry" => push("Results", structure(child)),
            "BatchResultErrorEntry" => push("Failed", structure(child)),
            name if name.ends_with("BatchResultEntry") => push("Successful", structure(child)),
            "Attribute" | "MessageAttribute" | "Tag" => {
                let value = if child.children[1].children.is_empty() {
                    json!(child.children[1].text)
                } else {
                    structure(&child.children[1])
                };
                let map = members
                    .entry(format!("{}s", child.name))
                    .or_insert_with(|| json!({}));
                map[&child.children[0].text] = value;
            }
            "ApproximateNumberOfMessagesMoved"
            | "ApproximateNumberOfMessagesToMove"
            | "MaxNumberOfMessagesPerSecond"
            | "StartedTimestamp" => {
                let number: u64 = child.text.parse().unwrap();
                members.insert(child.name.clone(), json!(number));
            }
            "SenderFault" => {
                members.insert(child.name.clone(), json!(child.text == "true"));
            }
            _ => {
                members.insert(child.name.clone(), json!(child.text));
            }
        }
    }
    Value::Object(members)
}
