//! The order in which a server starts and stops.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ::cluster::Cluster;
use auth::{Mode, Verifier};
use broker::{Broker, BudgetLimits, Clock, InboxLimits, JournalOpener, Leader, OsRandom};
use config::Options;
use journal::{Disk, Fsync, Journal, JournalError, LocalJournal, LocalOptions, Lock, TornTail};
use sqs_api::{Api, ApiOptions};
use telemetry::Metrics;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::admin::Admin;
use crate::cluster;
use crate::control_plane::ControlPlane;
use crate::data_plane::{DataPlane, Labels};
use crate::drain::Drain;
use crate::endpoints::Endpoints;
use crate::faults::Machine;
use crate::health::Health;
use crate::observer::MetricsObserver;
use crate::service::{self, State};

/// Longest that accepted work may take to be answered once the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(25);
/// Segments are not made shorter than this for want of room.
const SEGMENT_BYTES_MIN: u64 = 256 * 1024;
/// Connections that may wait to be accepted; the system's own limit may be lower.
const BACKLOG: i32 = 4_096;
/// Bytes of message contents that may wait for the commit thread.
const INBOX_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a server did not start, or did not stop in order.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port could not be bound.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}: {source}")]
    DataDirectory {
        /// The directory.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// What is stored cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The process lacks something of the system.
    #[error("the system refused a thread, a signal or a socket: {0}")]
    System(#[from] io::Error),
    /// The settings of the cluster cannot be used.
    #[error("cannot be a node of a cluster: {0}")]
    Cluster(String),
    /// The commit thread ended by itself.
    #[error("the commit thread has ended")]
    CommitThread,
}

/// Runs a server until it is told to stop by SIGTERM or SIGINT.
pub fn serve(options: &Options, actions: &'static [&'static str]) -> Result<(), ServeError> {
    let store = &options.store;
    let data_directory = |source| ServeError::DataDirectory {
        path: store.data_dir.display().to_string(),
        source,
    };
    let Machine { disk, clock } = Machine::open(options).map_err(data_directory)?;
    let lock = LocalJournal::lock(&*disk)?;
    Endpoints::remove(&store.data_dir).map_err(data_directory)?;
    let sqs = bind(options, options.server.port)?;
    let control = bind(options, options.server.control_port)?;
    let endpoints = Endpoints::new(sqs.local_addr()?, control.local_addr()?);
    endpoints.write(&store.data_dir).map_err(data_directory)?;
    println!(
        "holdfast: SQS on {}, control on {}",
        endpoints.sqs, endpoints.control
    );

    let metrics = Arc::new(Metrics::new(actions));
    let durability = match store.fsync {
        config::Fsync::Always => "always",
        config::Fsync::Off => "off",
    };
    metrics.build.set(env!("CARGO_PKG_VERSION"));
    metrics.durability.set(durability);
    let (node, cluster_runtime) = prepare_node(options, &clock)?.unzip();
    let (opened, is_open) = oneshot::channel();
    let (broker, commit_thread) = Broker::start(
        broker_options(options, clock, metrics.clone(), node.as_ref()),
        journal_opener(options, disk, lock, node.clone()),
        move |result| {
            // The receiver is gone only if the server could not start, and then it says so itself.
            let _ = opened.send(result);
        },
    )?;
    if let Some(node) = &node {
        node.serve(broker.clone());
    }
    let health = Health {
        broker: broker.clone(),
        endpoints,
        durability,
        cluster: node.clone(),
        drain: Drain::default(),
        admin: Admin {
            token: options.admin.token.clone(),
            is_dev: options.auth.dev,
        },
    };
    let control_runtime = control_runtime(control, health.clone(), metrics.clone(), options.auth.dev)?;
    let data_runtime = data_runtime()?;
    data_runtime.spawn(broker.clone().drive());
    let plane = data_plane(options, &broker, health, metrics, actions);
    let served = data_runtime.block_on(run(plane, broker.clone(), node.as_ref(), sqs, is_open));
    broker.stop();
    commit_thread.join().map_err(|_| ServeError::CommitThread)?;
    if let (Some(node), Some(runtime)) = (node, cluster_runtime) {
        runtime.block_on(cluster::end(&node));
        runtime.shutdown_background();
    }
    data_runtime.shutdown_background();
    control_runtime.shutdown_background();
    served
}

