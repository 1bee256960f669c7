//! Who may call an action for a queue: its owner, and the accounts that the queue's policy lets.
//!
//! An account that may not gets the answer of a missing queue, so that nobody learns which queues others have. What a
//! policy says of a request is read in `auth`; here is which actions it is asked about.

use auth::{Decision, Policy};
use types::QueueKey;

use crate::wire::Text;
use crate::{ApiError, Context, queue_url};

/// Who may call an action for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The owner alone and always: managing a queue never crosses accounts, and no policy can lock its owner out.
    Owner,
    /// The owner always, and others whom the policy allows the action of this name.
    OwnerOrAllowed(&'static str),
    /// The owner unless the policy denies the action of this name, and others whom it allows it.
    Policy(&'static str),
}

impl Access {
    /// Returns the name that a queue policy has to allow for other accounts.
    pub(crate) const fn policy_action(self) -> Option<&'static str> {
        match self {
            Self::Owner => None,
            Self::OwnerOrAllowed(action) | Self::Policy(action) => Some(action),
        }
    }

    const fn binds_owner(self) -> bool {
        matches!(self, Self::Policy(_))
    }
}

impl Context<'_> {
    /// Returns the queue of the request, if the caller may do to it what the request asks for: the one that its
    /// `QueueUrl` names, or else that of its path.
    pub(crate) fn queue(&self, queue_url: Option<&Text<'_>>) -> Result<QueueKey, ApiError> {
        let named = queue_url.map_or("", Text::as_str);
        let text = if named.is_empty() { self.path } else { named };
        if text.trim_start_matches('/').is_empty() {
            return Err(ApiError::missing("QueueUrl"));
        }
        self.authorise(queue_url::resolve(text, self.principal.tenant)?)
    }

    /// Returns the queue if the caller may do to it what the request asks for.
    pub(crate) fn authorise(&self, key: QueueKey) -> Result<QueueKey, ApiError> {
        let is_owner = key.tenant == self.principal.tenant;
        let decision = self.policy_decision(&key, is_owner);
        match (is_owner, decision) {
            (true, Decision::Denied) => {
                Err(ApiError::AccessDenied(queue_url::arn(&self.options.region, &key)))
            }
            (true, Decision::Allowed | Decision::Silent) | (false, Decision::Allowed) => Ok(key),
            (false, Decision::Denied | Decision::Silent) => Err(ApiError::QueueDoesNotExist),
        }
    }

    /// Returns what the queue's policy says, where it has a say. A policy that cannot be read says nothing.
    fn policy_decision(&self, key: &QueueKey, is_owner: bool) -> Decision {
        let action = self
            .access
            .policy_action()
            .filter(|_| !is_owner || self.access.binds_owner());
        let Some(action) = action else {
            return Decision::Silent;
        };
        let Some(policy) = self.broker.policy(key).and_then(|text| Policy::parse(&text).ok()) else {
            return Decision::Silent;
        };
        let arn = queue_url::arn(&self.options.region, key);
        policy.decide(self.principal.tenant, action, &arn)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::TenantId;

    use super::*;

    proptest! {
        #[test]
        fn no_policy_makes_a_decision_panic(
            policy in prop_oneof![
                any::<String>(),
                r#"\{"Statement":\[\{"Effect":"(Allow|Deny|X)",("Principal":("\*"|\{"AWS":(\[("[0-9]{12}",)?"\*"\]|"[0-9]{1,13}"|"arn:aws:iam::[0-9]{12}:(root|user/u)?")\})|"NotPrincipal":"\*"),"Action":"(sqs:)?[*?a-zA-Z]{0,9}","Resource":"[*?:a-z]{0,9}"(,"Condition":\{\})?\}\]\}"#,
            ],
            action in "[A-Za-z*]{0,12}",
        ) {
            if let Ok(policy) = Policy::parse(&policy) {
                let arn = "arn:aws:sqs:us-east-1:000000000000:q";
                let decision = policy.decide(TenantId::DEV, &action, arn);
                prop_assert_eq!(policy.decide(TenantId::DEV, &action, arn), decision);
            }
        }
    }
}
