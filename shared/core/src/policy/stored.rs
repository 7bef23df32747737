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

    /// Reads one text of a tenant, and the last good one: the retries that are followed then, and the paths of errors.
    fn read(policy: &str, last_good: Option<&str>, before: &TenantPolicies) -> (Option<u32>, Vec<String>) {
        let (slot, last_good) = (Slot::Tenant, last_good.map(str::to_owned));
        let stored = Stored { slot, policy: policy.to_owned(), last_good };
        let (policies, ignored) = TenantPolicies::read(vec![stored], before);
        let retries = || Some(policies.of_tenant()?.retries.as_ref()?.max_retries);
        (retries(), ignored.into_iter().flat_map(|it| it.errors).map(|error| error.path).collect())
    }

    #[test]
    fn an_invalid_text_is_replaced_by_the_last_good_one_or_the_one_before() {
        let stored =
            Stored { slot: Slot::Tenant, policy: r#"{"max_retries": 1}"#.to_owned(), last_good: None };
        let (before, _) = TenantPolicies::read(vec![stored], &TenantPolicies::default());
        let none = TenantPolicies::default();
        let (broken, good) = (r#"{"max_retries": 999}"#, Some(r#"{"max_retries": 2}"#));
        for (text, last_good, before, retries, errors) in [
            (r#""otp""#, None, &none, Some(3), &[][..]),
            (broken, good, &before, Some(2), &["max_retries"]),
            (broken, None, &before, Some(1), &["max_retries"]),
            (broken, good, &none, Some(2), &["max_retries"]),
            ("", None, &none, None, &[""]),
            ("not JSON", None, &none, None, &[""]),
            ("[]", None, &none, None, &[""]),
            (r#"{"colour": "red"}"#, None, &none, None, &["colour"]),
        ] {
            let errors = errors.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(read(text, last_good, before), (retries, errors), "{text}");
        }
        let (after, _) = TenantPolicies::read(Vec::new(), &before);
        assert_eq!(after, none, "one that is deleted is not followed");
        let errors = stored_policy(r#""opt""#, &Slot::Tenant).expect_err("no such name");
        assert!(errors[0].to_string().ends_with("web-push, found another string"), "{}", errors[0]);
    }
}
