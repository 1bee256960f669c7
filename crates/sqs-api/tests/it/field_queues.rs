//! What broke for users of other queue servers, as far as it is about queues and the protocol. Each test bears the
//! number of its case. What a recording of AWS says goes before what the case asks for.

use auth::Mode;
use http::Request;
use serde_json::{Value, json};

use crate::client::{Client, in_both_protocols, text};
use crate::world::World;

const ABSENT: &str = "AWS.SimpleQueueService.NonExistentQueue";

fn create(client: &Client, request: Value) -> String {
    text(&client.ok("CreateQueue", request)["QueueUrl"])
}

#[test]
fn d01_create_queue_is_idempotent_and_names_what_differs() {
    in_both_protocols(|client| {
        let same = json!({"QueueName": "a", "Attributes": {"DelaySeconds": "3", "VisibilityTimeout": "7"}});
        let url = create(client, same.clone());
        assert_eq!(create(client, same), url);
        assert_eq!(create(client, json!({"QueueName": "a"})), url);
        let differs =
            json!({"QueueName": "a", "Attributes": {"DelaySeconds": "3", "VisibilityTimeout": "8"}});
        let (code, message) = client.refused("CreateQueue", differs);
        assert_eq!(code, "QueueAlreadyExists");
        assert!(message.ends_with("for attribute VisibilityTimeout"), "{message}");
        assert_eq!(client.attributes("a")["VisibilityTimeout"], "7");
    });
}

