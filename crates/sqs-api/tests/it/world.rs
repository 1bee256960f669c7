//! A server without sockets: the API over a broker whose disk is simulated and whose clock stands still.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use auth::{Header, Headers, Mode, Verifier};
use broker::{Broker, BrokerOptions, InboxLimits, Limits, ManualClock, NoObserver, SeededRandom};
use http::Request;
use http::request::Parts;
use journal::{Disk, LocalJournal, LocalOptions};
use simulator::SimDisk;
use sqs_api::{Answer, Api, ApiOptions, Refusal};
use types::{Region, WallTime};

/// The address that clients of a world use.
pub(crate) const HOST: &str = "localhost:4100";
/// The time of day at which every world begins.
const BEGINNING: WallTime = WallTime::from_millis(1_700_000_000_000);

pub(crate) struct World {
    pub(crate) api: Api,
    broker: Broker,
    commit_thread: Option<JoinHandle<()>>,
    clock: Arc<ManualClock>,
    disk: Arc<dyn Disk>,
    mode: Mode,
    public_url: Option<String>,
    now: Duration,
    runtime: tokio::runtime::Runtime,
}

/// What happens while a long poll waits.
pub(crate) enum Meanwhile {
    /// Another request is answered.
    Call(Box<Request<Vec<u8>>>),
    /// Time passes.
    Pass(Duration),
}

/// An answer in parts.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) action: &'static str,
    pub(crate) code: &'static str,
}

impl Response {
    /// Returns the body as JSON.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(given, _)| *given == name)?;
        Some(value)
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Mode::Dev, None)
    }

    pub(crate) fn with(mode: Mode, public_url: Option<&str>) -> Self {
        let clock = Arc::new(ManualClock::new(BEGINNING));
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let (broker, commit_thread) = start(clock.clone(), disk.clone());
        Self {
            api: api(&broker, mode, public_url),
            broker,
            commit_thread: Some(commit_thread),
            clock,
            disk,
            mode,
            public_url: public_url.map(str::to_owned),
            now: Duration::ZERO,
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
        }
    }

    /// Stops the server and starts it on the same disk.
    pub(crate) fn restart(&mut self) {
        self.broker.stop();
        self.commit_thread.take().unwrap().join().unwrap();
        let (broker, commit_thread) = start(self.clock.clone(), self.disk.clone());
        self.api = api(&broker, self.mode, self.public_url.as_deref());
        self.broker = broker;
        self.commit_thread = Some(commit_thread);
    }

    /// Calls a long poll, and what happens while it waits. Returns the answer of the poll.
    pub(crate) fn poll(&mut self, poll: &str, meanwhile: Vec<Meanwhile>) -> Response {
        let (clock, mut passed) = (self.clock.clone(), Duration::ZERO);
        let poll = self.answer(json_request("ReceiveMessage", poll));
        let others = async {
            for event in meanwhile {
                match event {
                    Meanwhile::Call(request) => {
                        let answer = self.answer(*request).await;
                        assert_eq!(answer.status, 200, "{}", answer.body);
                    }
                    Meanwhile::Pass(time) => {
                        clock.advance(time);
                        passed += time;
                    }
                }
            }
        };
        // The poll is asked first, and so waits before anything else is asked.
        let (answer, ()) = self.runtime.block_on(async { tokio::join!(poll, others) });
        self.now += passed;
        answer
    }

    async fn answer(&self, request: Request<Vec<u8>>) -> Response {
        let mut request = request;
        request
            .headers_mut()
            .entry("host")
            .or_insert(HOST.parse().unwrap());
        call(&self.api, request).await
    }

    /// Calls an action in AWS JSON as another account.
    pub(crate) fn json_as(&self, account: &str, action: &str, body: impl Into<Vec<u8>>) -> Response {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={account}/20231114/us-east-1/sqs/aws4_request, SignedHeaders=host, \
             Signature={}",
            "0".repeat(64)
        );
        let mut request = json_request(action, body);
        request
            .headers_mut()
            .insert("authorization", authorization.parse().unwrap());
        self.call(request)
    }

    /// Turns the clock to so much after the beginning.
    pub(crate) fn turn_to(&mut self, time: Duration) {
        let step = time.checked_sub(self.now).expect("time does not go back");
        self.clock.advance(step);
        self.now = time;
    }

    pub(crate) fn call(&self, request: Request<Vec<u8>>) -> Response {
        self.runtime.block_on(self.answer(request))
    }

    /// Calls an action in AWS JSON.
    pub(crate) fn json(&self, action: &str, body: impl Into<Vec<u8>>) -> Response {
        self.json_at("/", action, body)
    }

    pub(crate) fn json_at(&self, path: &str, action: &str, body: impl Into<Vec<u8>>) -> Response {
        let request = Request::post(path)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("AmazonSQS.{action}"));
        self.call(request.body(body.into()).unwrap())
    }

    /// Posts a form.
    pub(crate) fn form(&self, path: &str, form: impl Into<Vec<u8>>) -> Response {
        let request =
            Request::post(path).header("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        self.call(request.body(form.into()).unwrap())
    }

    pub(crate) fn get(&self, path_and_query: &str) -> Response {
        self.call(Request::get(path_and_query).body(Vec::new()).unwrap())
    }
}

