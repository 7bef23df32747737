//! Asking for deliveries by their state.
//!
//! An entry is found by its state while that is worth asking about: it waits for a retry, was held back, or has ended otherwise than by a
//! success. Its place in the index is written with that state, and is gone with it. A delivery that succeeds at once is never in the
//! index, and costs nothing for it. `queued` and `sending` are not in it either: a message is in these states for moments.
//!
//! A tenant's entries of one state are spread over [`SHARDS`] partitions, because all retries of an outage go through them: a
//! partition of an index that cannot keep up holds back the writes of its table.

use std::fmt;

use super::{Entry, State};
use crate::identity::{DeliveryId, DeliveryKey, Tenant};
use crate::label::labels;
use crate::route::SQS_MAX_DELAY_SECONDS;
use crate::tag::MessageTag;
use crate::time::Timestamp;

/// How many partitions of the index a tenant's entries of one state are spread over.
pub const SHARDS: u32 = 16;

/// How many deliveries one page has at most.
pub const MOST: usize = 100;

labels! {
    /// What can be asked for.
    pub enum Filter {
        /// Failed, and waiting for its next attempt.
        Retrying = "retrying",
        /// Waiting for longer than a queue delays: for its time, its origin or a retry.
        Parked = "parked",
        /// Held back before an attempt.
        Deferred = "deferred",
        Gone = "gone",
        Expired = "expired",
        Failed = "failed",
        FailedNoRetries = "failed_no_retries",
        Cancelled = "cancelled",
    }
}

impl Filter {
    /// The states of the entries that it may find.
    pub const fn states(self) -> &'static [State] {
        match self {
            Self::Retrying => &[State::Retrying],
            Self::Parked => &[State::Retrying, State::Deferred],
            Self::Deferred => &[State::Deferred],
            Self::Gone => &[State::Gone],
            Self::Expired => &[State::Expired],
            Self::Failed => &[State::Failed],
            Self::FailedNoRetries => &[State::FailedNoRetries],
            Self::Cancelled => &[State::Cancelled],
        }
    }

    /// Whether it finds this entry, as it is now. An index shows what was a moment ago.
    pub fn finds(self, entry: &Entry) -> bool {
        self.states().contains(&entry.state) && (self != Self::Parked || is_parked(entry))
    }
}

/// Whether its wait was longer than a queue can delay.
fn is_parked(entry: &Entry) -> bool {
    let wait = entry.not_before.map(|at| at.since(entry.updated_at).as_secs());
    wait.is_some_and(|secs| secs > u64::from(SQS_MAX_DELAY_SECONDS))
}

impl State {
    /// Whether entries in it can be asked for.
    pub const fn is_listed(self) -> bool {
        match self {
            Self::Retrying
            | Self::Deferred
            | Self::Gone
            | Self::Expired
            | Self::Failed
            | Self::FailedNoRetries
            | Self::Cancelled => true,
            Self::Queued | Self::Sending | Self::Sent | Self::Expanded => false,
        }
    }
}

/// An entry's place in the index: when it came to its state, and its id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    pub at: Timestamp,
    pub id: DeliveryId,
}

impl Position {
    /// Reads what [`fmt::Display`] wrote: `TIME/ID`.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, id) = text.split_once('/')?;
        Some(Self { at: Timestamp::parse_rfc3339(at)?, id: DeliveryId::parse(id)? })
    }

    /// The sort key: in the order of time.
    pub fn to_sort(&self) -> String {
        format!("{}#{}", self.at.to_rfc3339(), self.id)
    }

    /// Reads a sort key; `None` for another.
    pub fn of_sort(text: &str) -> Option<Self> {
        let (at, id) = text.split_once('#')?;
        Some(Self { at: Timestamp::parse_rfc3339(at)?, id: DeliveryId::parse(id)? })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at.to_rfc3339(), self.id)
    }
}

/// The partition that an entry in this state is in.
pub fn partition_of(key: &DeliveryKey, state: State) -> String {
    partition(&key.tenant, state, shard(&key.id))
}

/// The partitions of a tenant's entries in this state.
pub fn partitions(tenant: &Tenant, state: State) -> impl Iterator<Item = String> {
    (0..SHARDS).map(move |shard| partition(tenant, state, shard))
}

fn partition(tenant: &Tenant, state: State, shard: u32) -> String {
    format!("{tenant}#{state}#{shard:02}")
}

/// FNV-1a: the same in every release, because rows are found by it.
fn shard(id: &DeliveryId) -> u32 {
    let hash = id
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 16)) % SHARDS
}

/// A page of what is asked for: the latest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    pub tenant: Tenant,
    pub filter: Filter,
    /// From when on they came to their states.
    pub since: Timestamp,
    /// Only those whose messages have all of these.
    pub tags: Vec<MessageTag>,
    /// Only those that come after this one: earlier ones.
    pub after: Option<Position>,
    /// How many at most, up to [`MOST`].
    pub limit: usize,
}

