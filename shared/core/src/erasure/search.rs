//! What a search for a person finds, where, and how far it has come.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::label::labels;
use crate::time::Timestamp;

/// The longest time-out that Lambda allows: no worker of that time is at work after it, however the functions are configured.
pub const LONGEST_INVOCATION: Duration = Duration::from_secs(900);

/// How far a worker's clock may be ahead of another's.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// When the search may begin after a mark: no worker that has not seen it is at work any more.
pub fn search_from(marked_at: Timestamp, longest_invocation: Duration) -> Timestamp {
    marked_at.plus(longest_invocation).plus(CLOCKS_APART)
}

labels! {
    /// A table, in the order in which they are read.
    pub enum Place {
        Subscriptions = "subscriptions",
        Deliveries = "deliveries",
        DeadLetters = "dead_letters",
        Parked = "parked",
        Audiences = "audiences",
        Control = "control",
    }
}

labels! {
    /// What was found.
    pub enum Kind {
        Subscription = "subscription",
        /// What a deletion or an erasure leaves: kept for half a year.
        Tombstone = "tombstone",
        Delivery = "delivery",
        Acknowledgements = "acknowledgements",
        DeadLetter = "dead_letter",
        Parked = "parked_message",
        Tag = "tag",
        /// A message to an audience with the `ref`: the `ref` alone is removed.
        AudienceMessage = "audience_message",
        /// The id of the subscription in the list of those whom a message to an audience was sent to.
        Recipient = "recipient",
        /// That it had an endpoint, by a digest: so that no one who has the endpoint next gets a message to an audience twice.
        HeldEndpoint = "held_endpoint",
        Pruning = "pruning",
        /// What protects its receiver.
        Protection = "protection",
    }
}

impl Kind {
    /// Whether an erasure removes it. A list of recipients is needed until its message is forgotten: places in it are names.
    pub const fn is_removed(self) -> bool {
        !matches!(self, Self::Tombstone | Self::Recipient | Self::HeldEndpoint)
    }
}

/// Where a search goes on: a table, and the key of the last item that was read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct At {
    place: String,
    after: Option<(String, Option<String>)>,
}

impl At {
    pub fn start() -> Self {
        Self::of(Place::Subscriptions)
    }

    /// The beginning of a table.
    pub fn of(place: Place) -> Self {
        Self { place: place.label().to_owned(), after: None }
    }

    /// After the item of this key.
    pub fn after(place: Place, key: (String, Option<String>)) -> Self {
        Self { after: Some(key), ..Self::of(place) }
    }

    pub fn key(&self) -> Option<&(String, Option<String>)> {
        self.after.as_ref()
    }

    /// `None` if another version wrote it.
    pub fn place(&self) -> Option<Place> {
        Place::from_label(&self.place)
    }
}

/// How much was found of each kind, by its label.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub fn add(&mut self, kind: Kind) {
        *self.0.entry(kind.label().to_owned()).or_default() += 1;
    }

    pub fn extend(&mut self, other: &Self) {
        for (kind, number) in &other.0 {
            *self.0.entry(kind.clone()).or_default() += number;
        }
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(kind, number)| (kind.as_str(), *number))
    }
}

/// A page of a search whose finds were removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Searched {
    pub found: Counts,
    /// How many items were read.
    pub read: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<At>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    #[test]
    fn a_search_begins_when_no_worker_can_have_missed_the_mark() {
        assert_eq!(search_from(at(5), Duration::from_secs(60)), at(66));
        assert_eq!(search_from(at(5), LONGEST_INVOCATION), at(906));
    }

    #[test]
    fn counts_of_pages_add_up() {
        let (mut all, mut page) = (Counts::default(), Counts::default());
        page.add(Kind::Delivery);
        page.add(Kind::Tag);
        all.extend(&page);
        all.extend(&page);
        assert_eq!(all.iter().collect::<Vec<_>>(), [("delivery", 2), ("tag", 2)]);
        assert_eq!(all.total(), 4);
    }

    #[test]
    fn a_place_of_another_version_is_not_read() {
        let read: At = serde_json::from_str(r#"{"place":"moons","after":null}"#).expect("JSON");
        assert_eq!(read.place(), None);
        assert_eq!(At::start().place(), Some(Place::Subscriptions));
    }
}
