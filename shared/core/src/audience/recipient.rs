//! The message that goes to one recipient of an audience: a reference to what all of them get.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::RunKey;
use crate::identity::{DeliveryId, DeliveryKey, RunId, SubscriptionId, Tenant};
use crate::message::Travel;
use crate::shape::{self, Object};

/// Which recipient, of which message to an audience.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecipientRef {
    /// The run of the message to the audience.
    pub run: RunKey,
    /// The recipient's own delivery.
    pub id: DeliveryId,
    /// Whom it goes to.
    pub subscription: SubscriptionId,
}

impl RecipientRef {
    /// This subscription as a recipient. The delivery's id follows from run and subscription: made twice, it is one.
    pub fn new(run: &RunKey, subscription: SubscriptionId) -> Self {
        let named = format!("audience\0{}\0{subscription}", run.id);
        let digest = ring::digest::digest(&ring::digest::SHA256, named.as_bytes());
        let id = DeliveryId::parse(&URL_SAFE_NO_PAD.encode(digest.as_ref()));
        Self { run: run.clone(), id: id.expect("43 base64url characters are an id"), subscription }
    }

    /// Takes its fields and its place on the way out of a body; `None` if it has no `audience`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<(Self, Travel)> {
        object.raw("audience")?;
        let an_id = "^[A-Za-z0-9_-]{1,64}$";
        let run = object.required("audience", an_id, |raw| RunId::parse(&shape::string(raw)?));
        let tenant = object.required("tenant", "a tenant", |raw| Tenant::parse(&shape::string(raw)?));
        let id = object.required("id", an_id, |raw| DeliveryId::parse(&shape::string(raw)?));
        let subscription =
            object.required("recipient", an_id, |raw| SubscriptionId::parse(&shape::string(raw)?));
        let key = tenant.clone().zip(id.clone()).map(|(tenant, id)| DeliveryKey { tenant, id });
        let travel = Travel::take(object, key);
        let run = RunKey { tenant: tenant?, id: run? };
        Some((Self { run, id: id?, subscription: subscription? }, travel?))
    }

    /// Its fields, as JSON, by their names.
    pub(crate) fn fields(&self) -> [(&'static str, String); 4] {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        [
            ("tenant", json(self.run.tenant.as_str())),
            ("id", json(self.id.as_str())),
            ("audience", json(self.run.id.as_str())),
            ("recipient", json(self.subscription.as_str())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_s_delivery_is_one_however_often_it_is_made() {
        let key = |id| RunKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: RunId::parse(id).expect("valid"),
        };
        let to = |run, id| RecipientRef::new(&key(run), SubscriptionId::parse(id).expect("valid")).id;
        assert_eq!(to("news", "s1"), to("news", "s1"));
        assert_ne!(to("news", "s1"), to("news", "s2"));
        assert_ne!(to("news", "s1"), to("sport", "s1"));
    }
}
