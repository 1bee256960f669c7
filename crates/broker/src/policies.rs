//! The access policies of queues, where the reactors can read them without asking the owner.
//!
//! The commit thread writes a policy here before it answers the call that set it, so a client that was told that a
//! policy is in force finds it in force.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use types::QueueKey;

/// Policies by queue. Costs one load while no queue has a policy.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    has_any: AtomicBool,
    texts: RwLock<HashMap<QueueKey, Arc<str>>>,
}

impl Policies {
    pub(crate) fn get(&self, key: &QueueKey) -> Option<Arc<str>> {
        if !self.has_any.load(Ordering::Acquire) {
            return None;
        }
        self.texts
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    pub(crate) fn set(&self, key: QueueKey, policy: Option<Arc<str>>) {
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        match policy {
            Some(policy) => texts.insert(key, policy),
            None => texts.remove(&key),
        };
        self.has_any.store(!texts.is_empty(), Ordering::Release);
    }
}
