//! What every verb that works with queues shares: where the server is, who asks, how the answer is written, and what a refusal
//! of the server means to the one who asked.

use std::env;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Kind};
use crate::sqs::{Action, CallError, Client, Credentials, Endpoint};

/// Variables that name the server, the first one that is set; a flag goes before them.
const ENDPOINT_VARIABLES: [&str; 4] = [
    "HOLDFAST_ENDPOINT",
    "TINYMQ_URL",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL",
];
/// Names that differ in more than this share are not what was meant.
const NEAR: f64 = 0.6;
/// Queues of one page of a list.
const PAGE: u32 = 1_000;

/// Options of every verb that works with queues.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Either port of the server. Without it HOLDFAST_ENDPOINT, TINYMQ_URL, AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL counts,
    /// then http://127.0.0.1:4100.
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<Endpoint>,
    /// Prints one JSON document.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// A client with its settings.
pub(crate) struct Session {
    client: Client,
    endpoint: Arc<Endpoint>,
    credentials: Credentials,
    runtime: Runtime,
    /// Whether the endpoint is known to be that of the API.
    is_found: bool,
}

impl Session {
    pub(crate) fn open(common: &Common) -> Result<Self, Failure> {
        let endpoint = match &common.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => endpoint_of_environment(|name| env::var(name).ok())?,
        };
        let credentials = Credentials::from_environment(|name| env::var(name).ok());
        if !credentials.is_usable() {
            return Err(Failure::new(
                Kind::Usage,
                "the credentials of the environment cannot be sent",
                "AWS_ACCESS_KEY_ID and AWS_REGION may only have printable ASCII characters without blanks",
                "look for a blank or a line break in them",
            ));
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            let hint = "look at the limits of this shell: ulimit -a";
            Failure::new(Kind::Failed, "cannot begin", error.to_string(), hint)
        })?;
        let endpoint = Arc::new(endpoint);
        Ok(Self {
            client: client(&runtime, &endpoint, &credentials),
            endpoint,
            credentials,
            runtime,
            is_found: false,
        })
    }

    /// Calls an action; `what` says what cannot be done if it is refused.
    pub(crate) fn call(&mut self, what: &str, action: Action, input: &Value) -> Result<Value, Failure> {
        let body = input.to_string();
        let mut result = self
            .runtime
            .block_on(self.client.call(action, body.clone().into()));
        if !self.is_found && is_no_api(&result) && self.find_api() {
            result = self.runtime.block_on(self.client.call(action, body.into()));
        }
        self.is_found = true;
        match result {
            Ok(output) if output.is_empty() => Ok(Value::Null),
            Ok(output) => serde_json::from_slice(&output).map_err(|error| {
                let hint = "name a server that speaks SQS";
                Failure::new(
                    Kind::Failed,
                    what,
                    format!("the answer cannot be read: {error}"),
                    hint,
                )
            }),
            Err(error) => Err(self.refused(what, &error, input)),
        }
    }

    /// The control port was named: it says where the other one is.
    fn find_api(&mut self) -> bool {
        let Ok((_, body)) = self.runtime.block_on(self.client.get("health")) else {
            return false;
        };
        let health: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some(Ok(found)) = health["sqs"].as_str().map(str::parse::<Endpoint>) else {
            return false;
        };
        self.endpoint = Arc::new(found);
        self.client = client(&self.runtime, &self.endpoint, &self.credentials);
        true
    }

    /// Returns the URL of a queue that is named.
    pub(crate) fn queue_url(&mut self, name: &str) -> Result<String, Failure> {
        let what = format!("cannot find queue {name}");
        let output = self.call(&what, Action::GetQueueUrl, &json!({ "QueueName": name }))?;
        Ok(output["QueueUrl"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the URLs of all queues whose names begin so.
    pub(crate) fn queue_urls(&mut self, prefix: &str) -> Result<Vec<String>, Failure> {
        let (mut urls, mut token) = (Vec::new(), Value::Null);
        loop {
            let mut input = json!({ "MaxResults": PAGE });
            if !prefix.is_empty() {
                input["QueueNamePrefix"] = prefix.into();
            }
            if !token.is_null() {
                input["NextToken"] = token;
            }
            let output = self.call("cannot list queues", Action::ListQueues, &input)?;
            let page = output["QueueUrls"].as_array().into_iter().flatten();
            urls.extend(page.filter_map(Value::as_str).map(str::to_owned));
            token = output["NextToken"].clone();
            if token.is_null() {
                return Ok(urls);
            }
        }
    }

    fn refused(&mut self, what: &str, error: &CallError, input: &Value) -> Failure {
        match error {
            CallError::NoAnswer { reason, .. } => Failure::new(
                Kind::Unavailable,
                what,
                format!("{} does not answer: {reason}", self.endpoint),
                "start a server with `holdfast serve --dev`, or name one with --endpoint",
            ),
            CallError::Unreadable(_) => Failure::new(
                Kind::Failed,
                what,
                error.to_string(),
                "name a server that speaks SQS",
            ),
            CallError::Refused { code, message, .. } => {
                let hint = match code.as_str() {
                    "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue" => self.near(input),
                    _ => hint_of(code).to_owned(),
                };
                Failure::new(kind_of(code), what, format!("{code}: {message}"), hint)
            }
        }
    }

    /// Says which queue was meant, if one has a name like that.
    fn near(&mut self, input: &Value) -> String {
        let general = || "see which there are: holdfast queue list".to_owned();
        let Some(wanted) = input["QueueName"].as_str() else {
            return general();
        };
        // Without the list there is no nearer name.
        let urls = self.queue_urls("").unwrap_or_default();
        let names = urls.iter().map(|url| name_of(url));
        let likeness = |name: &str| strsim::jaro_winkler(name, wanted);
        let nearest = names.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
        match nearest.filter(|name| likeness(name) >= NEAR) {
            Some(name) => format!("did you mean {name}?"),
            None => general(),
        }
    }
}

/// Makes a client, whose timers are those of the runtime.
fn client(runtime: &Runtime, endpoint: &Arc<Endpoint>, credentials: &Credentials) -> Client {
    let _in_time = runtime.enter();
    Client::new(Arc::clone(endpoint), credentials.clone())
}

/// Whether a control port has answered, and not the API.
fn is_no_api(result: &Result<bytes::Bytes, CallError>) -> bool {
    matches!(result, Err(CallError::Refused { status: 404 | 405, code, .. }) if code.starts_with("HTTP "))
}

fn endpoint_of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, Failure> {
    let text_of = |name| variable(name).filter(|text| !text.is_empty());
    let mut set = ENDPOINT_VARIABLES
        .iter()
        .filter_map(|name| Some((*name, text_of(name)?)));
    let Some((name, text)) = set.next() else {
        return Ok(Endpoint::DEFAULT.parse().expect("the default is an endpoint"));
    };
    text.parse().map_err(|cause: String| {
        Failure::new(
            Kind::Usage,
            format!("{name} is no endpoint"),
            cause,
            "set it to a URL such as http://127.0.0.1:4100",
        )
    })
}

/// Returns the name of a queue by its URL.
pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

fn kind_of(code: &str) -> Kind {
    match code {
        "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue" | "ResourceNotFoundException" => {
            Kind::NotFound
        }
        "PurgeQueueInProgress"
        | "AWS.SimpleQueueService.PurgeQueueInProgress"
        | "QueueDeletedRecently"
        | "AWS.SimpleQueueService.QueueDeletedRecently"
        | "QueueNameExists"
        | "QueueAlreadyExists"
        | "MessageNotInflight"
        | "AWS.SimpleQueueService.MessageNotInflight"
        | "OverLimit" => Kind::Precondition,
        "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "AccessDenied"
        | "AccessDeniedException"
        | "MissingAuthenticationToken"
        | "InvalidSecurity"
        | "RequestExpired"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException" => Kind::Auth,
        "ServiceUnavailable"
        | "ServiceUnavailableException"
        | "Throttling"
        | "ThrottlingException"
        | "RequestThrottled"
        | "InternalFailure" => Kind::Unavailable,
        "InvalidParameterValue"
        | "InvalidAttributeName"
        | "InvalidAttributeValue"
        | "MissingParameter"
        | "ReceiptHandleIsInvalid"
        | "InvalidMessageContents"
        | "UnsupportedOperation"
        | "InvalidAddress" => Kind::Usage,
        _ => Kind::Failed,
    }
}

fn hint_of(code: &str) -> &'static str {
    match kind_of(code) {
        Kind::Auth => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION to those of a key of the server"
        }
        Kind::Unavailable => "try again in a moment",
        Kind::Precondition => "wait, or do what the cause names",
        Kind::Usage => "correct the value that the cause names",
        Kind::NotFound => "see which queues there are: holdfast queue list",
        Kind::Failed | Kind::Damage | Kind::Interrupted => "look at the log of the server",
    }
}

