//! Keys, and what the items hold. What is not as this version writes it, because an older one or somebody's hand wrote it, reads
//! as if it were not there: protection never stands in the way of sending.

use std::collections::HashMap;

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::{Count, OriginState};
use redial_core::rate::Rate;
use redial_engine::ports::{Limited, StoredOrigin};

use crate::attributes::{Item, Read, s};
use crate::telemetry;

/// The partition of the list of origins.
pub(super) const LIST: &str = "origins";

/// The partition of limits.
pub(super) const LIMITS: &str = "limits";

/// The longest partition key and the longest sort key, in bytes (DynamoDB, "Constraints").
const LONGEST_PK: usize = 2048;
const LONGEST_SK: usize = 1024;

/// An item's key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Key {
    pk: String,
    sk: String,
}

impl Key {
    fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self { pk: pk.into(), sk: sk.into() }
    }

    /// Of an origin's state.
    pub(super) fn state(origin: &Origin) -> Self {
        Self::new(format!("origin#{}", origin.as_str()), "state")
    }

    /// Of an origin's counter of that number.
    pub(super) fn counts(origin: &Origin, counter: u16) -> Self {
        Self::new(format!("origin#{}#{counter}", origin.as_str()), "counts")
    }

    /// Of an origin's place in the list.
    pub(super) fn listed(origin: &Origin) -> Self {
        Self::new(LIST, origin.as_str())
    }

    /// Of a limit.
    pub(super) fn limit(limited: &Limited) -> Self {
        match limited {
            Limited::Origin(origin) => Self::new(LIMITS, format!("origin#{}", origin.as_str())),
            Limited::Tenant(tenant) => Self::new(LIMITS, format!("tenant#{tenant}")),
        }
    }

    /// Of a bucket's part.
    pub(super) fn slots(part: &str) -> Self {
        Self::new(format!("bucket#{part}"), "slots")
    }

    /// Of an item that was read.
    pub(super) fn of(item: &Item) -> Option<Self> {
        Some(Self::new(item.text("pk")?, item.text("sk")?))
    }

    /// Whether DynamoDB takes it. No host is so long that it would not, but an endpoint's may claim to be, and one bad key fails a
    /// whole reading.
    pub(super) fn fits(&self) -> bool {
        self.pk.len() <= LONGEST_PK && self.sk.len() <= LONGEST_SK
    }

    /// As the attributes of a call.
    pub(super) fn item(&self) -> Item {
        HashMap::from([("pk".to_owned(), s(&self.pk)), ("sk".to_owned(), s(&self.sk))])
    }
}

/// An origin's state. One that cannot be read is as a new one, in the version in which it stands: the next exchange replaces it.
pub(super) fn stored(item: &Item) -> StoredOrigin {
    let state = item.text("state").and_then(|text| serde_json::from_str(text).ok());
    StoredOrigin { state: state.unwrap_or_default(), version: item.number("version").unwrap_or(0) }
}

/// A state as text.
pub(super) fn text_of(state: &OriginState) -> String {
    serde_json::to_string(state).expect("a state has string keys and plain numbers")
}

/// A count's attributes.
pub(super) fn fields(count: Count) -> [(&'static str, u64); 6] {
    let Count { attempts, failures, limited, retries, held, older } = count;
    [
        ("attempts", attempts),
        ("failures", failures),
        ("limited", limited),
        ("retries", retries),
        ("held", held),
        ("older", older),
    ]
}

/// What a counter holds.
pub(super) fn count(item: &Item) -> Count {
    let of = |name| item.number(name).unwrap_or(0);
    Count {
        attempts: of("attempts"),
        failures: of("failures"),
        limited: of("limited"),
        retries: of("retries"),
        held: of("held"),
        older: of("older"),
    }
}

/// What a limit's sort key says that it is about.
pub(super) fn limited(item: &Item) -> Option<Limited> {
    match item.text("sk")?.split_once('#')? {
        ("origin", origin) => Origin::parse(origin).map(Limited::Origin),
        ("tenant", tenant) => Tenant::parse(tenant).map(Limited::Tenant),
        _ => None,
    }
}

/// A limit's rate. What else was written there is told, and not followed.
pub(super) fn rate(limited: &Limited, item: &Item) -> Option<Rate> {
    // Not a text, because someone wrote a number there, is as an empty one: invalid.
    let read = Rate::parse(item.text("rate").unwrap_or_default());
    read.map_err(|error| match limited {
        Limited::Origin(_) => telemetry::limit_ignored(None, "an origin's", &error),
        Limited::Tenant(tenant) => telemetry::limit_ignored(Some(tenant), "a tenant's", &error),
    })
    .ok()
}
