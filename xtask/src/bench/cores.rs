//! Which cores of the machine are used.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that server and client share, also where there are more.
const SHARED: usize = 2;

/// Confines this thread, and what it starts from now on, to the cores that everything shares.
pub(super) fn share() -> Result<()> {
    sched_setaffinity(None, &first(SHARED)?).context("cannot choose the cores")
}

/// Does `work` with this thread and some processes on a single core.
///
/// With one request at a time only one side works, and where the scheduler happens to put the two decides about
/// four fifths of what a request costs: a core that has gone to sleep is woken at a price.
pub(super) fn on_one<T>(processes: &[u32], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None)?;
    let one = first(1)?;
    for process in processes {
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let name = entry?.file_name();
            let thread = name.to_str().and_then(|name| name.parse().ok());
            match sched_setaffinity(thread.and_then(Pid::from_raw), &one) {
                // It ended since the folder was read.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error).context("cannot choose the core of a server"),
            }
        }
    }
    sched_setaffinity(None, &one).context("cannot choose the core")?;
    let done = work();
    sched_setaffinity(None, &before).context("cannot give the cores back")?;
    done
}

/// Returns the first `count` cores that this thread may use.
fn first(count: usize) -> Result<CpuSet> {
    let allowed = sched_getaffinity(None)?;
    let mut chosen = CpuSet::new();
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    for core in cores.take(count) {
        chosen.set(core);
    }
    Ok(chosen)
}
