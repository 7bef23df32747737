//! The line of an origin: messages that wait until it may be sent to again, and not for a time.
//!
//! What an open breaker holds back would otherwise look again every few minutes, and come back long after the outage. In a line nothing
//! looks: a worker that finds that the origin lets messages go releases the line, and they leave at the pace that the origin has room for.
//!
//! A line lies in shards. Each of them is a partition for each rank, so that the urgent leave first, in the order of the keys, which begin
//! with the moment until which a message waits at most. A tenant's messages lie in some of the shards, which leave in turn.

use std::fmt;
use std::time::Duration;

use crate::endpoint::Origin;
use crate::hash::fnv1a;
use crate::identity::{DeliveryKey, Tenant};
use crate::lane::Lane;
use crate::rank::Rank;
use crate::shape::{Object, integer, text};
use crate::time::{Deadline, Timestamp};

/// The most shards of a line: three digits name them.
pub const MAX_SHARDS: u16 = 1000;

/// No message waits in a line for longer: the ledger knows a delivery for 15 days after its last change.
const WAITS_AT_MOST: Duration = Duration::from_secs(6 * 86_400);

/// How long a worker relies on a line's registration. Half of [`FORGOTTEN_AFTER`]: by then whatever it put there on its word is seen.
pub const REMEMBERED: Duration = Duration::from_secs(300);

/// An empty line is forgotten this long after it was registered last.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// What has no deadline of its own waits until a whole hour, so that a message that is put twice has one key.
const WHOLE: i64 = 3600;

/// Which messages wait in lines: the urgent look again by themselves.
pub const RANKS: [Rank; 2] = [Rank::Middle, Rank::Last];

/// A tenant's messages lie in one of this number of shards.
const TENANTS_PART: u16 = 4;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Line {
    pub lane: Lane,
    pub origin: Origin,
}

impl fmt::Display for Line {
    /// `transactional#https://push.example`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.lane.label(), self.origin.as_str())
    }
}

impl Line {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (lane, origin) = text.split_once('#')?;
        Some(Self { lane: Lane::from_label(lane)?, origin: Origin::parse(origin)? })
    }

    /// The shard of a delivery, in a line of `shards`.
    pub fn shard_of(&self, delivery: &DeliveryKey, rank: Rank, shards: u16) -> LineShard {
        let shards = u64::from(shards.clamp(1, MAX_SHARDS));
        let of_tenant = tenants_place(&delivery.tenant) % shards;
        let step = fnv1a(delivery.id.as_str().bytes()) % (shards / u64::from(TENANTS_PART)).max(1);
        let number = u16::try_from((of_tenant + step) % shards).unwrap_or_default();
        LineShard { line: self.clone(), rank, number }
    }

    /// The partitions of its shards, those first that leave first.
    pub fn shards(&self, shards: u16) -> impl Iterator<Item = LineShard> {
        self.shards_from(0, shards)
    }

    /// The same, of each rank from this number on.
    pub fn shards_from(&self, first: u16, shards: u16) -> impl Iterator<Item = LineShard> {
        let line = self.clone();
        let shards = shards.clamp(1, MAX_SHARDS);
        let numbers = move |rank| (0..shards).map(move |number| (rank, (first + number) % shards));
        let all = RANKS.into_iter().flat_map(numbers);
        all.map(move |(rank, number)| LineShard { line: line.clone(), rank, number })
    }
}

fn tenants_place(tenant: &Tenant) -> u64 {
    fnv1a(tenant.as_str().bytes())
}

/// When the wait of a message with this deadline ends.
pub fn waits_until(deadline: Deadline, now: Timestamp) -> Timestamp {
    let most = now.plus(WAITS_AT_MOST).as_secs();
    let most = Timestamp::from_secs(most.div_euclid(WHOLE).saturating_mul(WHOLE));
    if deadline.is_limited() { deadline.at().min(most) } else { most }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LineShard {
    pub line: Line,
    pub rank: Rank,
    pub number: u16,
}

impl fmt::Display for LineShard {
    /// The partition key: `line#<lane>#<origin>#<rank>.NNN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line#{}#{}.{:03}", self.line, self.rank.label(), self.number)
    }
}

/// The message that looks after a line: `{"line": "bulk#https://push.example"}`. Dispatch answers by sending one with a `shard` for each,
/// if the origin lets messages go; `turn` (epoch ms) is when that shard is looked after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineRelease {
    pub line: Line,
    pub shard: Option<u16>,
    pub turn: Option<Timestamp>,
}

impl From<Line> for LineRelease {
    fn from(line: Line) -> Self {
        Self { line, shard: None, turn: None }
    }
}

impl LineRelease {
    /// Takes its fields out of a body; `None` if it has no `line`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.raw("line")?;
        let line = object.required("line", "a lane, # and an origin", text(Line::parse))?;
        let last = u64::from(MAX_SHARDS) - 1;
        let shard = object.optional("shard", "an integer from 0 to 999", integer(0..=last));
        let turn = object.optional("turn", "epoch milliseconds", integer::<i64>(0..=u64::MAX));
        Some(Self { line, shard, turn: turn.map(Timestamp::from_ms) })
    }

    pub fn to_body(&self) -> String {
        let mut body = serde_json::json!({ "line": self.line.to_string() });
        if let Some(shard) = self.shard {
            body["shard"] = shard.into();
        }
        if let Some(turn) = self.turn {
            body["turn"] = turn.as_ms().into();
        }
        body.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::{at, delivery};
    use crate::time::Ttl;

    fn line() -> Line {
        Line::parse("bulk#https://push.example:8443").expect("a line")
    }

    #[test]
    fn a_line_is_read_back_from_its_text() {
        assert_eq!(line().lane, Lane::Bulk);
        assert_eq!(Line::parse(&line().to_string()), Some(line()));
        for text in ["", "bulk", "bulk#", "slow#https://push.example", "bulk#push.example"] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }

    #[test]
    fn one_tenant_s_messages_lie_in_a_quarter_of_the_shards_and_all_are_visited() {
        let used = |shards: u16| -> BTreeSet<LineShard> {
            let ids = (0..1_000).map(|n| delivery(&format!("m{n}")));
            ids.map(|delivery| line().shard_of(&delivery, Rank::Last, shards)).collect()
        };
        for (shards, of_them) in [(1, 1), (4, 1), (16, 4), (128, 32)] {
            let used = used(shards);
            assert_eq!(used.len(), of_them, "{shards}");
            let all: Vec<LineShard> = line().shards(shards).collect();
            assert!(used.iter().all(|shard| all.contains(shard)) && all.len() == 2 * usize::from(shards));
        }
    }

    #[test]
    fn a_message_waits_until_its_deadline_and_no_longer_than_six_days() {
        let until = |ttl: Ttl| waits_until(ttl.deadline_from(at(0)), at(100)).as_secs() - at(0).as_secs();
        assert_eq!(until(Ttl::from_secs(600)), 600);
        let six_days = until(Ttl::UNLIMITED);
        assert!(
            (6 * 86_400 - 3_600..=6 * 86_400 + 100).contains(&six_days)
                && (six_days + at(0).as_secs()) % 3600 == 0
        );
        assert_eq!(until(Ttl::from_secs(20 * 86_400)), six_days);
    }
}
