//! The secret with the key of endpoints' hashes: the current key, those before it and the one after it.
//!
//! `{"id", "key"}` as Secrets Manager generates it; beside it `"next": {"id", "key"}`, which every worker has to know before
//! any uses it, and `"former": [{"id", "key", "until"}, …]`, the latest first. `until` is when the last worker stopped
//! using it; some may still use a former key without it. `HashKeys` parses the same text.

use std::{fmt, time::Duration};

use redial_adapters::secrets::Secret;
use redial_core::{
    endpoint::{HashKeys, HashKeysError},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// How long a key stays after its last use: as long as the ledger keeps what was recorded with it. References to dead letters
/// wait for 14 days at most, candidates for removal for minutes.
pub(super) const NEEDED_FOR: Duration = Duration::from_secs(15 * 86_400);

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashDocument {
    id: String,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Next>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former: Vec<Former>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Next {
    id: String,
    key: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Former {
    id: String,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

/// Never holds a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum HashDocumentError {
    /// The workers could not parse it either.
    #[error("{0}")]
    Keys(#[from] HashKeysError),
    /// Writing it back would lose these fields.
    #[error("it has unknown fields, which would be lost")]
    Fields,
}

/// The progress of a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// No rotation is in progress.
    Settled,
    /// There is a next key. Some workers may not know it.
    Announced,
    /// The next key became the current one. Some workers may still use the one before.
    Following,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Known, not used yet.
    Next,
    /// Used.
    Current,
    /// Known, and used until then; `None` if some workers may still use it.
    Former { until: Option<Timestamp> },
}

impl HashDocument {
    /// Parses every form that workers parse. In the short form, keys after the current one count as former since `now`.
    pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Self, HashDocumentError> {
        HashKeys::parse(text)?;
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|_| HashDocumentError::Fields);
        }
        let mut pairs = text.split(',').filter_map(|part| part.trim().split_once(':'));
        let (id, key) = pairs.next().ok_or(HashKeysError)?;
        let until = Some(now.to_rfc3339_seconds());
        let former =
            pairs.map(|(id, key)| Former { id: id.to_owned(), key: key.to_owned(), until: until.clone() });
        Ok(Self { id: id.to_owned(), key: key.to_owned(), next: None, former: former.collect() })
    }

    pub(super) fn step(&self) -> Step {
        if self.next.is_some() {
            Step::Announced
        } else if self.former.iter().any(|it| it.until.is_none()) {
            Step::Following
        } else {
            Step::Settled
        }
    }

    /// The ids of all keys: the next one, the current one, the former ones.
    pub(super) fn roles(&self) -> Vec<(&str, Role)> {
        let next = self.next.iter().map(|it| (it.id.as_str(), Role::Next));
        let former = self.former.iter().map(|it| {
            let until = it.until.as_deref().and_then(Timestamp::parse_rfc3339);
            (it.id.as_str(), Role::Former { until })
        });
        next.chain([(self.id.as_str(), Role::Current)]).chain(former).collect()
    }

    pub(super) fn current(&self) -> &str {
        &self.id
    }

    pub(super) fn next(&self) -> Option<&str> {
        self.next.as_ref().map(|it| it.id.as_str())
    }

    /// With a key that every worker has to know before it is used.
    pub(super) fn announcing(mut self, id: String, key: &Secret) -> Self {
        self.next = Some(Next { id, key: key.expose().to_owned() });
        self
    }

    /// With the next key as the current one.
    pub(super) fn turned(mut self) -> Self {
        if let Some(Next { id, key }) = self.next.take() {
            let before = Former {
                id: std::mem::replace(&mut self.id, id),
                key: std::mem::replace(&mut self.key, key),
                until: None,
            };
            self.former.insert(0, before);
        }
        self
    }

    /// With former keys that no worker uses any more.
    pub(super) fn settled(mut self, now: Timestamp) -> Self {
        for former in &mut self.former {
            former.until.get_or_insert_with(|| now.to_rfc3339_seconds());
        }
        self
    }

    pub(super) fn without(mut self, id: &str) -> Self {
        self.former.retain(|it| it.id != id);
        self
    }

    /// With the keys of the other whose ids it does not have, as former ones.
    pub(crate) fn with_others(mut self, other: Self, now: Timestamp) -> Self {
        let until = Some(now.to_rfc3339_seconds());
        let used = [(other.id, other.key)].into_iter().chain(other.next.map(|it| (it.id, it.key)));
        let used: Vec<Former> = used.map(|(id, key)| Former { id, key, until: until.clone() }).collect();
        for former in used.into_iter().chain(other.former) {
            if !self.roles().iter().any(|(id, _)| *id == former.id) {
                self.former.push(Former { until: former.until.or_else(|| until.clone()), ..former });
            }
        }
        self
    }

    /// As workers parse it.
    pub(crate) fn written(&self) -> Secret {
        Secret::new(serde_json::to_string(self).expect("invariant: texts by name have a JSON form"))
    }
}

/// When a former key may be retired.
pub(super) fn needed_until(role: Role) -> Option<Timestamp> {
    match role {
        Role::Next | Role::Current | Role::Former { until: None } => None,
        Role::Former { until: Some(until) } => Some(until.plus(NEEDED_FOR)),
    }
}

impl fmt::Debug for HashDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.roles()).finish()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use redial_core::endpoint::Endpoint;

    use super::*;

    const GENERATED: &str = r#"{"id":"k1","key":"0123456789abcdef"}"#;

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn parse(text: &str) -> HashDocument {
        HashDocument::parse(text, now()).expect("a document")
    }

    /// A rotation from `k1` to `k2`: settled, announced, turned, settled.
    pub(crate) fn rotation() -> [HashDocument; 4] {
        let first = parse(GENERATED);
        let announced =
            first.clone().announcing("k2".to_owned(), &Secret::new("fedcba9876543210".to_owned()));
        let turned = announced.clone().turned();
        [first, announced, turned.clone(), turned.settled(now())]
    }

    #[test]
    fn at_every_step_workers_know_each_other_s_keys() {
        let endpoint = Endpoint::parse("https://push.example/abc").expect("an endpoint");
        let rotation = rotation();
        let steps = rotation.each_ref();
        let [.., settled] = steps;
        assert_eq!(
            steps.map(HashDocument::step),
            [Step::Settled, Step::Announced, Step::Following, Step::Settled]
        );
        assert_eq!(steps.map(HashDocument::current), ["k1", "k1", "k2", "k2"]);
        let read = steps.map(|it| HashKeys::parse(it.written().expose()).expect("workers read it"));
        // Workers of one step run beside workers of the step before.
        for neighbours in read.windows(2) {
            for (a, b) in [(0, 1), (1, 0)] {
                let hash = neighbours[b].endpoint(&endpoint);
                assert_eq!(neighbours[a].is_of(&hash, &endpoint), Some(true));
            }
        }
        assert_eq!(settled.roles(), [("k2", Role::Current), ("k1", Role::Former { until: Some(now()) })]);
        assert_eq!(settled.clone().without("k1").roles(), [("k2", Role::Current)]);
        for step in steps {
            assert_eq!(&parse(step.written().expose()), step, "what is written is read back");
        }
    }

    #[test]
    fn a_former_key_is_needed_for_as_long_as_the_ledger_remembers() {
        let needed = needed_until(Role::Former { until: Some(now()) }).expect("a time");
        assert_eq!(needed.since(now()), NEEDED_FOR);
        for role in [Role::Next, Role::Current, Role::Former { until: None }] {
            assert_eq!(needed_until(role), None);
        }
    }

    #[test]
    fn the_short_form_keeps_its_keys() {
        let document = parse("k2:fedcba9876543210, k1:0123456789abcdef");
        assert_eq!(document.roles().iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["k2", "k1"]);
        assert_eq!(document.step(), Step::Settled);
        let endpoint = Endpoint::parse("https://push.example/abc").expect("an endpoint");
        let short = HashKeys::parse("k2:fedcba9876543210, k1:0123456789abcdef").expect("keys");
        let long = HashKeys::parse(document.written().expose()).expect("keys");
        assert_eq!(short.endpoint(&endpoint), long.endpoint(&endpoint));
    }

    #[test]
    fn keys_of_another_document_are_added_as_former_ones() {
        let [first, announced, ..] = rotation();
        let former = Role::Former { until: Some(now()) };
        assert_eq!(
            parse("k9:abcdefghijklmnop").with_others(announced, now()).roles(),
            [("k9", Role::Current), ("k1", former), ("k2", former)]
        );
        assert_eq!(
            first.clone().with_others(parse("k1:another-key-of-its"), now()),
            first,
            "none is replaced"
        );
    }

    #[test]
    fn unknown_fields_are_refused_and_keys_are_not_shown() {
        let more = r#"{"id":"k1","key":"0123456789abcdef","owner":"me"}"#;
        assert_eq!(HashDocument::parse(more, now()), Err(HashDocumentError::Fields));
        assert!(matches!(HashDocument::parse("0123456789abcdef", now()), Err(HashDocumentError::Keys(_))));
        let shown = format!("{:?} {}", parse(GENERATED), HashDocumentError::Fields);
        assert!(shown.contains("k1") && !shown.contains("0123456789abcdef"), "{shown}");
    }
}