/// Prepares the node of a cluster, and what it runs on, if the server is one.
fn prepare_node(options: &Options, clock: &Arc<dyn Clock>) -> Result<Option<(Cluster, Runtime)>, ServeError> {
    let Some(cluster) = &options.cluster else {
        return Ok(None);
    };
    let runtime = cluster::runtime()?;
    let node = cluster::prepare(cluster, options.auth.dev, clock.clone(), &runtime)?;
    Ok(Some((node, runtime)))
}

/// Returns what opens the journal on the commit thread, and says in the log what it found.
fn journal_opener(
    options: &Options,
    disk: Arc<dyn Disk>,
    lock: Box<dyn Lock>,
    node: Option<Cluster>,
) -> JournalOpener {
    let store = &options.store;
    let fsync = match store.fsync {
        config::Fsync::Always => Fsync::Always,
        config::Fsync::Off => Fsync::Off,
    };
    let mut journal = LocalOptions {
        segment_bytes: store.segment_bytes,
        fsync,
        ..LocalOptions::default()
    };
    let reserve_bytes = store.reserve_bytes;
    Box::new(move |recovered: &mut broker::Recovered| {
        fit_to_disk(&mut journal, reserve_bytes, disk.as_ref());
        let (journal, report) = match node {
            Some(node) => cluster::open(&node, disk, lock, journal, recovered)?,
            None => {
                let (journal, report) = LocalJournal::open_locked(disk, lock, journal, recovered)?;
                (Box::new(journal) as Box<dyn Journal>, report)
            }
        };
        info!(
            entries = report.entries_replayed,
            log_bytes = report.log_bytes,
            last_index = %report.last_index,
            snapshot = report.snapshot.map(|index| index.0),
            "state recovered"
        );
        if let Some(tail) = report.torn_tail {
            let TornTail { file, offset, bytes } = tail;
            warn!(
                file,
                offset, bytes, "a torn tail was cut off the log: it was never acknowledged"
            );
        }
        for damage in report.damaged_snapshots {
            warn!(%damage, "a damaged snapshot was done without");
        }
        Ok(journal)
    })
}

/// Makes segments short on a small disk: what is reserved must suffice for many.
fn fit_to_disk(journal: &mut LocalOptions, reserve_bytes: Option<u64>, disk: &dyn Disk) {
    match disk.space() {
        Ok(Some(space)) => {
            let reserve = broker::reserve_bytes(reserve_bytes, space.total);
            let most = broker::segment_bytes_max(reserve).max(SEGMENT_BYTES_MIN);
            journal.segment_bytes = journal.segment_bytes.min(most);
            journal.first_segment_bytes = journal.first_segment_bytes.min(journal.segment_bytes);
        }
        Ok(None) => {}
        Err(error) => warn!(%error, "the size of the file system cannot be read"),
    }
}

/// Serves until a signal, then ends polls, answers what was accepted, and closes.
async fn run(
    plane: Arc<DataPlane>,
    broker: Broker,
    node: Option<&Cluster>,
    listener: TcpListener,
    is_open: oneshot::Receiver<Result<(), JournalError>>,
) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (stop, is_stopping) = watch::channel(false);
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    let accepting = tokio::spawn(plane.run(listener, is_stopping, open));
    tokio::select! {
        opened = is_open => opened.unwrap_or(Err(JournalError::Poisoned))?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    }
    info!("ready");
    service::notify(State::Ready);
    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: stopping"),
        _ = interrupt.recv() => info!("SIGINT: stopping"),
        () = broker.ended() => return Err(ServeError::CommitThread),
    }
    service::notify(State::Stopping);
    if let Some(node) = node {
        cluster::leave(node).await;
    }
    if let Err(error) = broker.end_polls().await {
        warn!(%error, "polls could not be ended");
    }
    // Nobody listens only if no connection is open.
    let _ = stop.send(true);
    let closed = timeout(STOP_TIMEOUT, async {
        // Ends when the last connection drops its sender; nothing is ever sent.
        while all_closed.recv().await.is_some() {}
    });
    if closed.await.is_err() {
        warn!("connections were still open when the time to stop was over");
    }
    accepting.abort();
    info!("stopped");
    Ok(())
}

