//! What an owner promises, played by hand turn by turn, and what the running broker makes of it.

/// Runs each case twice: the commit thread takes the commit turns, or the reactor does.
#[cfg(test)]
macro_rules! by_both_drivers {
    ($($case:ident,)*) => {$(
        mod $case {
            use crate::served::Driver;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn commit_thread() {
                super::$case(Driver::CommitThread).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn reactor() {
                super::$case(Driver::Reactor).await;
            }
        }
    )*};
}

#[cfg(test)]
mod batches;
#[cfg(test)]
mod conservation;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod forwarded;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod node;
#[cfg(test)]
mod polls;
#[cfg(test)]
mod reigns;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod routed;
#[cfg(test)]
mod running;
#[cfg(test)]
mod served;
#[cfg(test)]
mod shared_log;
#[cfg(test)]
mod store;
#[cfg(test)]
mod takes;
#[cfg(test)]
mod three_nodes;
#[cfg(test)]
mod timers;
#[cfg(test)]
mod wakes;
