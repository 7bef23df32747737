//! Keys, and the attributes of the items. An attribute that this version did not write (an older version or an operator did) reads as
//! if it were absent: protection never prevents sending.

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::{Count, OriginState};
use redial_core::rate::Rate;
use redial_engine::ports::{Limited, StoredOrigin};

use crate::table::attributes::{self, Item, Read};
use crate::telemetry;

/// The partition of the list of origins.
pub(super) const LIST: &str = "origins";

/// The partition of limits.
pub(super) const LIMITS: &str = "limits";

/// The longest partition key and the longest sort key, in bytes (DynamoDB, "Constraints").
const LONGEST_PK: usize = 2048;
const LONGEST_SK: usize = 1024;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Key {
    pk: String,
    sk: String,
}

impl Key {
    fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self { pk: pk.into(), sk: sk.into() }
    }

    pub(super) fn state(origin: &Origin) -> Self {
        Self::new(format!("origin#{}", origin.as_str()), "state")
    }

    pub(super) fn counts(origin: &Origin, counter: u16) -> Self {
        Self::new(format!("origin#{}#{counter}", origin.as_str()), "counts")
    }

    pub(super) fn listed(origin: &Origin) -> Self {
        Self::new(LIST, origin.as_str())
    }

    pub(super) fn limit(limited: &Limited) -> Self {
        match limited {
            Limited::Origin(origin) => Self::new(LIMITS, format!("origin#{}", origin.as_str())),
            Limited::Tenant(tenant) => Self::new(LIMITS, format!("tenant#{tenant}")),
        }
    }

    pub(super) fn slots(part: &str) -> Self {
        Self::new(format!("bucket#{part}"), "slots")
    }

    pub(super) fn of(item: &Item) -> Option<Self> {
        Some(Self::new(item.text("pk")?, item.text("sk")?))
    }

    /// Whether DynamoDB takes the key. No real host is too long, but an endpoint may name one that is, and one bad key fails a whole
    /// read.
    pub(super) fn fits(&self) -> bool {
        self.pk.len() <= LONGEST_PK && self.sk.len() <= LONGEST_SK
    }

    pub(super) fn item(&self) -> Item {
        attributes::key(&self.pk, &self.sk)
    }
}

/// An origin's state. One that cannot be read counts as new, at its stored version: the next exchange replaces it.
pub(super) fn stored(item: &Item) -> StoredOrigin {
    let state = item.text("state").and_then(|text| serde_json::from_str(text).ok());
    StoredOrigin { state: state.unwrap_or_default(), version: item.number("version").unwrap_or(0) }
}

pub(super) fn text_of(state: &OriginState) -> String {
    serde_json::to_string(state).expect("a state has string keys and plain numbers")
}

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

/// The origin or tenant in a limit's sort key.
pub(super) fn limited(item: &Item) -> Option<Limited> {
    match item.text("sk")?.split_once('#')? {
        ("origin", origin) => Origin::parse(origin).map(Limited::Origin),
        ("tenant", tenant) => Tenant::parse(tenant).map(Limited::Tenant),
        _ => None,
    }
}

/// A limit's rate. Another value is logged and ignored.
pub(super) fn rate(limited: &Limited, item: &Item) -> Option<Rate> {
    // An attribute of another type counts as an empty text: invalid.
    let read = Rate::parse(item.text("rate").unwrap_or_default());
    read.map_err(|error| match limited {
        Limited::Origin(_) => telemetry::limit_ignored(None, "an origin's", &error),
        Limited::Tenant(tenant) => telemetry::limit_ignored(Some(tenant), "a tenant's", &error),
    })
    .ok()
}
