//! Writes operations down while they happen.

use std::sync::{Mutex, PoisonError};

use crate::{Call, Fault, Operation, Reply};

/// Collects what clients do. Shared by their threads or tasks; it holds a lock for the time of one push.
#[derive(Debug, Default)]
pub struct Recorder {
    operations: Mutex<Vec<Operation>>,
    faults: Mutex<Vec<Fault>>,
}

/// Names an operation that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(usize);

impl Recorder {
    /// Writes down that a call is about to be sent. Until it is completed its outcome is unknown, so a client may be
    /// dropped in the middle of one.
    pub fn invoke(&self, process: u32, node: u32, invoked_micros: u64, call: Call) -> Ticket {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.push(Operation {
            process,
            node,
            invoked_micros,
            returned_micros: None,
            call,
            reply: Reply::Unknown,
        });
        Ticket(operations.len() - 1)
    }

    /// Writes down the reply of a call.
    pub fn complete(&self, ticket: Ticket, returned_micros: u64, reply: Reply) {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(operation) = operations.get_mut(ticket.0) {
            operation.returned_micros = Some(returned_micros);
            operation.reply = reply;
        }
    }

    /// Writes down what was done to the servers.
    pub fn fault(&self, fault: Fault) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(fault);
    }

    /// Returns how many operations have begun.
    pub fn len(&self) -> usize {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether no operation has begun.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out what was written down so far.
    pub fn take(&self) -> (Vec<Operation>, Vec<Fault>) {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut *operations), std::mem::take(&mut *faults))
    }
}
