//! How many bytes of message contents are in flight inside the server: on their way in until they are durable, and on
//! their way out until they were handed to the client. Bounded for all, and for each tenant, so that one that sends or
//! reads large messages leaves room for the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::TenantId;

/// Most bytes that may be in flight.
#[derive(Debug, Clone, Copy)]
pub struct BudgetLimits {
    /// For all tenants together.
    pub bytes_max: u64,
    /// For one of them.
    pub tenant_bytes_max: u64,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self {
            bytes_max: 256 << 20,
            tenant_bytes_max: 128 << 20,
        }
    }
}

/// Counts what is in flight.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: BudgetLimits,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Tenants that hold something.
    by_tenant: HashMap<TenantId, u64>,
}

/// Bytes that count as in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: Arc<Budget>,
    tenant: TenantId,
    bytes: u64,
}

impl Budget {
    pub(crate) fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            held: Mutex::default(),
        }
    }

    /// Counts bytes of a tenant as in flight; none if that would be too many. What is alone is never too much.
    pub(crate) fn reserve(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Option<Reserved> {
        let mut held = self.lock();
        let (all, own) = (held.bytes, held.by_tenant.get(&tenant).copied().unwrap_or(0));
        let fits = |before: u64, max: u64| before == 0 || before + bytes <= max;
        if !fits(all, self.limits.bytes_max) || !fits(own, self.limits.tenant_bytes_max) {
            return None;
        }
        held.bytes += bytes;
        held.by_tenant.insert(tenant, own + bytes);
        drop(held);
        Some(Reserved {
            budget: self.clone(),
            tenant,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Every change is whole: a panic elsewhere leaves the counts as they were.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut held = self.budget.lock();
        held.bytes -= self.bytes;
        if let Some(own) = held.by_tenant.get_mut(&self.tenant) {
            *own -= self.bytes;
            if *own == 0 {
                held.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(digits: &str) -> TenantId {
        digits.parse().unwrap()
    }

    #[test]
    fn one_tenant_leaves_room_for_the_others_and_all_stay_within_the_sum() {
        let limits = BudgetLimits {
            bytes_max: 100,
            tenant_bytes_max: 60,
        };
        let budget = Arc::new(Budget::new(limits));
        let (a, b, c) = (
            tenant("000000000001"),
            tenant("000000000002"),
            tenant("000000000003"),
        );
        let first = budget.reserve(a, 50).unwrap();
        let second = budget.reserve(a, 10).unwrap();
        assert!(budget.reserve(a, 1).is_none(), "its own limit");
        let other = budget.reserve(b, 40).unwrap();
        assert!(budget.reserve(b, 1).is_none(), "the limit of all");
        assert!(budget.reserve(c, 1).is_none());
        drop(first);
        assert!(budget.reserve(a, 50).is_some());
        drop((second, other));
        let held = budget.lock();
        assert_eq!((held.bytes, held.by_tenant.len()), (0, 0));
    }

    #[test]
    fn what_is_larger_than_the_limit_passes_alone() {
        let limits = BudgetLimits {
            bytes_max: 10,
            tenant_bytes_max: 10,
        };
        let budget = Arc::new(Budget::new(limits));
        let a = tenant("000000000001");
        let large = budget.reserve(a, 1_000).unwrap();
        assert!(budget.reserve(a, 1).is_none());
        drop(large);
        assert!(budget.reserve(a, 1).is_some());
    }
}
