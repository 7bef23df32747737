//! A stack's keys of one kind, in a form in which two stacks' can be compared. Nothing here is printed but ids.

use std::collections::BTreeMap;

use redial_adapters::{
    secrets::Secret,
    vapid::{VapidDocument, VapidKeys},
};
use redial_core::time::Timestamp;
use serde_json::Value;

use crate::{
    hash_key::{self, HashDocument},
    rotation::secret::Variables,
    vapid,
};

/// A kind of key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Vapid,
    Webhook,
    Token,
    Hash,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Vapid, Self::Webhook, Self::Token, Self::Hash];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Vapid => "vapid",
            Self::Webhook => "webhook",
            Self::Token => "token",
            Self::Hash => "hash",
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Vapid => "VAPID keys",
            Self::Webhook => "webhook key",
            Self::Token => "key of browsers' tokens",
            Self::Hash => "key of endpoints' hashes",
        }
    }

    /// Whether subscriptions cannot be sent to without it.
    pub(crate) fn is_needed(self) -> bool {
        matches!(self, Self::Vapid | Self::Webhook)
    }

    pub(super) fn variables(self) -> Variables {
        const BY_HAND: &str = "the key is in the functions' environment, which the template sets: deploy both stacks with the same one";
        match self {
            Self::Vapid => vapid::VARIABLES,
            Self::Webhook => Variables { value: "WEBHOOK_KEY", id: "WEBHOOK_KEY_SECRET_ID", remedy: BY_HAND },
            Self::Token => Variables { value: "TOKEN_KEY", id: "TOKEN_KEY_SECRET_ID", remedy: BY_HAND },
            Self::Hash => hash_key::VARIABLES,
        }
    }
}

/// Keys by their ids, each as a text that is the same for the same key: a VAPID key's public half, else the key itself.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeySet {
    pub(super) by_id: BTreeMap<String, String>,
    /// Which is used where none is named, and for what is new.
    used: Vec<String>,
}

impl KeySet {
    /// `None` if the text is not of any form that the functions read.
    pub(super) fn parse(kind: Kind, text: &Secret) -> Option<Self> {
        let text = text.expose().trim();
        if kind == Kind::Vapid {
            let keys = VapidKeys::parse(text).ok()?;
            let by_id = keys.published().map(|key| (key.id.to_string(), key.public_base64url.to_owned()));
            let used = vec![keys.default_id().to_string(), keys.current_id().to_string()];
            return Some(Self { by_id: by_id.collect(), used });
        }
        let pairs = pairs(text)?;
        let used = vec![pairs.first()?.0.clone()];
        Some(Self { by_id: pairs.into_iter().collect(), used })
    }

    /// The ids of those keys that the other set has otherwise or not at all.
    pub(super) fn not_in(&self, other: &Self) -> Vec<String> {
        let differs = |(id, key): &(&String, &String)| other.by_id.get(*id) != Some(*key);
        self.by_id.iter().filter(differs).map(|(id, _)| id.clone()).collect()
    }

    /// The ids of those keys that the other set has otherwise.
    pub(super) fn otherwise_in(&self, other: &Self) -> Vec<String> {
        self.not_in(other).into_iter().filter(|id| other.by_id.contains_key(id)).collect()
    }

    /// Whether the other set has all of these, and uses the same.
    pub(super) fn is_served_by(&self, other: &Self) -> bool {
        self.not_in(other).is_empty() && self.used == other.used
    }
}

/// The keys of a text that is not of VAPID keys, by their ids, the one that is used first.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    if text.starts_with('{') {
        let document: Value = serde_json::from_str(text).ok()?;
        let pair = |key: &Value| Some((key["id"].as_str()?.to_owned(), key["key"].as_str()?.to_owned()));
        let former = document["former"].as_array().into_iter().flatten();
        let others = [&document["next"]].into_iter().filter(|next| !next.is_null()).chain(former);
        return [&document].into_iter().chain(others).map(pair).collect();
    }
    let pair = |part: &str| part.trim().split_once(':').map(|(id, key)| (id.to_owned(), key.to_owned()));
    text.split(',').map(pair).collect()
}