fn start(clock: Arc<ManualClock>, disk: Arc<dyn Disk>) -> (Broker, JoinHandle<()>) {
    let options = BrokerOptions {
        limits: Limits::STRICT,
        inbox: InboxLimits::default(),
        budget: broker::BudgetLimits::default(),
        deduplication_ids_max: 1_000_000,
        in_flight_max: types::limits::IN_FLIGHT_MAX,
        kick_on_push: true,
        inline: false,
        snapshot_log_bytes: 64 << 20,
        cache_bytes: 1 << 20,
        reserve_bytes: None,
        clock,
        random: Arc::new(SeededRandom::new(1)),
        process: Arc::new(broker::OsProcess),
        observer: Arc::new(NoObserver),
        leader: None,
    };
    let local = LocalOptions {
        first_segment_bytes: 256 << 10,
        segment_bytes: 8 << 20,
        ..LocalOptions::default()
    };
    let (opened, is_open) = std::sync::mpsc::channel();
    let (broker, commit_thread) = Broker::start(
        options,
        Box::new(move |recovered| {
            let (journal, _report) = LocalJournal::open(disk, local, recovered)?;
            Ok(Box::new(journal))
        }),
        move |result| opened.send(result).unwrap(),
    )
    .unwrap();
    is_open.recv().unwrap().unwrap();
    (broker, commit_thread)
}

fn api(broker: &Broker, mode: Mode, public_url: Option<&str>) -> Api {
    let region: Region = "us-east-1".parse().unwrap();
    let key = auth::Key {
        tenant: "123456789012".parse().unwrap(),
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret: auth::Secret::new("secret"),
    };
    let verifier = Arc::new(Verifier::new(mode, region.clone(), [key]));
    let options = ApiOptions {
        region,
        public_url: public_url.map(str::to_owned),
        is_dev: mode == Mode::Dev,
    };
    Api::new(broker.clone(), verifier, options)
}

/// Returns a call of an action in AWS JSON.
pub(crate) fn json_request(action: &str, body: impl Into<Vec<u8>>) -> Request<Vec<u8>> {
    Request::post("/")
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("AmazonSQS.{action}"))
        .body(body.into())
        .unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        self.broker.stop();
    }
}

/// Has a request answered.
pub(crate) async fn call(api: &Api, request: Request<Vec<u8>>) -> Response {
    let (parts, body) = request.into_parts();
    let headers = headers(&parts);
    response(api.call(&head(&parts, &headers), &body).await)
}

/// Has a request refused by the server.
pub(crate) fn refuse(request: &Request<()>, kind: Refusal) -> Response {
    let (parts, ()) = request.clone().into_parts();
    response(sqs_api::refusal(&head(&parts, &headers(&parts)), kind))
}

fn headers(parts: &Parts) -> Vec<Header<'_>> {
    let headers = parts.headers.iter();
    headers
        .map(|(name, value)| Header {
            name: name.as_str(),
            value: value.as_bytes(),
        })
        .collect()
}

fn head<'a>(parts: &'a Parts, headers: &'a [Header<'a>]) -> sqs_api::Request<'a> {
    sqs_api::Request {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query(),
        authority: parts.uri.authority().map(http::uri::Authority::as_str),
        headers: Headers(headers),
    }
}

/// Takes an answer apart. Its messages count as delivered.
fn response(mut answer: Answer) -> Response {
    if let Some(take) = answer.take.take() {
        take.delivered();
    }
    Response {
        status: answer.status.as_u16(),
        headers: answer
            .headers()
            .map(|(name, value)| (name, value.to_owned()))
            .collect(),
        body: String::from_utf8(answer.body.to_vec()).unwrap(),
        action: answer.action,
        code: answer.code,
    }
}
