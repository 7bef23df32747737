//! Policies by name: the presets that come with Redial, and the operator's own, which override presets of the same name.
//!
//! Both are data in `infra/policies` and become part of the package when it is built. Tests check the presets. `redial policy check`
//! checks the operator's own, and so does every function when it starts: an invalid policy fails its initialisation.

use std::sync::{Arc, LazyLock};

use super::{Policy, parse};
use crate::delivery_options::Class;
use crate::label::labels;
use crate::shape::{ShapeError, joined};

// `PRESETS` and `OWN`: names and texts of the files.
include!(concat!(env!("OUT_DIR"), "/policies.rs"));

#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    entries: Vec<Named>,
}

#[derive(Clone, Debug)]
pub struct Named {
    pub policy: Arc<Policy>,
    pub origin: Origin,
}

labels! {
    pub enum Origin {
        Preset = "preset",
        Operator = "operator",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("policy `{name}`: {}", joined(errors))]
pub struct InvalidPolicy {
    pub name: String,
    pub errors: Vec<ShapeError>,
}

impl Catalogue {
    /// Reads files given by name and text; a later one replaces an earlier one of the same name.
    pub fn read(files: &[(Origin, &str, &str)]) -> (Self, Vec<InvalidPolicy>) {
        let mut catalogue = Self::default();
        let mut invalid = Vec::new();
        for (origin, name, text) in files {
            match named(name, text) {
                Ok(policy) => {
                    catalogue.entries.retain(|known| known.policy.name != policy.name);
                    catalogue.entries.push(Named { policy: Arc::new(policy), origin: *origin });
                }
                Err(errors) => invalid.push(InvalidPolicy { name: (*name).to_owned(), errors }),
            }
        }
        catalogue.entries.sort_unstable_by(|a, b| a.policy.name.cmp(&b.policy.name));
        (catalogue, invalid)
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Policy>> {
        self.entries.iter().find(|named| named.policy.name == name).map(|named| &named.policy)
    }

    pub fn entries(&self) -> &[Named] {
        &self.entries
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|named| named.policy.name.as_str())
    }

    pub fn of_class(&self, class: Class) -> &Arc<Policy> {
        let name = match class {
            Class::Otp => "otp",
            Class::Alert => "web-push",
            Class::Campaign => "campaign",
        };
        self.get(name).expect("invariant: every class has a preset, which can be overridden and not removed")
    }
}

/// Reads a policy's file. Its name must be one that a message can use.
pub fn named(name: &str, text: &str) -> Result<Policy, Vec<ShapeError>> {
    let policy = parse::document(text, name);
    if is_name(name) {
        return policy;
    }
    let mut errors = policy.err().unwrap_or_default();
    errors.push(ShapeError {
        path: "the file's name".to_owned(),
        expected: "^[a-z0-9][a-z0-9-]{0,62}$ before its .json".into(),
        found: "another name".into(),
    });
    Err(errors)
}

fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

static PACKAGED: LazyLock<(Catalogue, Vec<InvalidPolicy>)> = LazyLock::new(|| {
    let own = OWN.iter().map(|(name, text)| (Origin::Operator, *name, *text));
    Catalogue::read(&preset_files().chain(own).collect::<Vec<_>>())
});

fn preset_files() -> impl Iterator<Item = (Origin, &'static str, &'static str)> {
    PRESETS.iter().map(|(name, text)| (Origin::Preset, *name, *text))
}

pub fn packaged() -> &'static Catalogue {
    &PACKAGED.0
}

/// The invalid policies that this package was built with: no function starts with any.
pub fn packaged_invalid() -> &'static [InvalidPolicy] {
    &PACKAGED.1
}

/// The presets, without the operator's own policies.
pub fn presets() -> &'static Catalogue {
    static ALONE: LazyLock<Catalogue> =
        LazyLock::new(|| Catalogue::read(&preset_files().collect::<Vec<_>>()).0);
    &ALONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packaged_policy_is_valid_and_every_class_has_one() {
        assert_eq!(packaged_invalid(), []);
        assert_eq!(presets().entries().len(), PRESETS.len());
        for class in Class::ALL {
            assert!(packaged().of_class(class).retries.is_some(), "{class:?}");
        }
        for named in presets().entries() {
            assert!(named.policy.description.is_some(), "{}", named.policy.name);
        }
    }

    #[test]
    fn an_operator_s_policy_replaces_the_preset_of_its_name() {
        let (catalogue, invalid) = Catalogue::read(&[
            (Origin::Preset, "web-push", "{}"),
            (Origin::Preset, "otp", "{}"),
            (Origin::Operator, "web-push", r#"{"max_retries": 9}"#),
            (Origin::Operator, "mine", r#"{"retry_delays": [1, 2]}"#),
        ]);
        assert_eq!(invalid, []);
        assert_eq!(catalogue.names().collect::<Vec<_>>(), ["mine", "otp", "web-push"]);
        let retries = |name| Some(catalogue.get(name)?.retries.as_ref()?.max_retries);
        assert_eq!(["web-push", "otp", "mine"].map(retries), [Some(9), Some(5), Some(2)]);
        let origins: Vec<_> = catalogue.entries().iter().map(|named| named.origin).collect();
        assert_eq!(origins, [Origin::Operator, Origin::Preset, Origin::Operator]);
    }

    #[test]
    fn an_invalid_file_is_reported_and_leaves_the_preset_in_place() {
        let (catalogue, invalid) = Catalogue::read(&[
            (Origin::Preset, "web-push", "{}"),
            (Origin::Operator, "web-push", r#"{"max_retries": 101}"#),
            (Origin::Operator, "My Own", "{}"),
        ]);
        assert!(catalogue.get("web-push").is_some());
        for (invalid, expected) in invalid.iter().zip([
            "policy `web-push`: max_retries: expected an integer from 0 to 100, found an integer: 101",
            "policy `My Own`: the file's name: expected ^[a-z0-9][a-z0-9-]{0,62}$ before its .json, found another name",
        ]) {
            assert_eq!(invalid.to_string(), expected);
        }
    }
}
