//! One recipient of a message to an audience.

use super::RunKey;
use crate::identity::{DeliveryId, SubscriptionId, hashed};

/// What travels to one recipient: a reference to the run's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecipientRef {
    pub run: RunKey,
    /// The recipient's own delivery.
    pub id: DeliveryId,
    pub subscription: SubscriptionId,
}

impl RecipientRef {
    /// This subscription as a recipient. The delivery's id follows from run and subscription, so a repetition is the same delivery.
    pub fn new(run: &RunKey, subscription: SubscriptionId) -> Self {
        let id = DeliveryId::parse(&hashed(&format!("audience\0{}\0{subscription}", run.id)));
        Self { run: run.clone(), id: id.expect("invariant: a hash is an id"), subscription }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{subscription, tenant};
    use crate::identity::RunId;

    #[test]
    fn a_recipient_has_one_delivery_for_each_run() {
        let run = |id| RunKey { tenant: tenant(), id: RunId::parse(id).expect("valid") };
        let delivery = |run_id, id| RecipientRef::new(&run(run_id), subscription(id).id).id;
        assert_eq!(delivery("news", "s1"), delivery("news", "s1"));
        assert_ne!(delivery("news", "s1"), delivery("news", "s2"));
        assert_ne!(delivery("news", "s1"), delivery("sport", "s1"));
    }
}
