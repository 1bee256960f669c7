//! Queue policies as they are evaluated: other accounts, explicit denies, and what no policy can give or take.

use serde_json::{Value, json};

use crate::world::{Response, World};

const OWNER: &str = "000000000000";
const FRIEND: &str = "111111111111";
const STRANGER: &str = "222222222222";
const ABSENT: &str = "AWS.SimpleQueueService.NonExistentQueue";

/// A world with the owner's queue `q`.
fn with_queue() -> World {
    let world = World::new();
    ask(&world, OWNER, "CreateQueue", json!({"QueueName": "q"}));
    world
}

fn ask(world: &World, account: &str, action: &str, request: Value) -> Response {
    world.json_as(account, action, request.to_string())
}

fn url() -> String {
    format!("http://localhost:4100/{OWNER}/q")
}

fn set_policy(world: &World, statements: Value) {
    let policy = json!({"Version": "2012-10-17", "Statement": statements}).to_string();
    let request = json!({"QueueUrl": "q", "Attributes": {"Policy": policy}});
    assert_eq!(ask(world, OWNER, "SetQueueAttributes", request).code, "ok");
}

fn statement(effect: &str, principal: &str, action: &str) -> Value {
    json!({
        "Effect": effect,
        "Principal": {"AWS": principal},
        "Action": action,
        "Resource": format!("arn:aws:sqs:us-east-1:{OWNER}:q"),
    })
}

