//! The port to the webhooks that tenants' events are posted to.

use super::Answers;
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::time::Timestamp;

pub trait Callbacks: Send + Sync {
    /// The subscriptions that the events of these tenants are posted to, as they were set at most half a minute ago.
    fn of(&self, tenants: Vec<Tenant>, now: Timestamp) -> impl Answers<Option<SubscriptionId>>;
}