impl Listing {
    /// Whether this entry, as it is now, is among what is asked for, but for its time.
    pub fn finds(&self, entry: &Entry) -> bool {
        self.filter.finds(entry) && self.tags.iter().all(|tag| entry.given.tags.contains(tag))
    }

    /// How many a page has at most.
    pub fn limit(&self) -> usize {
        self.limit.clamp(1, MOST)
    }

    /// The keys of a page of what was found in the index, the latest first, and where the next one begins. To show that there is one, more
    /// than the limit have to be found.
    pub fn page(&self, mut found: Vec<Position>) -> (Vec<DeliveryKey>, Option<Position>) {
        found.sort_unstable_by(|one, other| other.cmp(one));
        let has_more = found.len() > self.limit();
        found.truncate(self.limit());
        let next = found.last().filter(|_| has_more).cloned();
        let key = |position: Position| DeliveryKey { tenant: self.tenant.clone(), id: position.id };
        let mut keys: Vec<DeliveryKey> = Vec::with_capacity(found.len());
        for found in found.into_iter().map(key) {
            // An index that is behind may show it in two states.
            if !keys.contains(&found) {
                keys.push(found);
            }
        }
        (keys, next)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::fixtures::{self, delivery, tenant};
    use crate::ledger::Given;
    use crate::tag::MessageTags;

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    #[test]
    fn every_filter_finds_states_that_are_listed_and_every_listed_state_has_one() {
        let found: BTreeSet<State> = Filter::ALL.iter().flat_map(|filter| filter.states()).copied().collect();
        let listed: BTreeSet<State> = State::ALL.into_iter().filter(|state| state.is_listed()).collect();
        assert_eq!(found, listed);
        for state in listed {
            assert!(
                Filter::from_label(state.label()).is_some_and(|filter| filter.states() == [state]),
                "{state}"
            );
        }
    }

    #[test]
    fn parked_is_what_waits_for_longer_than_a_queue_delays() {
        for (state, wait, parked) in [
            (State::Retrying, Some(900), false),
            (State::Retrying, Some(901), true),
            (State::Deferred, Some(86_400), true),
            (State::Deferred, None, false),
            (State::Failed, Some(86_400), false),
        ] {
            let not_before = wait.map(|secs| now().plus(Duration::from_secs(secs)));
            let entry = Entry { state, not_before, ..fixtures::entry(now()) };
            assert_eq!(Filter::Parked.finds(&entry), parked, "{state} {wait:?}");
        }
    }

    #[test]
    fn a_listing_by_tags_finds_what_has_all_of_them() {
        let tags = MessageTags::from_text("eu order").expect("two tags");
        let given = Given { tags, ..Given::default() };
        let entry = Entry { state: State::Failed, given, ..fixtures::entry(now()) };
        for (asked, finds) in [
            (&[][..], true),
            (&["eu"], true),
            (&["eu", "order"], true),
            (&["eu", "us"], false),
            (&["e"], false),
        ] {
            let tags = asked.iter().map(|tag| MessageTag::parse(tag).expect("a tag")).collect();
            let (filter, since) = (Filter::Failed, now());
            let listing = Listing { tenant: tenant(), filter, since, tags, after: None, limit: 1 };
            assert_eq!(listing.finds(&entry), finds, "{asked:?}");
            assert!(!Listing { filter: Filter::Gone, ..listing }.finds(&entry));
        }
    }

    #[test]
    fn positions_read_back_and_sort_by_time() {
        let position = |ms: i64, id: &str| Position { at: Timestamp::from_ms(ms), id: delivery(id).id };
        let all = [position(999, "z"), position(1_000, "a"), position(1_000, "b"), position(1_001, "a")];
        let sorts: Vec<String> = all.iter().map(Position::to_sort).collect();
        assert!(sorts.is_sorted() && all.is_sorted());
        for it in all {
            assert_eq!(Position::parse(&it.to_string()), Some(it.clone()));
            assert_eq!(Position::of_sort(&it.to_sort()), Some(it));
        }
        for other in ["", "yesterday/a", "2026-11-21T10:05:00Z", "2026-11-21T10:05:00Z/a#b", "/a"] {
            assert_eq!(Position::parse(other), None, "{other}");
        }
    }

    #[test]
    fn ids_are_spread_over_all_partitions() {
        let of = |n: u32| partition_of(&delivery(&format!("order-{n}")), State::Retrying);
        let used: BTreeSet<String> = (0..400).map(of).collect();
        assert_eq!(used, partitions(&tenant(), State::Retrying).collect());
        assert_eq!(of(1), "acme#retrying#02", "a row is found by it");
    }
}
