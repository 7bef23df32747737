//! The token that lets a browser store, renew and delete one subscription: `rds_<key id>.<payload>.<MAC>`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::{Kind, SEPARATOR, TokenKeys};
use crate::identity::{SubscriptionId, Tenant};
use crate::tag::{Tag, Tags};
use crate::time::Timestamp;

/// What every such token begins with.
const PREFIX: &str = "rds_";

const KIND: Kind = Kind { name: "redial subscription token", mac_bytes: 32 };

/// No token is longer: the longest names and all tags take some 800 characters.
const MAX: usize = 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionToken {
    pub tenant: Tenant,
    pub subscription: SubscriptionId,
    pub tags: Tags,
    /// The first moment at which it is no longer valid.
    pub expires_at: Timestamp,
}

impl SubscriptionToken {
    /// How long the token is valid that a browser gets to renew its subscription with: longer than most users stay away.
    pub const RENEWAL: Duration = Duration::from_secs(180 * 86_400);
}

/// As JSON, in short names: tenant, subscription, tags, epoch milliseconds.
#[derive(Serialize, Deserialize)]
struct Payload {
    t: String,
    s: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    g: Vec<String>,
    e: i64,
}

impl TokenKeys {
    /// The token's text, made with the current key. Never log what this returns.
    pub fn subscription(&self, token: &SubscriptionToken) -> String {
        let payload = Payload {
            t: token.tenant.to_string(),
            s: token.subscription.to_string(),
            g: token.tags.iter().map(Tag::to_string).collect(),
            e: token.expires_at.as_ms(),
        };
        let payload = serde_json::to_vec(&payload).expect("invariant: strings and a number are JSON");
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let key = self.current();
        key.signed(&KIND, format!("{PREFIX}{}{SEPARATOR}{payload}", key.id))
    }

    /// `None` if it is invalid, was not made here, or has expired at `now`.
    pub fn read_subscription(&self, token: &str, now: Timestamp) -> Option<SubscriptionToken> {
        if token.len() > MAX {
            return None;
        }
        let text = self.verified(&KIND, token, |text| Some(parts(text)?.0))?;
        let payload = URL_SAFE_NO_PAD.decode(parts(text)?.1).ok()?;
        let Payload { t, s, g, e } = serde_json::from_slice(&payload).ok()?;
        let tags: Option<Vec<Tag>> = g.iter().map(|text| Tag::parse(text)).collect();
        let token = SubscriptionToken {
            tenant: Tenant::parse(&t)?,
            subscription: SubscriptionId::parse(&s)?,
            tags: Tags::new(tags?).ok()?,
            expires_at: Timestamp::from_ms(e),
        };
        (now < token.expires_at).then_some(token)
    }
}

fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PREFIX)?.split_once(SEPARATOR)
}
