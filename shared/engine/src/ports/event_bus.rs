//! The port to a bus of events.

use super::Answers;
use redial_core::relay::BusEvent;

pub trait EventBus: Send + Sync {
    /// Puts these events on the bus; an `Ok` is durable.
    fn put(&self, events: Vec<BusEvent>) -> impl Answers<()>;
}
