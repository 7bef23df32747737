//! Keys, and the attributes of the items. An attribute that this version did not write (an older version or an operator did) reads as
//! if it were absent: protection never prevents sending.

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::Count;
use redial_core::rate::Rate;
use redial_engine::ports::{Limited, StoredOrigin};

use crate::table::attributes::{Item, Read, key};
use crate::telemetry;

/// The partition of the list of origins.
pub(super) const LIST: &str = "origins";

/// The partition of limits.
pub(super) const LIMITS: &str = "limits";

pub(super) fn state_key(origin: &Origin) -> Item {
    key(format!("origin#{}", origin.as_str()), "state")
}

pub(super) fn counts_key(origin: &Origin, counter: u16) -> Item {
    key(format!("origin#{}#{counter}", origin.as_str()), "counts")
}

pub(super) fn limit_key(limited: &Limited) -> Item {
    match limited {
        Limited::Origin(origin) => key(LIMITS, format!("origin#{}", origin.as_str())),
        Limited::Tenant(tenant) => key(LIMITS, format!("tenant#{tenant}")),
    }
}

/// An origin's state. One that cannot be read counts as new, at its stored version: the next exchange replaces it.
pub(super) fn stored(item: &Item) -> StoredOrigin {
    let state = item.text("state").and_then(|text| serde_json::from_str(text).ok());
    StoredOrigin { state: state.unwrap_or_default(), version: item.number("version").unwrap_or(0) }
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