fn bind(options: &Options, port: u16) -> Result<TcpListener, ServeError> {
    let address = SocketAddr::new(options.server.bind, port);
    let bound = TcpListener::bind(address).and_then(|listener| {
        // The standard library lets 128 clients wait; a burst of more would lose a second to a repeated handshake.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(listener)
    });
    bound.map_err(|source| ServeError::Bind { address, source })
}

fn broker_options(
    options: &Options,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    node: Option<&Cluster>,
) -> broker::BrokerOptions {
    broker::BrokerOptions {
        limits: match options.server.limits {
            config::Limits::Strict => broker::Limits::STRICT,
            config::Limits::Relaxed => broker::Limits::RELAXED,
        },
        inbox: InboxLimits {
            requests_max: options.broker.inbox_commands_max as usize,
            bytes_max: INBOX_BYTES_MAX,
        },
        budget: BudgetLimits {
            bytes_max: options.broker.bytes_in_flight_max,
            tenant_bytes_max: options.broker.tenant_bytes_in_flight_max,
        },
        in_flight_max: u64::from(options.broker.in_flight_max),
        deduplication_ids_max: options.broker.deduplication_ids_max,
        kick_on_push: false,
        inline: reactors() == 1,
        snapshot_log_bytes: options.store.snapshot_log_bytes,
        cache_bytes: usize::try_from(options.store.cache_bytes).unwrap_or(usize::MAX),
        reserve_bytes: options.store.reserve_bytes,
        clock,
        random: Arc::new(OsRandom),
        process: Arc::new(broker::OsProcess),
        observer: Arc::new(MetricsObserver(metrics)),
        leader: node.map(|node| Arc::new(node.clone()) as Arc<dyn Leader>),
    }
}

fn data_plane(
    options: &Options,
    broker: &Broker,
    health: Health,
    metrics: Arc<Metrics>,
    actions: &[&'static str],
) -> Arc<DataPlane> {
    let mode = if options.auth.dev { Mode::Dev } else { Mode::Keys };
    let region = options.server.region.clone();
    let verifier = Verifier::new(mode, region.clone(), options.auth.keys.iter().cloned());
    let api_options = ApiOptions {
        region,
        public_url: options.server.public_url.clone(),
        is_dev: options.auth.dev,
    };
    Arc::new(DataPlane {
        api: Api::new(broker.clone(), Arc::new(verifier), api_options),
        health,
        labels: Labels::new(&metrics, actions),
        metrics,
        connections: Arc::new(Semaphore::new(options.server.connections_max as usize)),
        body_bytes: AtomicU64::new(0),
        body_bytes_max: options.server.request_bytes_in_flight_max,
    })
}

/// Returns how many reactors the data plane has.
fn reactors() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).max(1)
}

/// The reactors of the data plane. One on a small machine: measured, a second costs more wake-ups than it helps.
fn data_runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(reactors())
        .thread_name("reactor")
        .enable_all()
        .build()
}

fn control_runtime(
    listener: TcpListener,
    health: Health,
    metrics: Arc<Metrics>,
    is_dev: bool,
) -> io::Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .enable_all()
        .build()?;
    listener.set_nonblocking(true)?;
    let router = ControlPlane {
        health,
        metrics,
        is_dev,
    }
    .router();
    let listener = {
        let _context = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    runtime.spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            warn!(%error, "the control plane has ended");
        }
    });
    Ok(runtime)
}
