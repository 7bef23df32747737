//! A tenant's own policies, which can change while functions run.
//!
//! They are stored as the JSON text that `redial policy set` has checked. A function only ever follows a valid one: instead of an
//! invalid text it follows the last one that was checked, which is stored with it, so that all workers follow the same; and without
//! that, the one that it followed before.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Policy, catalogue, parse};
use crate::delivery_options::EventType;
use crate::shape::{self, Errors, ShapeError};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Slot {
    Tenant,
    Topic(String),
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant => f.write_str("tenant"),
            Self::Topic(topic) => write!(f, "topic {topic}"),
        }
    }
}

/// A stored text, which may be invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    pub slot: Slot,
    pub policy: String,
    /// The last text that was checked when it was stored.
    pub last_good: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ignored {
    pub slot: Slot,
    pub errors: Vec<ShapeError>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct TenantPolicies {
    by_slot: BTreeMap<Slot, Arc<Policy>>,
}

impl TenantPolicies {
    /// Reads what is stored; `before` is what was followed so far.
    pub fn read(stored: Vec<Stored>, before: &Self) -> (Self, Vec<Ignored>) {
        let mut policies = Self::default();
        let mut ignored = Vec::new();
        for Stored { slot, policy, last_good } in stored {
            let valid = match stored_policy(&policy, &slot) {
                Ok(valid) => Some(valid),
                Err(errors) => {
                    ignored.push(Ignored { slot: slot.clone(), errors });
                    let last_good = || stored_policy(&last_good?, &slot).ok();
                    last_good().or_else(|| before.by_slot.get(&slot).cloned())
                }
            };
            if let Some(valid) = valid {
                policies.by_slot.insert(slot, valid);
            }
        }
        (policies, ignored)
    }

    pub fn of_tenant(&self) -> Option<&Arc<Policy>> {
        self.by_slot.get(&Slot::Tenant)
    }

    pub fn of_topic(&self, topic: &EventType) -> Option<&Arc<Policy>> {
        self.by_slot.get(&Slot::Topic(topic.as_str().to_owned()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Slot, &Arc<Policy>)> {
        self.by_slot.iter()
    }
}

/// Reads a stored text: a policy, which gets the name of its slot, or the name of a packaged one. Errors quote no value, because they
/// are logged and the text is unchecked.
pub fn stored_policy(text: &str, slot: &Slot) -> Result<Arc<Policy>, Vec<ShapeError>> {
    if let Ok(raw) = serde_json::from_str(text)
        && let Some(name) = shape::string(raw)
    {
        let errors = Errors::default();
        errors.add("", expected_name(), "another string");
        return catalogue::packaged().get(&name).cloned().ok_or_else(|| errors.into_vec());
    }
    parse::policy(text, &slot.to_string(), "").map(Arc::new)
}

pub fn expected_name() -> String {
    let names: Vec<_> = catalogue::packaged().names().collect();
    format!("a policy: an object, or one of {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(policy: &str, last_good: Option<&str>) -> Vec<Stored> {
        let last_good = last_good.map(str::to_owned);
        vec![Stored { slot: Slot::Tenant, policy: policy.to_owned(), last_good }]
    }

    fn max_retries(policies: &TenantPolicies) -> Option<u32> {
        Some(policies.of_tenant()?.retries.as_ref()?.max_retries)
    }

    #[test]
    fn a_name_selects_the_packaged_policy() {
        let (policies, ignored) = TenantPolicies::read(tenant(r#""otp""#, None), &TenantPolicies::default());
        assert_eq!((max_retries(&policies), ignored), (Some(3), vec![]));
        let errors = stored_policy(r#""opt""#, &Slot::Tenant).expect_err("no such name");
        assert!(errors[0].to_string().ends_with("web-push, found another string"), "{}", errors[0]);
    }

    #[test]
    fn the_last_good_policy_replaces_an_invalid_text() {
        let (before, _) =
            TenantPolicies::read(tenant(r#"{"max_retries": 1}"#, None), &TenantPolicies::default());
        let broken = tenant(r#"{"max_retries": 999}"#, Some(r#"{"max_retries": 2}"#));
        let (after, ignored) = TenantPolicies::read(broken.clone(), &before);
        assert_eq!(max_retries(&after), Some(2), "the one that every worker finds");
        let (after, _) = TenantPolicies::read(tenant(r#"{"max_retries": 999}"#, None), &before);
        assert_eq!(max_retries(&after), Some(1));
        assert_eq!(
            (ignored[0].slot.clone(), ignored[0].errors[0].path.as_str()),
            (Slot::Tenant, "max_retries")
        );
        let (fresh, ignored) = TenantPolicies::read(broken, &TenantPolicies::default());
        assert_eq!((max_retries(&fresh), ignored.len()), (Some(2), 1));
    }

    #[test]
    fn an_invalid_text_without_a_predecessor_is_ignored() {
        for text in ["", "not JSON", "[]", r#"{"colour": "red"}"#] {
            let (policies, ignored) = TenantPolicies::read(tenant(text, None), &TenantPolicies::default());
            assert_eq!((max_retries(&policies), ignored.len()), (None, 1), "{text}");
        }
    }

    #[test]
    fn a_policy_that_is_deleted_is_not_followed() {
        let (before, _) = TenantPolicies::read(tenant("{}", None), &TenantPolicies::default());
        let (after, _) = TenantPolicies::read(Vec::new(), &before);
        assert_eq!(after, TenantPolicies::default());
    }
}
