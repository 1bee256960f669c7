//! A take: messages handed to a client whose answer is still on its way.

use std::sync::Arc;

use queue_core::Handle;

use crate::budget::Reserved;
use crate::request::Request;
use crate::turn::Shared;

/// Messages that were taken for an answer. Unless the answer is [`Take::delivered`], they are given back.
#[derive(Debug)]
#[must_use = "dropping a take gives its messages back"]
pub struct Take {
    shared: Arc<Shared>,
    handles: Vec<Handle>,
    /// The contents are in flight as long as this is.
    _reserved: Reserved,
}

impl Take {
    pub(crate) fn new(shared: Arc<Shared>, handles: Vec<Handle>, reserved: Reserved) -> Self {
        Self {
            shared,
            handles,
            _reserved: reserved,
        }
    }

    /// Leaves messages out: something else is done with them.
    pub(crate) fn leave_out(&mut self, left_out: &[Handle]) {
        self.handles.retain(|handle| !left_out.contains(handle));
    }

    /// The whole answer was handed to the client's connection: the leases run their time.
    pub fn delivered(mut self) {
        self.handles.clear();
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        give_back(&self.shared, self.handles.drain(..));
    }
}

/// Asks the owner to keep messages hidden for the time of their lease, without counting the receive.
pub(crate) fn withhold(shared: &Shared, handles: Vec<Handle>) {
    let Some(queue) = handles.first().map(|handle| handle.queue) else {
        return;
    };
    shared.tell(Request::Withhold { queue, handles });
}

/// Asks the owner to undo receives.
pub(crate) fn give_back(shared: &Shared, handles: impl Iterator<Item = Handle>) {
    let handles: Vec<_> = handles.collect();
    let Some(queue) = handles.first().map(|handle| handle.queue) else {
        return;
    };
    shared.tell(Request::GiveBack { queue, handles });
}
