//! A stack's VAPID keys, and the number of stored subscriptions of each.
//!
//! There is no index by key, because these counts are needed a few times a year: the whole table is read, in pages, with four short
//! attributes of each item.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use clap::Args;
use redial_adapters::vapid::VapidKeys;
use redial_core::{channel::Channel, subscription::State};
use serde::Serialize;
use serde_json::json;

use super::secret::VapidSecret;
use crate::{
    aws_error::classified,
    failure::Failure,
    line::Line,
    stack::{OnStack, Target},
    table::{Column, Narrow, Table},
    terminal::{say, width},
    tone::Tone,
};

/// Shows a stack's VAPID keys, and how many stored subscriptions use each
///
/// ACTIVE subscriptions are sent to; FLAGGED are those of them that a push service has answered with 404; OFF are gone, or in
/// quarantine. Those that name no key count for the default. The command reads the whole table of subscriptions, in pages: a million of
/// them, about 500 MB, are 63,000 read units, a cent on demand and a few minutes; of a table with provisioned capacity it
/// uses all. Exit status 1 means that active subscriptions name a key that the stack does not have.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial vapid status
  redial vapid status --stack redial --json \\
    | jq -r '.keys[] | select(.current) | .public_key'")]
pub(crate) struct Status {
    #[command(flatten)]
    on: OnStack,
}

impl Status {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let keys = VapidSecret::of(&target).await?.keys().await?;
        let standing = Standing::read(&target, false).await?;
        let report = Report::of(&keys, &standing);
        self.on.print(|| json!({"keys": report}), || report.lines())?;
        if report.stranded() > 0 {
            return Err(Failure::reported(&format!(
                "{} active subscriptions name a key that the stack does not have: restore it in the secret, or have those \
                 browsers subscribe again",
                report.stranded()
            )));
        }
        Ok(())
    }
}

/// Progress is printed after this number of pages of a mebibyte.
const REPORT_EVERY: usize = 25;

const WHAT: &str = "the table of subscriptions cannot be read";

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Count {
    /// Are sent to.
    pub(super) active: u64,
    /// Of the active ones: a push service has answered 404 once.
    pub(super) flagged: u64,
    /// Are not sent to: gone, or in quarantine.
    pub(super) off: u64,
}

impl Count {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            active: self.active + other.active,
            flagged: self.flagged + other.flagged,
            off: self.off + other.off,
        }
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    /// By the key id that they name.
    pub(super) named: BTreeMap<String, Count>,
    /// Those without a key id belong to the default key.
    pub(super) unnamed: Count,
}

impl Standing {
    /// A consistent read sees every subscription that was stored before it began, and costs twice as much.
    pub(super) async fn read(target: &Target, is_consistent: bool) -> Result<Self, Failure> {
        let scan = target
            .dynamodb()
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
            let page = classified("dynamodb:Scan", page).map_err(|error| error.failure(WHAT))?;
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
    fn add(&mut self, item: &HashMap<String, AttributeValue>) {
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str);
        if text("kind").and_then(Channel::from_label) != Some(Channel::WebPush) {
            return;
        }
        let count = match text("state").and_then(State::from_label) {
            Some(State::Active | State::Suspect) => {
                Count { active: 1, flagged: u64::from(item.contains_key("flagged_at")), off: 0 }
            }
            Some(State::Gone | State::Quarantined | State::Disabled | State::Expired | State::Stale) => {
                Count { off: 1, ..Count::default() }
            }
            None => return,
        };
        let of = match text("vapid_key_id") {
            Some(id) => self.named.entry(id.to_owned()).or_default(),
            None => &mut self.unnamed,
        };
        *of = of.plus(count);
    }

    /// The subscriptions that use the key of that id.
    pub(super) fn on(&self, id: &str, is_default: bool) -> Count {
        let named = self.named.get(id).copied().unwrap_or_default();
        if is_default { named.plus(self.unnamed) } else { named }
    }
}

/// A key, or an id that subscriptions name without a key of that id.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    public_key: Option<&'a str>,
    #[serde(rename = "current")]
    is_current: bool,
    #[serde(rename = "default")]
    is_default: bool,
    #[serde(flatten)]
    count: Count,
}

/// All keys by id, then the ids without a key.
#[derive(Serialize)]
pub(super) struct Report<'a>(Vec<Row<'a>>);

