//! Draining: the server hands over, finishes what it accepted, and takes nothing more until it is started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::cluster::Cluster;
use broker::Broker;
use serde::Serialize;
use tokio::sync::OnceCell;
use tracing::{error, info, warn};

use crate::admin::AdminAnswer;

/// Where `POST` drains, on both ports.
pub(crate) const PATH: &str = "/api/drain";

/// Whether the server drains, and how many requests of clients it works on. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drain(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// From the first request to drain on.
    is_begun: AtomicBool,
    /// Since leadership was handed over and polls have ended.
    refuses: AtomicBool,
    in_flight: AtomicU64,
    done: OnceCell<()>,
}

#[derive(Serialize)]
struct Draining {
    status: &'static str,
    in_flight_requests: u64,
}

/// A request of a client that is worked on until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Drain);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drain {
    /// Accepts a request of a client; none once the server takes no more.
    pub(crate) fn accept(&self) -> Option<InFlight> {
        // Counted before the look, so that whoever sees a count of 0 afterwards sees the last of them.
        self.0.in_flight.fetch_add(1, Ordering::SeqCst);
        let accepted = InFlight(self.clone());
        (!self.0.refuses.load(Ordering::SeqCst)).then_some(accepted)
    }

    /// Whether the server drains.
    pub(crate) fn is_begun(&self) -> bool {
        self.0.is_begun.load(Ordering::SeqCst)
    }

    /// Drains, and answers how much is left to finish. It goes on if whoever asked goes away, and is done once.
    pub(crate) async fn begin(&self, broker: &Broker, cluster: Option<&Cluster>) -> AdminAnswer {
        if !self.0.is_begun.swap(true, Ordering::SeqCst) {
            info!("draining: nothing more is taken until the server is started again");
        }
        let (drain, broker, cluster) = (self.clone(), broker.clone(), cluster.cloned());
        let work = tokio::spawn(async move {
            drain
                .0
                .done
                .get_or_init(|| drain.close(&broker, cluster.as_ref()))
                .await;
        });
        if let Err(error) = work.await {
            error!(%error, "draining has failed");
        }
        AdminAnswer::ok(&Draining {
            status: "draining",
            in_flight_requests: self.0.in_flight.load(Ordering::SeqCst),
        })
    }

    async fn close(&self, broker: &Broker, cluster: Option<&Cluster>) {
        if let Some(cluster) = cluster {
            cluster.leave_office().await;
        }
        self.0.refuses.store(true, Ordering::SeqCst);
        if let Err(error) = broker.end_polls().await {
            warn!(%error, "polls could not be ended");
        }
    }
}
