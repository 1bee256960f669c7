//! Addresses, headers, content negotiation and accounts: what a case file cannot say.

use auth::Mode;
use http::Request;
use serde_json::{Value, json};
use sqs_api::Refusal;

use crate::world::{HOST, Response, World, refuse};

fn with_queue() -> World {
    let world = World::new();
    assert_eq!(world.json("CreateQueue", r#"{"QueueName":"q"}"#).status, 200);
    world
}

fn body(response: &Response) -> Value {
    serde_json::from_str(&response.body).unwrap()
}

// Facts 2, 25 and 26.
#[test]
fn json_is_served_at_a_queues_own_address() {
    let world = with_queue();
    for path in ["/", "/000000000000/q", "/anything"] {
        let answer = world.json_at(path, "ListQueues", "{}");
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/x-amz-json-1.0")),
            "{path}"
        );
    }
    let sent = world.json_at("/000000000000/q", "SendMessage", r#"{"MessageBody":"b"}"#);
    assert_eq!(sent.status, 200, "{}", sent.body);
    // The parameter wins over the path.
    let sent = world.json_at(
        "/000000000000/absent",
        "SendMessage",
        r#"{"QueueUrl":"q","MessageBody":"b"}"#,
    );
    assert_eq!(sent.status, 200, "{}", sent.body);
}

// Facts 14, 15, 16, 25, 26, 28, 31, 32 and 71.
#[test]
fn query_is_served_at_a_queues_own_address() {
    let world = with_queue();
    let sent = world.get("/000000000000/q?Action=SendMessage&MessageBody=hello+world");
    assert_eq!((sent.status, sent.action, sent.code), (200, "SendMessage", "ok"));
    assert!(
        sent.body
            .contains("<SendMessageResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">")
    );
    for path in [
        "/000000000000/q",
        "/queue/us-east-1/000000000000/q",
        "/queue/q",
        "/q",
        "/000000000000/q/",
    ] {
        let got = world.form(
            path,
            "Action=GetQueueAttributes&AttributeName.1=QueueArn&Version=2012-11-05",
        );
        let expected =
            "<Attribute><Name>QueueArn</Name><Value>arn:aws:sqs:us-east-1:000000000000:q</Value></Attribute>";
        assert!(got.body.contains(expected), "{path}: {}", got.body);
    }
    let wins = world.get("/000000000000/absent?Action=GetQueueAttributes&QueueUrl=q&AttributeName.1=All");
    assert_eq!(wins.status, 200);
    let url = world.get("/000000000000/q?Action=GetQueueUrl&QueueName=q&QueueOwnerAWSAccountId=000000000000");
    assert!(
        url.body
            .contains(&format!("<QueueUrl>http://{HOST}/000000000000/q</QueueUrl>")),
        "{}",
        url.body
    );
    let received = world.get("/000000000000/q?Action=ReceiveMessage&AttributeName=All");
    assert!(
        received.body.contains("<Body>hello world</Body>"),
        "{}",
        received.body
    );
    assert!(
        received.body.contains("<Attribute><Name>SenderId</Name>"),
        "{}",
        received.body
    );
    let empty = world.get("/000000000000/q?Action=ReceiveMessage");
    assert!(empty.body.contains("<ReceiveMessageResult/>"), "{}", empty.body);
    let deleted = world.get("/000000000000/q?Action=DeleteQueue");
    assert!(
        deleted.body.contains("<DeleteQueueResponse xmlns="),
        "{}",
        deleted.body
    );
    let gone = world.get("/000000000000/q?Action=GetQueueAttributes&AttributeName.1=All");
    assert_eq!(
        (gone.status, gone.code),
        (400, "AWS.SimpleQueueService.NonExistentQueue")
    );
    assert!(
        gone.body
            .contains("<Message>The specified queue does not exist for this wsdl version.</Message>")
    );
}

// Fact 27.
#[test]
fn what_is_no_action_here_is_said_in_the_protocol_of_the_request() {
    let world = with_queue();
    let check = |answer: Response, status: u16, code: &str, part: &str| {
        assert_eq!((answer.status, answer.code), (status, code));
        assert!(answer.body.contains(part), "{}", answer.body);
        assert!(answer.header("x-amzn-requestid").is_some());
    };
    let queue = "/000000000000/q";
    for action in ["CreateQueue", "ListQueues", "FooBar"] {
        let answer = world.get(&format!("{queue}?Action={action}&QueueName=x"));
        let text = format!("<Message>The action {action} is not valid for this endpoint.</Message>");
        check(answer, 400, "InvalidAction", &text);
    }
    check(
        world.get("/?Action=ReceiveMessages"),
        400,
        "InvalidAction",
        "<Code>InvalidAction</Code>",
    );
    check(
        world.json("ReceiveMessages", "{}"),
        400,
        "InvalidAction",
        "\"__type\":\"com.amazon",
    );
    check(
        world.json("sendmessage", "{}"),
        400,
        "InvalidAction",
        "\"message\"",
    );
    check(world.get("/"), 400, "MissingAction", "<Code>MissingAction</Code>");
    check(
        world.form("/", ""),
        400,
        "MissingAction",
        "<Code>MissingAction</Code>",
    );
    check(
        world.form(queue, "Action="),
        400,
        "MissingAction",
        "<Code>MissingAction</Code>",
    );
    let untargeted = Request::post("/").header("content-type", "application/x-amz-json-1.0");
    check(
        world.call(untargeted.body(b"{}".to_vec()).unwrap()),
        400,
        "MissingAction",
        "\"__type\"",
    );
    let put = Request::put("/").body(Vec::new()).unwrap();
    check(world.call(put), 405, "MethodNotAllowed", "<ErrorResponse");
}

// Fact 29.
#[test]
fn a_queues_address_opened_without_an_action_answers_404_in_xml() {
    let world = with_queue();
    for accept in ["*/*", "application/json"] {
        let request = Request::get("/000000000000/q").header("accept", accept);
        let answer = world.call(request.body(Vec::new()).unwrap());
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("text/xml"))
        );
        assert!(
            answer.body.contains("<UnknownOperationException"),
            "{}",
            answer.body
        );
    }
}

// Facts 3, 10 and 30.
#[test]
fn a_missing_parameter_is_named() {
    let world = with_queue();
    let answer = world.get("/000000000000/q?Action=SendMessage");
    assert_eq!(answer.status, 400);
    let expected = "<Error><Type>Sender</Type><Code>MissingParameter</Code><Message>The request must contain the \
                    parameter MessageBody.</Message><Detail/></Error>";
    assert!(answer.body.contains(expected), "{}", answer.body);
    let answer = world.json("SendMessage", r#"{"QueueUrl":"q"}"#);
    assert_eq!(
        answer.header("x-amzn-query-error"),
        Some("MissingParameter;Sender")
    );
    assert_eq!(
        body(&answer)["__type"],
        "com.amazon.coral.service#MissingRequiredParameterException"
    );
}

// Facts 3, 9, 11 and 12.
#[test]
fn a_missing_queue_has_its_code_in_both_protocols() {
    let world = World::new();
    let answer = world.json("GetQueueUrl", r#"{"QueueName":"absent"}"#);
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.header("x-amzn-query-error"),
        Some("AWS.SimpleQueueService.NonExistentQueue;Sender")
    );
    assert_eq!(
        body(&answer),
        json!({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "The specified queue does not exist."})
    );
}

// Facts 22, 23 and 24.
#[test]
fn a_query_client_gets_json_if_it_asks() {
    let world = with_queue();
    world.json("SendMessage", r#"{"QueueUrl":"q","MessageBody":"b"}"#);
    let get = |query: &str| {
        let request = Request::get(format!("/000000000000/q?{query}")).header("accept", "application/json");
        world.call(request.body(Vec::new()).unwrap())
    };
    let request = Request::get("/?Action=ListQueues").header("accept", "application/json");
    let listed = world.call(request.body(Vec::new()).unwrap());
    assert_eq!(listed.header("content-type"), Some("application/json"));
    assert!(body(&listed)["ListQueuesResponse"]["ListQueuesResult"].is_object());
    let received = get("Action=ReceiveMessage");
    let messages = body(&received)["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"].clone();
    assert_eq!(messages[0]["Body"], "b");
    let attributes = get("Action=GetQueueAttributes&AttributeName.1=VisibilityTimeout");
    assert_eq!(
        body(&attributes)["GetQueueAttributesResponse"]["GetQueueAttributesResult"]["Attributes"],
        json!([{"Name": "VisibilityTimeout", "Value": "30"}])
    );
    let error = get("Action=SendMessage");
    assert_eq!(
        (error.status, body(&error)["Error"]["Code"].clone()),
        (400, json!("MissingParameter"))
    );
}

// Fact 85.
#[test]
fn the_trace_header_of_the_request_is_kept() {
    let world = with_queue();
    let trace = "Root=1-5f2a0000-000000000000000000000000";
    let json = Request::post("/")
        .header("x-amz-target", "AmazonSQS.SendMessage")
        .header("X-Amzn-Trace-Id", trace)
        .body(br#"{"QueueUrl":"q","MessageBody":"b"}"#.to_vec());
    let query = Request::get("/000000000000/q?Action=SendMessage&MessageBody=b")
        .header("X-Amzn-Trace-Id", trace)
        .body(Vec::new());
    for request in [json.unwrap(), query.unwrap()] {
        let sent = world.call(request);
        assert_eq!(sent.status, 200);
        assert!(!sent.body.contains("MD5OfMessageSystemAttributes"));
        let received = world.json(
            "ReceiveMessage",
            r#"{"QueueUrl":"q","AttributeNames":["AWSTraceHeader"]}"#,
        );
        assert_eq!(
            body(&received)["Messages"][0]["Attributes"],
            json!({"AWSTraceHeader": trace})
        );
    }
}

#[test]
fn queue_urls_begin_with_the_clients_address_or_the_public_one() {
    let url_of = |world: &World| {
        let request = Request::post("/")
            .header("host", "proxy.example:8080")
            .header("x-amz-target", "AmazonSQS.CreateQueue")
            .body(br#"{"QueueName":"q"}"#.to_vec());
        body(&world.call(request.unwrap()))["QueueUrl"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(url_of(&World::new()), "http://proxy.example:8080/000000000000/q");
    let public = World::with(Mode::Dev, Some("https://mq.example/sqs/"));
    let url = url_of(&public);
    assert_eq!(url, "https://mq.example/sqs/000000000000/q");
    let sent = public.json(
        "SendMessage",
        json!({"QueueUrl": url, "MessageBody": "b"}).to_string(),
    );
    assert_eq!(sent.status, 200);
}

#[test]
fn another_accounts_queue_is_a_missing_queue() {
    let world = with_queue();
    let as_account = |account: &str, action: &str, request: Value| {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={account}/20231114/us-east-1/sqs/aws4_request, SignedHeaders=host, \
             Signature={}",
            "0".repeat(64)
        );
        let request = Request::post("/")
            .header("x-amz-target", format!("AmazonSQS.{action}"))
            .header("authorization", authorization)
            .body(request.to_string().into_bytes());
        world.call(request.unwrap())
    };
    let own = as_account("111111111111", "CreateQueue", json!({"QueueName": "q"}));
    assert_eq!(body(&own)["QueueUrl"], format!("http://{HOST}/111111111111/q"));
    let url = format!("http://{HOST}/000000000000/q");
    let foreign = as_account(
        "111111111111",
        "SendMessage",
        json!({"QueueUrl": url, "MessageBody": "b"}),
    );
    let missing = as_account(
        "111111111111",
        "SendMessage",
        json!({"QueueUrl": "absent", "MessageBody": "b"}),
    );
    assert_eq!((foreign.status, &foreign.body), (400, &missing.body));
    assert_eq!(
        foreign.header("x-amzn-query-error"),
        missing.header("x-amzn-query-error")
    );

    // A receipt handle is good for its account alone.
    world.json("SendMessage", r#"{"QueueUrl":"q","MessageBody":"b"}"#);
    let received = body(&world.json("ReceiveMessage", r#"{"QueueUrl":"q"}"#));
    let handle = received["Messages"][0]["ReceiptHandle"].clone();
    let stolen = as_account(
        "111111111111",
        "DeleteMessage",
        json!({"QueueUrl": "q", "ReceiptHandle": handle}),
    );
    assert_eq!(stolen.code, "ReceiptHandleIsInvalid");
}

// Fact 19.
#[test]
fn the_parameters_of_a_presigned_url_are_no_input_and_name_the_account() {
    let world = World::new();
    let signature = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=111111111111%2F20231114%2Fus-east-1%2Fsqs%2F\
                     aws4_request&X-Amz-Date=20231114T221320Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host\
                     &X-Amz-Signature=0000";
    let created = world.get(&format!("/?Action=CreateQueue&QueueName=q&{signature}"));
    let url = format!("<QueueUrl>http://{HOST}/111111111111/q</QueueUrl>");
    assert!(created.body.contains(&url), "{}", created.body);
    let sent = world.get(&format!(
        "/111111111111/q?Action=SendMessage&MessageBody=b&{signature}"
    ));
    assert_eq!((sent.status, sent.code), (200, "ok"));
    assert_eq!(
        world
            .get("/?Action=ListQueues")
            .body
            .matches("<QueueUrl>")
            .count(),
        0,
        "another account's"
    );
}

#[test]
fn unsigned_requests_are_refused_where_keys_are_needed() {
    let world = World::with(Mode::Keys, None);
    let json = world.json("ListQueues", "{}");
    assert_eq!(
        (json.status, json.code, json.action),
        (403, "MissingAuthenticationToken", "unknown")
    );
    assert_eq!(body(&json)["message"], "Request is missing Authentication Token");
    let query = world.get("/?Action=ListQueues");
    assert_eq!(query.status, 403);
    assert!(query.body.contains("<Code>MissingAuthenticationToken</Code>"));
}

#[test]
fn the_server_refuses_in_the_protocol_of_the_request() {
    let json = Request::post("/")
        .header("x-amz-target", "AmazonSQS.SendMessage")
        .body(())
        .unwrap();
    let query = Request::get("/?Action=SendMessage").body(()).unwrap();
    for (kind, status, code) in [
        (Refusal::BodyTooLarge, 413, "RequestEntityTooLarge"),
        (Refusal::BodyIncomplete, 408, "RequestTimeout"),
        (Refusal::Overloaded, 503, "ServiceUnavailable"),
        (Refusal::Stopping, 503, "ServiceUnavailable"),
        (Refusal::Internal, 500, "InternalFailure"),
    ] {
        let refused = refuse(&json, kind);
        assert_eq!((refused.status, refused.code), (status, code));
        assert!(body(&refused)["__type"].is_string());
        let fault = if status < 500 { "Sender" } else { "Receiver" };
        assert_eq!(
            refused.header("x-amzn-query-error"),
            Some(format!("{code};{fault}").as_str())
        );
        assert_eq!(refused.header("retry-after").is_some(), status == 503);
        let refused = refuse(&query, kind);
        assert!(
            refused
                .body
                .contains(&format!("<Type>{fault}</Type><Code>{code}</Code>")),
            "{}",
            refused.body
        );
    }
}
