//! The owner of a partition: it turns requests into journal entries, applies what is committed, and answers.
//!
//! [`Owner`] is a plain state machine: requests and the time go in, an entry to journal and answers come out.
//! `turn.rs` is the thin shell around it that swaps the inbox, journals, applies and answers; `driver.rs` says on which
//! thread.
//! [`Broker`] is the handle that the APIs call from their reactors. Delivery rules are not here (`queue-core`), nor
//! stored bytes (`journal`), nor wire formats (`sqs-api`).

#![forbid(unsafe_code)]

mod agreement;
mod applied;
mod batch;
mod budget;
mod cache;
mod clock;
mod contents;
mod convert;
mod copies;
mod driver;
mod evacuation;
mod export;
mod fetch;
mod forward;
mod handle;
mod house;
mod import;
mod inbox;
mod inspect;
mod observer;
mod outcomes;
mod owner;
mod policies;
mod process;
mod progress;
mod random;
mod reads;
mod reign;
mod repair;
mod replay;
mod request;
mod room;
mod route;
mod seal;
mod state_clock;
mod take;
mod turn;
mod waiters;
mod written;

pub use agreement::Checkpoint;
pub use budget::BudgetLimits;
pub use clock::{Clock, ManualClock, OsClock};
pub use contents::{Contents, ContentsSnapshot, Held, Stored};
pub use convert::convert;
pub use export::{DamagedContent, Export, ExportedContents};
pub use forward::{decode_reply, decode_request, encode_reply, encode_request};
pub use handle::{Broker, BrokerError, ReceiveOptions, Received};
pub use import::Import;
pub use inbox::InboxLimits;
pub use inspect::{Inspection, StateInspection, inspect};
pub use observer::{Commit, NoObserver, Observer};
pub use owner::{Limits, Now, Owner, Turn};
pub use process::{OsProcess, Process, Work};
pub use progress::Progress;
pub use queue_core::LEVEL;
pub use random::{OsRandom, Random, SeededRandom};
pub use repair::{Dropped, Repair, repair};
pub use replay::{Recovered, Restoring, recover, write_snapshot};
pub use request::{
    Input, QueueDescription, QueuePage, Receive, ReceivedMessage, Reply, Request, Taken, WaiterId,
};
pub use room::{reserve_bytes, segment_bytes_max};
pub use route::{ForwardError, Forwarding, Leader};
pub use seal::Sealer;
pub use take::Take;
pub use turn::{BrokerOptions, JournalOpener, Status};
