//! The number of stored subscriptions of each VAPID key.
//!
//! There is no index by key, because these counts are needed a few times a year: the whole table is read, in pages, with four short
//! attributes of each item.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_core::{channel::Channel, subscription::State};

use crate::{aws_error, stack::Target, terminal::say};

/// Progress is printed after this number of pages of a mebibyte.
const REPORT_EVERY: usize = 25;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    /// Are sent to.
    pub(crate) active: u64,
    /// Of the active ones: a push service has answered 404 once.
    pub(crate) flagged: u64,
    /// Are not sent to: gone, or in quarantine.
    pub(crate) off: u64,
}

impl Count {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            active: self.active + other.active,
            flagged: self.flagged + other.flagged,
            off: self.off + other.off,
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    /// By the key id that they name.
    pub(crate) named: BTreeMap<String, Count>,
    /// Those without a key id belong to the default key.
    pub(crate) unnamed: Count,
}

#[derive(Debug, thiserror::Error)]
#[error("the table of subscriptions cannot be read: Scan: {0}")]
pub(crate) struct Unread(String);

impl Standing {
    /// A consistent read sees every subscription that was stored before it began, and costs twice as much.
    pub(crate) async fn read(target: &Target, is_consistent: bool) -> Result<Self, Unread> {
        let scan = aws_sdk_dynamodb::Client::new(&target.sdk)
            .scan()
            .table_name(&target.tables.subscriptions)
            .consistent_read(is_consistent)
            .projection_expression("#kind, #state, #vapid_key_id, #flagged_at")
            .expression_attribute_names("#kind", "kind")
            .expression_attribute_names("#state", "state")
            .expression_attribute_names("#vapid_key_id", "vapid_key_id")
            .expression_attribute_names("#flagged_at", "flagged_at");
        let (mut standing, mut items) = (Self::default(), 0);
        let mut pages = scan.into_paginator().send();
        let mut read = 0_usize;
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| Unread(aws_error::message(&error)))?;
            items += page.items().len();
            read += 1;
            page.items().iter().for_each(|item| standing.add(item));
            if read.is_multiple_of(REPORT_EVERY) {
                say(&format!("{items} subscriptions read so far"));
            }
        }
        Ok(standing)
    }

    /// Skips webhooks, and items of unknown versions.
    fn add(&mut self, item: &std::collections::HashMap<String, AttributeValue>) {
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str);
        if text("kind").and_then(Channel::from_label) != Some(Channel::WebPush) {
            return;
        }
        let count = match text("state").and_then(State::from_label) {
            Some(State::Active) => {
                Count { active: 1, flagged: u64::from(item.contains_key("flagged_at")), off: 0 }
            }
            Some(State::Gone | State::Quarantined | State::Disabled) => Count { off: 1, ..Count::default() },
            None => return,
        };
        let of = match text("vapid_key_id") {
            Some(id) => self.named.entry(id.to_owned()).or_default(),
            None => &mut self.unnamed,
        };
        *of = of.plus(count);
    }

    /// The subscriptions that use the key of that id.
    pub(crate) fn on(&self, id: &str, is_default: bool) -> Count {
        let named = self.named.get(id).copied().unwrap_or_default();
        if is_default { named.plus(self.unnamed) } else { named }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subscription_counts_for_its_key() {
        let mut standing = Standing::default();
        for (kind, state, id, is_flagged) in [
            ("web_push", "active", None, false),
            ("web_push", "active", Some("k1"), true),
            ("web_push", "gone", Some("k1"), false),
            ("web_push", "quarantined", Some("k2"), true),
            ("web_push", "of a later version", Some("k2"), false),
            ("webhook", "active", None, false),
        ] {
            let s = |text: &str| AttributeValue::S(text.to_owned());
            let pairs = [("kind", Some(s(kind))), ("state", Some(s(state))), ("vapid_key_id", id.map(s))];
            let flagged = ("flagged_at", is_flagged.then(|| AttributeValue::N("1".to_owned())));
            let pairs = pairs.into_iter().chain([flagged]);
            standing.add(&pairs.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect());
        }
        assert_eq!(standing.on("k1", false), Count { active: 1, flagged: 1, off: 1 });
        assert_eq!(standing.on("k1", true), Count { active: 2, flagged: 1, off: 1 });
        assert_eq!(standing.on("k2", false), Count { active: 0, flagged: 0, off: 1 });
        assert_eq!(standing.on("k3", false), Count::default());
    }
}