impl<'a> Report<'a> {
    pub(super) fn of(keys: &'a VapidKeys, standing: &'a Standing) -> Self {
        let known = keys.published().map(|key| Row {
            id: key.id.as_str(),
            public_key: Some(key.public_base64url),
            is_current: key.is_current,
            is_default: key.is_default,
            count: standing.on(key.id.as_str(), key.is_default),
        });
        let is_unknown = |id: &str| !keys.ids().any(|it| it.as_str() == id);
        let unknown = standing.named.iter().filter(|(id, _)| is_unknown(id)).map(|(id, count)| Row {
            id,
            public_key: None,
            is_current: false,
            is_default: false,
            count: *count,
        });
        Self(known.chain(unknown).collect())
    }

    /// Active subscriptions of ids without a key, which cannot be sent to.
    pub(super) fn stranded(&self) -> u64 {
        self.0.iter().filter(|row| row.public_key.is_none()).map(|row| row.count.active).sum()
    }

    /// Active subscriptions that are not on the current key.
    pub(super) fn left(&self) -> u64 {
        self.0.iter().filter(|row| !row.is_current).map(|row| row.count.active).sum()
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let columns = [Column::text("ID"), Column::text("USE").toned(tone)];
        let numbers = ["ACTIVE", "FLAGGED", "OFF"].map(Column::number);
        let columns = columns
            .into_iter()
            .chain(numbers)
            .chain([Column::text("PUBLIC KEY").narrowed(1, Narrow::CutEnd)]);
        let cells = |row: &Row<'_>| {
            let uses = match (row.public_key.is_some(), row.is_current, row.is_default) {
                (false, ..) => NOT_CONFIGURED,
                (true, true, true) => "current, default",
                (true, true, false) => "current",
                (true, false, true) => "default",
                (true, false, false) => "former",
            };
            let Count { active, flagged, off } = row.count;
            let [active, flagged, off] = [active, flagged, off].map(|count| count.to_string());
            [
                row.id.to_owned(),
                uses.to_owned(),
                active,
                flagged,
                off,
                row.public_key.unwrap_or("-").to_owned(),
            ]
        };
        Table::new(columns).within(width()).with(self.0.iter().map(cells)).lines()
    }
}

const NOT_CONFIGURED: &str = "NOT CONFIGURED";

/// Nothing can be sent to subscriptions of such a key.
fn tone(uses: &str) -> Option<Tone> {
    (uses == NOT_CONFIGURED).then_some(Tone::Alarm)
}

#[cfg(test)]
mod tests {
    use redial_adapters::vapid::{VapidDocument, VapidKeyPair};
    use redial_core::identity::VapidKeyId;

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

    #[test]
    fn keys_and_missing_keys_are_shown_with_their_subscriptions() {
        let (first, second) = (VapidKeyPair::generate(), VapidKeyPair::generate());
        let id = VapidKeyId::parse("k2").expect("an id");
        let document = VapidDocument::parse(first.private().expose()).expect("a key");
        let document = document.with_current(id, second.private().clone()).expect("it is new");
        let keys = document.keys().expect("keys");
        let on = |active| Count { active, flagged: 1, off: 2 };
        let standing = Standing {
            named: [("default".to_owned(), on(3)), ("k2".to_owned(), on(4)), ("k0".to_owned(), on(5))].into(),
            unnamed: on(10),
        };
        let report = Report::of(&keys, &standing);
        assert_eq!((report.stranded(), report.left()), (5, 18));
        let lines = report.lines();
        assert_eq!(lines[0], "ID       USE             ACTIVE  FLAGGED  OFF  PUBLIC KEY");
        let ends = |at: usize, end: &str| assert!(lines[at].ends_with(end), "{}", lines[at]);
        ends(1, &format!("13        2    4  {}", first.public()));
        ends(2, &format!("4        1    2  {}", second.public()));
        ends(3, "5        1    2  -");
        assert!(lines[3].starts_with("k0       NOT CONFIGURED "), "{}", lines[3]);
        let json = json!(report);
        assert_eq!((&json[0]["default"], &json[0]["active"]), (&json!(true), &json!(13)));
        assert_eq!((&json[1]["current"], &json[2]["public_key"]), (&json!(true), &json!(null)));
    }
}