#[test]
fn d02_dead_letter_sources_are_listed_in_pages() {
    in_both_protocols(|client| {
        create(client, json!({"QueueName": "dead"}));
        let policy =
            r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":1}"#;
        for at in 0..7 {
            let name = format!("s-{at}");
            create(
                client,
                json!({"QueueName": name, "Attributes": {"RedrivePolicy": policy}}),
            );
        }
        let mut names = Vec::new();
        let mut token = Value::Null;
        for page in 0.. {
            let request = json!({"QueueUrl": "dead", "MaxResults": 3, "NextToken": token});
            let answer = client.ok("ListDeadLetterSourceQueues", request);
            let urls = answer["queueUrls"].as_array().unwrap();
            names.extend(
                urls.iter()
                    .map(|url| text(url).rsplit('/').next().unwrap().to_owned()),
            );
            let Some(next) = answer.get("NextToken") else {
                assert_eq!(page, 2);
                break;
            };
            token = next.clone();
        }
        let expected: Vec<String> = (0..7).map(|at| format!("s-{at}")).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn d03_counters_add_up_also_after_a_restart() {
    in_both_protocols(|client| {
        create(client, json!({"QueueName": "q"}));
        assert_eq!(client.counters("q"), [0, 0, 0]);
        client.ok(
            "SendMessage",
            json!({"QueueUrl": "q", "MessageBody": "delayed", "DelaySeconds": 9}),
        );
        client.ok("SendMessage", json!({"QueueUrl": "q", "MessageBody": "received"}));
        client.ok("SendMessage", json!({"QueueUrl": "q", "MessageBody": "waiting"}));
        let received = client.receive("q", json!({"MaxNumberOfMessages": 1}));
        assert_eq!(client.counters("q"), [1, 1, 1]);
        let all = client.attributes("q");
        for name in [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible",
        ] {
            assert_eq!(all[name], "1", "{name} among all");
        }
        client.world.restart();
        assert_eq!(client.counters("q"), [1, 1, 1], "after the restart");
        let handle = &received[0]["ReceiptHandle"];
        client.ok(
            "ChangeMessageVisibility",
            json!({"QueueUrl": "q", "ReceiptHandle": handle, "VisibilityTimeout": 0}),
        );
        assert_eq!(client.counters("q"), [2, 1, 0]);
        client.turn_to(9.0);
        assert_eq!(client.counters("q"), [3, 0, 0]);
    });
}

#[test]
fn d04_purge_takes_all_three_kinds() {
    in_both_protocols(|client| {
        create(client, json!({"QueueName": "q"}));
        let fifo = json!({"FifoQueue": "true"});
        create(client, json!({"QueueName": "q.fifo", "Attributes": fifo}));
        client.ok("SendMessage", json!({"QueueUrl": "q", "MessageBody": "received"}));
        let received = client.receive("q", json!({}));
        for delay in [0, 60] {
            let send = json!({"QueueUrl": "q", "MessageBody": "b", "DelaySeconds": delay});
            client.ok("SendMessage", send);
        }
        assert_eq!(client.counters("q"), [1, 1, 1]);
        client.ok("PurgeQueue", json!({"QueueUrl": "q"}));
        assert_eq!(client.counters("q"), [0, 0, 0]);
        client.delete("q", &received[0]);
        let (code, message) = client.refused("PurgeQueue", json!({"QueueUrl": "q"}));
        assert_eq!(code, "AWS.SimpleQueueService.PurgeQueueInProgress");
        assert_eq!(
            message,
            "Only one PurgeQueue operation on q is allowed every 60 seconds."
        );

        let send = json!({"QueueUrl": "q.fifo", "MessageBody": "b", "MessageGroupId": "g", "MessageDeduplicationId": "d"});
        let first = client.ok("SendMessage", send.clone());
        client.ok("PurgeQueue", json!({"QueueUrl": "q.fifo"}));
        let second = client.ok("SendMessage", send);
        assert_ne!(
            first["MessageId"], second["MessageId"],
            "the deduplication memory is cleared"
        );
        assert_eq!(client.counters("q.fifo"), [1, 0, 0]);
    });
}

#[test]
fn d05_a_missing_queue_has_its_shape_in_both_protocols() {
    let world = World::new();
    let json = world.json("SendMessage", r#"{"QueueUrl":"absent","MessageBody":"b"}"#);
    assert_eq!(json.status, 400);
    assert_eq!(json.value()["__type"], "com.amazonaws.sqs#QueueDoesNotExist");
    assert_eq!(
        json.header("x-amzn-query-error"),
        Some(format!("{ABSENT};Sender").as_str())
    );
    let query = world.form("/", "Action=SendMessage&QueueUrl=absent&MessageBody=b");
    assert_eq!(query.status, 400);
    assert!(
        query.body.contains(&format!("<Code>{ABSENT}</Code>")),
        "{}",
        query.body
    );
    for answer in [json, query] {
        assert!(answer.header("x-amzn-requestid").is_some());
    }
}

#[test]
fn d06_only_what_is_named_changes() {
    in_both_protocols(|client| {
        create(client, json!({"QueueName": "q"}));
        let bare = client.attributes("q");
        for name in ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"] {
            assert_eq!(bare.get(name), None, "{name}");
        }
        let set = |attributes: Value| {
            let request = json!({"QueueUrl": "q", "Attributes": attributes});
            client.ok("SetQueueAttributes", request);
        };
        set(json!({"VisibilityTimeout": "77"}));
        let mut expected = bare.clone();
        expected["VisibilityTimeout"] = json!("77");
        assert_eq!(client.attributes("q"), expected);
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:q","maxReceiveCount":1}"#;
        set(json!({"Policy": r#"{"Statement":[]}"#, "RedrivePolicy": policy}));
        assert_eq!(client.attributes("q")["RedrivePolicy"], policy);
        set(json!({"Policy": "", "RedrivePolicy": ""}));
        assert_eq!(client.attributes("q"), expected);
    });
}

#[test]
fn d06_a_new_delay_is_retroactive_for_fifo_queues_alone() {
    in_both_protocols(|client| {
        let fifo = json!({"FifoQueue": "true", "ContentBasedDeduplication": "true", "DelaySeconds": "100"});
        create(client, json!({"QueueName": "q.fifo", "Attributes": fifo}));
        create(
            client,
            json!({"QueueName": "q", "Attributes": {"DelaySeconds": "100"}}),
        );
        for queue in ["q", "q.fifo"] {
            for body in ["1", "2"] {
                let send = json!({"QueueUrl": queue, "MessageBody": body, "MessageGroupId": "g"});
                client.ok("SendMessage", send);
            }
            let set = json!({"QueueUrl": queue, "Attributes": {"DelaySeconds": "200"}});
            client.ok("SetQueueAttributes", set);
        }
        client.turn_to(100.0);
        assert_eq!(client.counters("q"), [2, 0, 0]);
        assert_eq!(client.counters("q.fifo"), [0, 2, 0], "put off");
        let set = json!({"QueueUrl": "q.fifo", "Attributes": {"DelaySeconds": "0"}});
        client.ok("SetQueueAttributes", set);
        assert_eq!(client.counters("q.fifo"), [2, 0, 0], "due at once");
        assert_eq!(client.bodies("q.fifo", json!({})), ["1", "2"]);
    });
}

#[test]
fn d07_tags_in_every_spelling() {
    let world = World::new();
    let tags = |queue: &str| {
        let request = json!({"QueueUrl": queue}).to_string();
        world.json("ListQueueTags", request).value()
    };
    let expected = json!({"Tags": {"team": "blue", "empty": ""}});
    for (queue, form) in [
        (
            "query-1",
            "Tag.1.Key=team&Tag.1.Value=blue&Tag.2.Key=empty&Tag.2.Value=",
        ),
        (
            "query-2",
            "Tags.1.Key=team&Tags.1.Value=blue&Tags.2.Key=empty&Tags.2.Value=",
        ),
    ] {
        let answer = world.form("/", format!("Action=CreateQueue&QueueName={queue}&{form}"));
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(tags(queue), expected);
    }
    for (queue, member) in [("json-1", "tags"), ("json-2", "Tags")] {
        let request = json!({"QueueName": queue, member: {"team": "blue", "empty": ""}});
        assert_eq!(world.json("CreateQueue", request.to_string()).status, 200);
        assert_eq!(tags(queue), expected);
    }
    for (queue, list) in [("query-1", "Tag"), ("query-2", "Tags")] {
        let form = format!("Action=TagQueue&QueueUrl={queue}&{list}.1.Key=team&{list}.1.Value=red");
        assert_eq!(world.form("/", form).status, 200);
        assert_eq!(tags(queue)["Tags"]["team"], "red");
    }
}

#[test]
fn d07_tags_are_overwritten_counted_and_gone() {
    in_both_protocols(|client| {
        create(client, json!({"QueueName": "q"}));
        let tag = |range: std::ops::Range<u32>| -> Value {
            range
                .map(|at| (format!("k{at}"), json!("v")))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        client.ok("TagQueue", json!({"QueueUrl": "q", "Tags": tag(0..49)}));
        client.ok(
            "TagQueue",
            json!({"QueueUrl": "q", "Tags": {"k0": "new", "empty": ""}}),
        );
        let (code, message) = client.refused("TagQueue", json!({"QueueUrl": "q", "Tags": tag(60..61)}));
        assert_eq!(
            (code.as_str(), message.as_str()),
            (
                "InvalidParameterValue",
                "Too many tags: a queue can have up to 50."
            )
        );
        let tags = client.ok("ListQueueTags", json!({"QueueUrl": "q"}))["Tags"].clone();
        assert_eq!((&tags["k0"], &tags["empty"]), (&json!("new"), &json!("")));
        let keys: Vec<&String> = tags.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 50);
        client.ok("UntagQueue", json!({"QueueUrl": "q", "TagKeys": keys}));
        assert_eq!(client.ok("ListQueueTags", json!({"QueueUrl": "q"})), json!({}));
    });
}

#[test]
fn d10_unknown_and_missing_actions_are_errors_of_the_protocol_that_was_spoken() {
    let world = World::new();
    let unknown = world.get("/?Action=ReceiveMessages");
    assert_eq!((unknown.status, unknown.code), (400, "InvalidAction"));
    assert!(unknown.body.starts_with("<?xml"), "{}", unknown.body);
    let unknown = world.json("ReceiveMessages", "{}");
    assert_eq!((unknown.status, unknown.code), (400, "InvalidAction"));
    assert!(unknown.value()["__type"].is_string());
    // The names of actions have their capitals.
    assert_eq!(world.json("receivemessage", "{}").code, "InvalidAction");
    for missing in [world.get("/"), world.form("/", "Version=2012-11-05")] {
        assert_eq!((missing.status, missing.code), (400, "MissingAction"));
    }
    // Recorded: on a queue's address it is 404, in XML whatever the client asked for.
    assert_eq!(world.get("/000000000000/q").status, 404);

    assert_eq!(world.get("/?Action=CreateQueue&QueueName=got").status, 200);
    let charset = world.form("/", "Action=CreateQueue&QueueName=posted&Version=2012-11-05");
    assert_eq!(charset.status, 200, "a form whose type has a charset");
    let untyped = Request::post("/").body(b"Action=CreateQueue&QueueName=untyped".to_vec());
    assert_eq!(world.call(untyped.unwrap()).status, 200);
}

#[test]
fn d23_redrive_policies_are_read_in_both_forms_and_shown_in_one() {
    in_both_protocols(|client| {
        for queue in ["dead", "q"] {
            create(client, json!({"QueueName": queue}));
        }
        let fifo = json!({"FifoQueue": "true"});
        create(client, json!({"QueueName": "q.fifo", "Attributes": fifo}));
        let arn = |queue: &str| format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
        let set = |queue: &str, name: &str, value: &Value| json!({"QueueUrl": queue, "Attributes": {name: value.to_string()}});
        let policy =
            |queue: &str, count: Value| json!({"deadLetterTargetArn": arn(queue), "maxReceiveCount": count});
        let canonical = format!(
            r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":5}}"#,
            arn("dead")
        );
        for count in [json!(5), json!("5")] {
            client.ok(
                "SetQueueAttributes",
                set("q", "RedrivePolicy", &policy("dead", count)),
            );
            assert_eq!(client.attributes("q")["RedrivePolicy"], canonical);
        }
        for wrong in [
            policy("dead", json!(0)),
            policy("dead", json!(1001)),
            json!({"deadLetterTargetArn": arn("dead")}),
            json!({"maxReceiveCount": 5}),
            policy("q.fifo", json!(5)),
        ] {
            let (code, _) = client.refused("SetQueueAttributes", set("q", "RedrivePolicy", &wrong));
            assert_eq!(code, "InvalidParameterValue", "{wrong}");
        }
        let fifo_to_standard = set("q.fifo", "RedrivePolicy", &policy("dead", json!(5)));
        assert_eq!(
            client.refused("SetQueueAttributes", fifo_to_standard).0,
            "InvalidParameterValue"
        );
        assert_eq!(
            client.attributes("q")["RedrivePolicy"],
            canonical,
            "no refusal changed it"
        );
        // Recorded: a queue may be its own dead-letter queue.
        client.ok(
            "SetQueueAttributes",
            set("q", "RedrivePolicy", &policy("q", json!(5))),
        );

        let by_queue = json!({"redrivePermission": "byQueue", "sourceQueueArns": [arn("other")]});
        for refusing in [by_queue, json!({"redrivePermission": "denyAll"})] {
            client.ok("SetQueueAttributes", set("dead", "RedriveAllowPolicy", &refusing));
            let request = set("q", "RedrivePolicy", &policy("dead", json!(5)));
            assert_eq!(
                client.refused("SetQueueAttributes", request).0,
                "InvalidParameterValue"
            );
        }
        let allowing = json!({"redrivePermission": "allowAll"});
        client.ok("SetQueueAttributes", set("dead", "RedriveAllowPolicy", &allowing));
        assert_eq!(
            client.attributes("dead")["RedriveAllowPolicy"],
            allowing.to_string()
        );
        client.ok(
            "SetQueueAttributes",
            set("q", "RedrivePolicy", &policy("dead", json!(5))),
        );
    });
}

#[test]
fn d24_settings_survive_a_restart() {
    in_both_protocols(|client| {
        create(client, json!({"QueueName": "dead"}));
        let arn = |queue: &str| format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
        create(
            client,
            json!({"QueueName": "q", "tags": {"team": "blue", "empty": ""}, "Attributes": {
                "DelaySeconds": "7",
                "VisibilityTimeout": "8",
                "MessageRetentionPeriod": "999",
                "MaximumMessageSize": "2048",
                "ReceiveMessageWaitTimeSeconds": "9",
                "Policy": r#"{"Statement": []}"#,
                "RedrivePolicy": json!({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 3}).to_string(),
                "RedriveAllowPolicy": r#"{"redrivePermission":"denyAll"}"#,
                "KmsMasterKeyId": "alias/k",
                "KmsDataKeyReusePeriodSeconds": "60",
            }}),
        );
        create(
            client,
            json!({"QueueName": "q.fifo", "Attributes": {
                "FifoQueue": "true",
                "ContentBasedDeduplication": "true",
                "DeduplicationScope": "messageGroup",
                "FifoThroughputLimit": "perMessageGroupId",
            }}),
        );
        let state = |client: &Client| {
            let of = |queue: &str| {
                let tags = client.ok("ListQueueTags", json!({"QueueUrl": queue}));
                (client.attributes(queue), tags)
            };
            let sources = client.ok("ListDeadLetterSourceQueues", json!({"QueueUrl": "dead"}));
            (of("q"), of("q.fifo"), sources)
        };
        let before = state(client);
        client.world.restart();
        assert_eq!(state(client), before);
        assert_eq!(before.0.0["DelaySeconds"], "7");
    });
}

#[test]
fn d29_every_address_of_a_server_works_as_it_is_given() {
    for public in [
        "http://127.0.0.1:45123",
        "https://mq.example/mq",
        "https://mq.example/mq/",
    ] {
        let world = World::with(Mode::Dev, Some(public));
        let prefix = if public.contains("/mq") { "/mq" } else { "" };
        let created = world.json_at(&format!("{prefix}/"), "CreateQueue", r#"{"QueueName":"q"}"#);
        let url = text(&created.value()["QueueUrl"]);
        let base = public.trim_end_matches('/');
        assert_eq!(url, format!("{base}/000000000000/q"));
        // The proxy takes the prefix off or leaves it.
        for prefix in [prefix, ""] {
            for root in [prefix.to_owned(), format!("{prefix}/")] {
                if root.is_empty() {
                    continue;
                }
                let created = world.form(&root, "Action=CreateQueue&QueueName=form");
                assert_eq!(created.status, 200, "{root}: {}", created.body);
                let missing = world.form(&root, "Action=SendMessage&MessageBody=b");
                assert_eq!(missing.code, "MissingParameter", "{root}");
            }
            let path = format!("{prefix}/000000000000/q");
            assert_eq!(
                world.json_at(&path, "SendMessage", r#"{"MessageBody":"b"}"#).code,
                "ok"
            );
            assert_eq!(
                world.form(&path, "Action=SendMessage&MessageBody=b").code,
                "ok",
                "{path}"
            );
            let refused = world.form(&path, "Action=CreateQueue&QueueName=x");
            assert_eq!(refused.code, "InvalidAction", "{path}");
        }
        let send = json!({"QueueUrl": url, "MessageBody": "b"});
        assert_eq!(world.json("SendMessage", send.to_string()).code, "ok");
        for path in ["/queue/q", "/q"] {
            assert_eq!(
                world.form(path, "Action=SendMessage&MessageBody=b").code,
                "ok",
                "{path}"
            );
        }
    }
}
