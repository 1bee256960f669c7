//! The process around the parts of a node, as a trait: its threads and its end. A simulator runs several nodes on one
//! thread, where each has a process of its own.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

/// Work that may block. Where it only waits for other parts of its node it is pending instead.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The process of a node.
pub trait Process: Debug + Send + Sync {
    /// Runs work beside everything else.
    ///
    /// # Errors
    ///
    /// If there can be no further thread; the work is dropped.
    fn spawn(&self, name: &str, work: Work) -> io::Result<()>;

    /// Ends the process at once, with everything that is under way in it. Why was logged.
    fn abort(&self) -> !;
}

/// The process that this is.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsProcess;

impl Process for OsProcess {
    fn spawn(&self, name: &str, work: Work) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || block_on(work)).map(drop)
    }

    fn abort(&self) -> ! {
        std::process::abort()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Does the work on this thread.
fn block_on(work: Work) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    while work.as_mut().poll(&mut context).is_pending() {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_a_thread_of_its_own_waits_for_what_others_send() {
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let (answer, answered) = std::sync::mpsc::channel();
        let work = async move {
            while let Some(number) = asked.recv().await {
                answer
                    .send((number, thread::current().name().map(str::to_owned)))
                    .unwrap();
            }
        };
        OsProcess.spawn("worker", Box::pin(work)).unwrap();
        for number in 0..100 {
            ask.send(number).unwrap();
            assert_eq!(answered.recv().unwrap(), (number, Some("worker".to_owned())));
        }
        drop(ask);
        assert!(answered.recv().is_err(), "it ends when nobody can ask any more");
    }
}