/// Every action about a queue, with a request that succeeds or fails for another reason once it is let in.
fn all_actions(handle: &str) -> Vec<(&'static str, Value)> {
    let entry = json!({"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 1, "MessageBody": "b"});
    let arn = format!("arn:aws:sqs:us-east-1:{OWNER}:q");
    vec![
        ("SendMessage", json!({"QueueUrl": url(), "MessageBody": "b"})),
        ("SendMessageBatch", json!({"QueueUrl": url(), "Entries": [entry]})),
        ("ReceiveMessage", json!({"QueueUrl": url()})),
        (
            "ChangeMessageVisibility",
            json!({"QueueUrl": url(), "ReceiptHandle": handle, "VisibilityTimeout": 1}),
        ),
        (
            "ChangeMessageVisibilityBatch",
            json!({"QueueUrl": url(), "Entries": [entry]}),
        ),
        (
            "DeleteMessage",
            json!({"QueueUrl": url(), "ReceiptHandle": handle}),
        ),
        (
            "DeleteMessageBatch",
            json!({"QueueUrl": url(), "Entries": [entry]}),
        ),
        (
            "GetQueueUrl",
            json!({"QueueName": "q", "QueueOwnerAWSAccountId": OWNER}),
        ),
        ("PurgeQueue", json!({"QueueUrl": url()})),
        (
            "GetQueueAttributes",
            json!({"QueueUrl": url(), "AttributeNames": ["All"]}),
        ),
        // From here on the owner's alone.
        (
            "AddPermission",
            json!({"QueueUrl": url(), "Label": "l", "AWSAccountIds": [FRIEND], "Actions": ["*"]}),
        ),
        ("RemovePermission", json!({"QueueUrl": url(), "Label": "l"})),
        (
            "SetQueueAttributes",
            json!({"QueueUrl": url(), "Attributes": {"DelaySeconds": "0"}}),
        ),
        ("TagQueue", json!({"QueueUrl": url(), "Tags": {"a": "b"}})),
        ("ListQueueTags", json!({"QueueUrl": url()})),
        ("UntagQueue", json!({"QueueUrl": url(), "TagKeys": ["a"]})),
        ("ListDeadLetterSourceQueues", json!({"QueueUrl": url()})),
        ("StartMessageMoveTask", json!({"SourceArn": arn})),
        ("ListMessageMoveTasks", json!({"SourceArn": arn})),
        ("DeleteQueue", json!({"QueueUrl": url()})),
    ]
}

/// How many of these a policy can give to others, and how many it can take from the owner.
const GIVEN: usize = 10;
const TAKEN: usize = 9;

fn handle(world: &World) -> String {
    ask(
        world,
        OWNER,
        "SendMessage",
        json!({"QueueUrl": "q", "MessageBody": "first"}),
    );
    let received = ask(world, OWNER, "ReceiveMessage", json!({"QueueUrl": "q"})).value();
    received["Messages"][0]["ReceiptHandle"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn d30_management_never_crosses_accounts_and_the_rest_does_where_it_is_allowed() {
    let world = with_queue();
    let handle = handle(&world);
    let actions = all_actions(&handle);
    for (action, request) in &actions {
        let answer = ask(&world, FRIEND, action, request.clone());
        assert!(
            [ABSENT, "ResourceNotFoundException"].contains(&answer.code),
            "{action} without a policy: {}",
            answer.code
        );
    }
    set_policy(&world, json!([statement("Allow", FRIEND, "sqs:*")]));
    for (at, (action, request)) in actions.iter().enumerate() {
        let answer = ask(&world, FRIEND, action, request.clone());
        assert_eq!(answer.code == "ok", at < GIVEN, "{action}: {}", answer.body);
        let answer = ask(&world, STRANGER, action, request.clone());
        assert_ne!(answer.code, "ok", "{action}");
    }
}

#[test]
fn d30_what_is_not_allowed_looks_like_what_is_not_there() {
    let world = with_queue();
    set_policy(&world, json!([statement("Allow", FRIEND, "sqs:SendMessage")]));
    let not_there = format!("http://localhost:4100/{OWNER}/absent");
    for account in [FRIEND, STRANGER] {
        let there = ask(&world, account, "ReceiveMessage", json!({"QueueUrl": url()}));
        let absent = ask(&world, account, "ReceiveMessage", json!({"QueueUrl": not_there}));
        assert_eq!((there.status, &there.body), (absent.status, &absent.body));
        assert_eq!(
            there.header("x-amzn-query-error"),
            absent.header("x-amzn-query-error")
        );
    }
    // Batches are checked under the name of the single action, and the path of a Query request names the queue too.
    let batch = json!({"QueueUrl": url(), "Entries": [{"Id": "a", "MessageBody": "b"}]});
    assert_eq!(ask(&world, FRIEND, "SendMessageBatch", batch.clone()).code, "ok");
    assert_eq!(ask(&world, STRANGER, "SendMessageBatch", batch).code, ABSENT);
    let get = |account: &str| {
        let query =
            format!("Action=SendMessage&MessageBody=b&X-Amz-Credential={account}%2F20231114%2Fus-east-1");
        world.get(&format!("/{OWNER}/q?{query}")).code
    };
    assert_eq!((get(FRIEND), get(STRANGER)), ("ok", ABSENT));
}

#[test]
fn d30_a_consumer_of_another_account_works_with_its_handles() {
    let world = with_queue();
    ask(
        &world,
        OWNER,
        "AddPermission",
        json!({
            "QueueUrl": "q",
            "Label": "consume",
            "AWSAccountIds": [FRIEND],
            "Actions": ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"],
        }),
    );
    ask(
        &world,
        OWNER,
        "SendMessage",
        json!({"QueueUrl": "q", "MessageBody": "b"}),
    );
    let received = ask(&world, FRIEND, "ReceiveMessage", json!({"QueueUrl": url()})).value();
    let handle = &received["Messages"][0]["ReceiptHandle"];
    let change = json!({"QueueUrl": url(), "ReceiptHandle": handle, "VisibilityTimeout": 60});
    assert_eq!(ask(&world, FRIEND, "ChangeMessageVisibility", change).code, "ok");
    // The handle does not open a queue of the same name that is the consumer's own.
    ask(&world, FRIEND, "CreateQueue", json!({"QueueName": "q"}));
    let own = json!({"QueueUrl": "q", "ReceiptHandle": handle});
    assert_eq!(
        ask(&world, FRIEND, "DeleteMessage", own).code,
        "ReceiptHandleIsInvalid"
    );
    let delete = json!({"QueueUrl": url(), "ReceiptHandle": handle});
    assert_eq!(ask(&world, FRIEND, "DeleteMessage", delete).code, "ok");
    let counters = ask(
        &world,
        OWNER,
        "GetQueueAttributes",
        json!({"QueueUrl": "q", "AttributeNames": ["ApproximateNumberOfMessagesNotVisible"]}),
    );
    assert_eq!(
        counters.value()["Attributes"]["ApproximateNumberOfMessagesNotVisible"],
        "0"
    );
    let remove = json!({"QueueUrl": "q", "Label": "consume"});
    assert_eq!(ask(&world, OWNER, "RemovePermission", remove).code, "ok");
    let receive = json!({"QueueUrl": url()});
    assert_eq!(ask(&world, FRIEND, "ReceiveMessage", receive).code, ABSENT);
}

#[test]
fn d30_a_deny_binds_the_owner_too_but_does_not_lock_him_out() {
    let world = with_queue();
    let handle = handle(&world);
    set_policy(
        &world,
        json!([statement("Allow", "*", "sqs:*"), statement("Deny", "*", "sqs:*")]),
    );
    for (at, (action, request)) in all_actions(&handle).into_iter().enumerate() {
        let answer = ask(&world, FRIEND, action, request.clone());
        assert_ne!(answer.code, "ok", "{action}");
        let answer = ask(&world, OWNER, action, request);
        assert_eq!(
            answer.code == "AccessDenied",
            at < TAKEN,
            "{action}: {}",
            answer.body
        );
        if at < TAKEN {
            assert_eq!(answer.status, 403);
            let text = format!("Access to the resource arn:aws:sqs:us-east-1:{OWNER}:q is denied.");
            assert_eq!(answer.value()["message"], text);
        }
    }
    let gone = ask(
        &world,
        OWNER,
        "SendMessage",
        json!({"QueueUrl": "q", "MessageBody": "b"}),
    );
    assert_eq!(gone.code, ABSENT, "the last of them deleted the queue");
}

#[test]
fn d30_a_deny_wins_over_every_allow_and_everybody_is_a_principal() {
    let world = with_queue();
    set_policy(
        &world,
        json!([
            statement("Deny", FRIEND, "sqs:ReceiveMessage"),
            statement("Allow", "*", "sqs:*"),
        ]),
    );
    let receive = json!({"QueueUrl": url()});
    assert_eq!(
        ask(&world, FRIEND, "ReceiveMessage", receive.clone()).code,
        ABSENT
    );
    assert_eq!(
        ask(&world, STRANGER, "ReceiveMessage", receive.clone()).code,
        "ok"
    );
    assert_eq!(ask(&world, OWNER, "ReceiveMessage", receive.clone()).code, "ok");
    // Taken away, a policy allows nothing.
    let request = json!({"QueueUrl": "q", "Attributes": {"Policy": ""}});
    ask(&world, OWNER, "SetQueueAttributes", request);
    assert_eq!(
        ask(&world, STRANGER, "ReceiveMessage", receive.clone()).code,
        ABSENT
    );
    // A text that is no policy allows nothing, and does not stand in its owner's way.
    let request = json!({"QueueUrl": "q", "Attributes": {"Policy": r#"{"Statement":"nonsense"}"#}});
    assert_eq!(ask(&world, OWNER, "SetQueueAttributes", request).code, "ok");
    assert_eq!(
        ask(&world, STRANGER, "ReceiveMessage", receive.clone()).code,
        ABSENT
    );
    assert_eq!(ask(&world, OWNER, "ReceiveMessage", receive).code, "ok");
}

#[test]
fn a_policy_is_in_force_after_a_restart() {
    let mut world = with_queue();
    set_policy(&world, json!([statement("Allow", FRIEND, "sqs:SendMessage")]));
    world.restart();
    let send = json!({"QueueUrl": url(), "MessageBody": "b"});
    assert_eq!(ask(&world, FRIEND, "SendMessage", send.clone()).code, "ok");
    assert_eq!(ask(&world, STRANGER, "SendMessage", send).code, ABSENT);
}

#[test]
fn permissions_that_are_changed_at_the_same_time_are_all_kept() {
    let world = with_queue();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let call = |action: &'static str, request: Value| {
        let api = world.api.clone();
        async move {
            let request = crate::world::json_request(action, request.to_string());
            crate::world::call(&api, request).await.code
        }
    };
    let add = |label: usize| {
        json!({
            "QueueUrl": "q",
            "Label": format!("l{label}"),
            "AWSAccountIds": [FRIEND],
            "Actions": ["SendMessage"],
        })
    };
    let codes = runtime.block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        (0..20).for_each(|at| drop(calls.spawn(call("AddPermission", add(at)))));
        calls.join_all().await
    });
    assert!(codes.iter().all(|code| *code == "ok"), "{codes:?}");
    let labels = |world: &World| -> Vec<String> {
        let answer = ask(
            world,
            OWNER,
            "GetQueueAttributes",
            json!({"QueueUrl": "q", "AttributeNames": ["Policy"]}),
        );
        let policy = answer.value()["Attributes"]["Policy"]
            .as_str()
            .unwrap()
            .to_owned();
        let policy: Value = serde_json::from_str(&policy).unwrap();
        let statements = policy["Statement"].as_array().unwrap();
        let mut labels: Vec<_> = statements
            .iter()
            .map(|statement| statement["Sid"].as_str().unwrap().to_owned())
            .collect();
        labels.sort();
        labels
    };
    assert_eq!(labels(&world).len(), 20);
    let full = ask(&world, OWNER, "AddPermission", add(20));
    assert_eq!((full.status, full.code), (403, "OverLimit"));
    let codes = runtime.block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..19 {
            let request = json!({"QueueUrl": "q", "Label": format!("l{at}")});
            calls.spawn(call("RemovePermission", request));
        }
        calls.join_all().await
    });
    assert!(codes.iter().all(|code| *code == "ok"), "{codes:?}");
    assert_eq!(labels(&world), ["l19"]);
}