/// The text of `theirs`, with those keys beside it that only `ours` has. `None` if no form that the functions read has all of them.
pub(super) fn merged(kind: Kind, theirs: &Secret, ours: &Secret, now: Timestamp) -> Option<Secret> {
    let [from, to] = [theirs, ours].map(|text| text.expose().trim());
    let merged = match kind {
        Kind::Vapid => VapidDocument::parse(from).ok()?.with_others(VapidDocument::parse(to).ok()?).written(),
        Kind::Hash => {
            let [from, to] = [from, to].map(|text| HashDocument::parse(text, now).ok());
            from?.with_others(to?, now).written()
        }
        Kind::Webhook | Kind::Token => {
            let mut all = pairs(from)?;
            let others = pairs(to)?.into_iter().filter(|(id, _)| all.iter().all(|(known, _)| known != id));
            all.extend(others.collect::<Vec<_>>());
            let all: Vec<String> = all.iter().map(|(id, key)| format!("{id}:{key}")).collect();
            Secret::new(all.join(","))
        }
    };
    // A key with a comma has a form only while it is alone.
    let [read, theirs, ours] = [&merged, theirs, ours].map(|text| KeySet::parse(kind, text));
    let (read, theirs, ours) = (read?, theirs?, ours?);
    let has_all = theirs.is_served_by(&read) && ours.not_in(&read) == ours.otherwise_in(&theirs);
    has_all.then_some(merged)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    fn set(kind: Kind, text: &str) -> KeySet {
        KeySet::parse(kind, &Secret::new(text.to_owned())).expect("keys")
    }

    #[test]
    fn the_same_keys_are_the_same_in_every_form() {
        let key = "0123456789abcdef";
        let json = set(Kind::Webhook, r#"{"id":"k1","key":"0123456789abcdef"}"#);
        assert!(json == set(Kind::Webhook, "k1:0123456789abcdef"));
        let rotated = set(Kind::Token, "k2:fedcba9876543210, k1:0123456789abcdef");
        assert_eq!((json.not_in(&rotated).len(), rotated.not_in(&json)), (0, vec!["k2".to_owned()]));
        assert!(!json.is_served_by(&rotated), "it uses another");
        let other = set(Kind::Token, "k1:fedcba9876543210");
        assert_eq!(json.not_in(&other), ["k1"], "the same id and another key");
        let hash = format!(
            r#"{{"id":"k2","key":"{key}","next":{{"id":"k3","key":"x"}},"former":[{{"id":"k1","key":"y"}}]}}"#
        );
        assert_eq!(set(Kind::Hash, &hash).by_id.into_keys().collect::<Vec<_>>(), ["k1", "k2", "k3"]);
        assert!(KeySet::parse(Kind::Webhook, &Secret::new("rubbish".to_owned())).is_none());
    }

    #[test]
    fn vapid_keys_are_compared_by_their_public_halves() {
        let [a, b] = [1, 2].map(|byte| URL_SAFE_NO_PAD.encode([byte; 32]));
        let bare = set(Kind::Vapid, &a);
        let document = format!(r#"{{"default":"default","keys":{{"default":"{a}"}}}}"#);
        assert!(bare.is_served_by(&set(Kind::Vapid, &document)));
        let rotated =
            format!(r#"{{"default":"default","current":"b","keys":{{"default":"{a}","b":"{b}"}}}}"#);
        let rotated = set(Kind::Vapid, &rotated);
        assert_eq!((bare.not_in(&rotated).len(), rotated.not_in(&bare)), (0, vec!["b".to_owned()]));
        assert!(!bare.by_id["default"].contains(&a), "no private key is kept");
    }

    #[test]
    fn keys_that_only_one_stack_has_stay_beside_those_of_the_other() {
        let [a, b, c] = [1, 2, 3].map(|byte| URL_SAFE_NO_PAD.encode([byte; 32]));
        let now = Timestamp::from_secs(1_800_000_000);
        let secret = |text: &str| Secret::new(text.to_owned());
        let vapid = format!(r#"{{"default":"k2","current":"k3","keys":{{"k2":"{b}","k3":"{c}"}}}}"#);
        let vapid_before = format!(r#"{{"default":"k1","current":"k2","keys":{{"k1":"{a}","k2":"{b}"}}}}"#);
        let [k1, k2] = ["k1:0123456789abcdef", "k2:fedcba9876543210"];
        let generated = r#"{"id":"k2","key":"fedcba9876543210"}"#;
        for (kind, theirs, ours, all) in [
            (Kind::Vapid, &*vapid, &*vapid_before, &["k1", "k2", "k3"][..]),
            (Kind::Webhook, k2, k1, &["k1", "k2"]),
            (Kind::Webhook, generated, k1, &["k1", "k2"]),
            (Kind::Token, k2, k2, &["k2"]),
            (Kind::Hash, generated, k1, &["k1", "k2"]),
        ] {
            let both = merged(kind, &secret(theirs), &secret(ours), now).expect("all fit");
            let both = KeySet::parse(kind, &both).expect("keys");
            let (theirs, ours) = (set(kind, theirs), set(kind, ours));
            assert!(theirs.is_served_by(&both) && ours.not_in(&both).is_empty(), "{kind:?}");
            assert_eq!(both.by_id.into_keys().collect::<Vec<_>>(), all, "{kind:?}");
        }
        let with_a_comma = r#"{"id":"k2","key":"fedcba98,76543210"}"#;
        assert!(merged(Kind::Token, &secret(with_a_comma), &secret(k1), now).is_none());
    }
}
