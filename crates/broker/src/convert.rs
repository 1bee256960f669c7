//! Makes the data directory of a single node that of the first node of a cluster, with everything in it.

use std::sync::Arc;

use journal::{Disk, JournalError, LocalJournal, LocalOptions, Lock, RaftSnapshot};
use types::LogIndex;

use crate::house::store_snapshot;
use crate::replay::{Recovered, recover};

/// Converts a directory whose lock the caller holds; `describe` says, for the last entry, what the snapshot of the node is
/// and what its log begins with. A crash leaves the directory as it was, or converted. Returns the last entry; none if there
/// is nothing to convert.
pub fn convert(
    disk: Arc<dyn Disk>,
    lock: Box<dyn Lock>,
    describe: impl FnOnce(LogIndex) -> Option<(RaftSnapshot, Vec<u8>)>,
) -> Result<Option<LogIndex>, JournalError> {
    let mut recovered = recover();
    let (mut journal, _) = LocalJournal::open_locked(disk, lock, LocalOptions::default(), &mut recovered)?;
    let Recovered {
        partition,
        contents,
        index,
        last_wall,
        progress: _,
    } = &recovered;
    let Some((snapshot, mark)) = describe(*index) else {
        return Ok(None);
    };
    let mut sink = journal.begin_conversion(&snapshot, &contents.segments())?;
    store_snapshot(
        &mut *sink,
        *last_wall,
        &partition.snapshot(),
        &contents.snapshot(),
    )?;
    journal.convert(&sink.finish()?, &mark)?;
    Ok(Some(*index))
}
