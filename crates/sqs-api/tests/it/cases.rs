//! Case files: steps and expected answers, each run in both protocols.
//!
//! A step is `<milliseconds> <action> <JSON of the request>`. The line below may hold what is expected: `= <JSON>`, or
//! `! <status> <code> <message>`; without it the step has to succeed. `$1` is the first receipt handle that was
//! received, `@1` the first message id that was answered, `%1` the first handle of a move task. The queues `q` and `q.fifo` exist. `UPDATE_CASES=1` writes
//! what is answered in place of what was expected.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::answer::{self, Outcome};
use crate::flat;
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Json,
    Query,
}

/// A line of a case file, or a step with what it expects.
enum Part {
    Remark(String),
    Step(Step),
}

struct Step {
    line: usize,
    time: Duration,
    action: String,
    request: String,
    expected: Option<String>,
}

// Fact 1: the two protocols give the same results.
#[test]
fn every_case_file_holds_in_both_protocols() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let failures: Vec<String> = files.iter().flat_map(|file| run_file(file)).collect();
    assert!(
        failures.is_empty(),
        "\n{}\nUPDATE_CASES=1 accepts these answers.",
        failures.join("\n")
    );
}

fn run_file(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let parts = read(&std::fs::read_to_string(path).unwrap());
    assert!(
        matches!(&parts[0], Part::Remark(text) if text.starts_with("# ")),
        "{name} says what it shows"
    );
    let mut answers = run(&parts, Protocol::Json);
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(path, updated(&parts, &mut answers.iter())).unwrap();
        return Vec::new();
    }
    let mut failures = differences(&name, &parts, &answers, Protocol::Json);
    answers = run(&parts, Protocol::Query);
    failures.extend(differences(&name, &parts, &answers, Protocol::Query));
    failures
}

fn read(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with(['=', '!']) {
            let Some(Part::Step(step)) = parts.last_mut() else {
                panic!("line {}: nothing is asked", at + 1);
            };
            step.expected = Some(line.to_owned());
        } else if line.is_empty() || line.starts_with('#') {
            parts.push(Part::Remark(line.to_owned()));
        } else {
            let mut words = line.splitn(2, char::is_whitespace);
            let time = words
                .next()
                .unwrap()
                .parse()
                .expect("a step begins with its time");
            let (action, request) = words
                .next()
                .unwrap()
                .trim_start()
                .split_once(char::is_whitespace)
                .unwrap();
            parts.push(Part::Step(Step {
                line: at + 1,
                time: Duration::from_millis(time),
                action: action.to_owned(),
                request: request.trim().to_owned(),
                expected: None,
            }));
        }
    }
    parts
}

/// Carries out all steps and returns what each was answered, as an expectation would be written.
fn run(parts: &[Part], protocol: Protocol) -> Vec<String> {
    let mut world = World::new();
    world.json("CreateQueue", r#"{"QueueName":"q"}"#);
    world.json(
        "CreateQueue",
        r#"{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true"}}"#,
    );
    let mut names = Names::default();
    let mut answers = Vec::new();
    for part in parts {
        let Part::Step(step) = part else {
            continue;
        };
        world.turn_to(step.time);
        let request = names.put_in(&step.request);
        let outcome = match protocol {
            Protocol::Json => answer::of_json(&world.json(&step.action, request)),
            Protocol::Query => {
                let request = serde_json::from_str(&request).unwrap();
                let form = flat::form(&step.action, &request);
                answer::of_xml(&step.action, &world.form("/", form))
            }
        };
        names.learn(&outcome);
        answers.push(match outcome {
            Outcome::Answer(value) => names.take_out(&format!("= {value}")),
            Outcome::Error {
                status,
                code,
                message,
            } => names.take_out(&format!("! {status} {code} {message}")),
        });
    }
    answers
}

fn differences(name: &str, parts: &[Part], answers: &[String], protocol: Protocol) -> Vec<String> {
    let steps = parts.iter().filter_map(|part| match part {
        Part::Step(step) => Some(step),
        Part::Remark(_) => None,
    });
    let is_met = |step: &Step, answer: &str| match (&step.expected, answer.strip_prefix("= ")) {
        (None, answer) => answer.is_some(),
        // By value, so that the order of members does not matter.
        (Some(expected), Some(answer)) => expected.strip_prefix('=').is_some_and(|expected| {
            let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
            parse(expected) == parse(answer)
        }),
        (Some(expected), None) => expected == answer,
    };
    steps
        .zip(answers)
        .filter(|(step, answer)| !is_met(step, answer))
        .map(|(step, answer)| {
            let expected = step.expected.as_deref().unwrap_or("success");
            format!(
                "{name}:{} {protocol:?}\n  expected {expected}\n  answered {answer}",
                step.line
            )
        })
        .collect()
}

fn updated(parts: &[Part], answers: &mut std::slice::Iter<'_, String>) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Remark(line) => writeln!(text, "{line}").unwrap(),
            Part::Step(step) => {
                let time = step.time.as_millis();
                writeln!(text, "{time:<6} {} {}", step.action, step.request).unwrap();
                let answer = answers.next().unwrap();
                if step.expected.is_some() || answer.starts_with('!') {
                    writeln!(text, "{answer}").unwrap();
                }
            }
        }
    }
    text
}

/// Receipt handles and message ids in the order in which they were seen.
#[derive(Default)]
struct Names {
    handles: Vec<String>,
    message_ids: Vec<String>,
    task_handles: Vec<String>,
}

impl Names {
    fn learn(&mut self, outcome: &Outcome) {
        let Outcome::Answer(value) = outcome else {
            return;
        };
        let items = ["Messages", "Successful"]
            .into_iter()
            .filter_map(|list| value[list].as_array())
            .flatten();
        for item in items.chain([value]) {
            if let Some(handle) = item["ReceiptHandle"].as_str() {
                self.handles.push(handle.to_owned());
            }
            let id = item["MessageId"]
                .as_str()
                .filter(|id| !self.message_ids.iter().any(|known| known == id));
            self.message_ids.extend(id.map(str::to_owned));
        }
        self.task_handles
            .extend(value["TaskHandle"].as_str().map(str::to_owned));
    }

    fn put_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (sign, values) in [('$', &self.handles), ('%', &self.task_handles)] {
            // The last ones first, since `$1` begins `$10`.
            for (at, value) in values.iter().enumerate().rev() {
                text = text.replace(&format!("{sign}{}", at + 1), value);
            }
        }
        assert!(
            !text.contains("\"$") && !text.contains("\"%"),
            "a handle that was not received yet: {text}"
        );
        text
    }

    fn take_out(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (sign, values) in [
            ('$', &self.handles),
            ('@', &self.message_ids),
            ('%', &self.task_handles),
        ] {
            for (at, value) in values.iter().enumerate() {
                text = text.replace(value, &format!("{sign}{}", at + 1));
            }
        }
        text
    }
}
