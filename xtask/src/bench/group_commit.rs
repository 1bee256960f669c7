//! What a group commit costs on this disk when nothing else is done: the floor of a durable send's latency.
//!
//! Sixteen threads hand records of 200 bytes to one committer, which writes and syncs whatever has gathered into a
//! file whose blocks are already written, as a journal with recycled segments does.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

const WRITERS: u32 = 16;
const RECORD_BYTES: usize = 200;
const FILE_BYTES: u64 = 64 << 20;

/// What the threads share.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when a record has come or a writer has ended.
    work: Condvar,
    /// Signalled when a commit is done.
    committed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    pending: Vec<u8>,
    /// Records handed over so far.
    taken: u64,
    /// Records on the disk so far.
    durable: u64,
    writers: u32,
    is_broken: bool,
}

/// Commits for some seconds to a new file at `path` and returns the 99th percentile of a record's latency in
/// microseconds.
pub(super) fn p99_us(path: &Path, seconds: u32) -> Result<f64> {
    let file = zeroed(path).with_context(|| format!("cannot prepare {}", path.display()))?;
    let shared = Shared::default();
    shared.lock().writers = WRITERS;
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    let mut micros = thread::scope(|scope| -> Result<Vec<f64>> {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| scope.spawn(|| shared.write_until(end)))
            .collect();
        shared.commit(&file)?;
        let latencies = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer does not panic"));
        Ok(latencies.collect())
    })?;
    ensure!(!micros.is_empty(), "nothing was committed");
    micros.sort_by(f64::total_cmp);
    Ok(micros[micros.len() * 99 / 100])
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_until(&self, end: Instant) -> Vec<f64> {
        let mut micros = Vec::new();
        while Instant::now() < end {
            let started = Instant::now();
            let mut queue = self.lock();
            queue.pending.extend([b'r'; RECORD_BYTES]);
            queue.taken += 1;
            let mine = queue.taken;
            self.work.notify_one();
            let queue = self
                .committed
                .wait_while(queue, |queue| queue.durable < mine && !queue.is_broken)
                .unwrap_or_else(PoisonError::into_inner);
            if queue.is_broken {
                break;
            }
            drop(queue);
            micros.push(started.elapsed().as_secs_f64() * 1e6);
        }
        self.lock().writers -= 1;
        self.work.notify_one();
        micros
    }

    /// Commits what comes until the last writer has ended.
    fn commit(&self, file: &File) -> Result<()> {
        let mut offset = 0;
        let mut batch = Vec::new();
        loop {
            let mut queue = self
                .work
                .wait_while(self.lock(), |queue| queue.pending.is_empty() && queue.writers > 0)
                .unwrap_or_else(PoisonError::into_inner);
            if queue.pending.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut batch, &mut queue.pending);
            let taken = queue.taken;
            drop(queue);
            if offset + batch.len() as u64 > FILE_BYTES {
                offset = 0;
            }
            let written = file.write_all_at(&batch, offset).and_then(|()| file.sync_data());
            offset += batch.len() as u64;
            batch.clear();
            let mut queue = self.lock();
            queue.durable = taken;
            queue.is_broken = written.is_err();
            drop(queue);
            self.committed.notify_all();
            written?;
        }
    }
}

/// Makes a file whose blocks have all been written.
fn zeroed(path: &Path) -> std::io::Result<File> {
    let file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for offset in (0..FILE_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, offset)?;
    }
    file.sync_all()?;
    Ok(file)
}