/// Asks before something is lost. Without a terminal only `--yes` counts.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let refuse = |cause: &str| {
        Err(Failure::new(
            Kind::Precondition,
            "nothing was done",
            cause,
            "say --yes if you mean it",
        ))
    };
    if !io::stdin().is_terminal() {
        return refuse(&format!("{question}: nobody is here to be asked"));
    }
    eprint!("{question}. Continue? [y/N] ");
    let mut answer = String::new();
    let read = io::stderr()
        .flush()
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    match read {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) => Ok(()),
        Ok(_) | Err(_) => refuse("the answer was not yes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_server() {
        let endpoint = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, text)| (*text).to_owned())
            };
            endpoint_of_environment(variable).map(|endpoint| endpoint.to_string())
        };
        assert_eq!(endpoint(&[]).unwrap(), Endpoint::DEFAULT);
        let aws = ("AWS_ENDPOINT_URL_SQS", "http://a:1");
        assert_eq!(endpoint(&[aws]).unwrap(), "http://a:1");
        assert_eq!(
            endpoint(&[aws, ("HOLDFAST_ENDPOINT", "http://b:2")]).unwrap(),
            "http://b:2"
        );
        assert_eq!(endpoint(&[aws, ("HOLDFAST_ENDPOINT", "")]).unwrap(), "http://a:1");
        let failure = endpoint(&[("TINYMQ_URL", "nonsense")]).unwrap_err();
        assert!(failure.what.contains("TINYMQ_URL"), "{failure}");
    }

    #[test]
    fn a_queue_is_called_by_the_end_of_its_url() {
        assert_eq!(name_of("http://h:1/000000000000/orders.fifo"), "orders.fifo");
    }
}
