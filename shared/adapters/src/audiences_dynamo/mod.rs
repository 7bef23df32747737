//! The `audiences` table: which subscriptions a tenant's tags gather, and the messages to them that are under way.
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `<tenant>#<tag>#<part>` | subscription's id | that the subscription has the tag | never |
//! | `run#<tenant>#<run>` | `run` | a message to an audience: its id, lane and body, when it was opened, when it was called off | when its last recipient's delivery is over |
//! | `run#<tenant>#<run>` | `part#<part>` | how far a part of its audience is, and whose hand moved it there | with it |
//! | `run#<tenant>#<message's id>` | `current` | which run of the message was opened last, and when | with that run |
//!
//! A run of the previous release has the message's id for its own, and no `current`. DynamoDB deletes what has expired late and row
//! by row: a row past its expiry counts as absent.
//!
//! | file | concept |
//! |---|---|
//! | `membership` | the rows of tags, written with their subscriptions |
//! | `runs` | messages under way |
//! | `current` | which run a message's id finds |
//! | `operator` | calling one off, and looking how far it is |

mod current;
mod membership;
mod operator;
mod runs;

use aws_sdk_dynamodb::Client;
use redial_core::audience::RunKey;

use crate::attributes::{Item, s};
use crate::write_units::WriteUnits;

pub(crate) use membership::changes;
pub use membership::{partition, shard_of};
pub use operator::Standing;

/// The sort key of a message's own item.
const RUN: &str = "run";

/// The `audiences` table.
#[derive(Clone, Debug)]
pub struct DynamoAudiences {
    client: Client,
    table: String,
    units: WriteUnits,
}

impl DynamoAudiences {
    /// On this table: partition key `pk` and sort key `sk` (strings), TTL attribute `expires_at`.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }
}

fn run_key(key: &RunKey) -> Item {
    Item::from([("pk".to_owned(), s(format!("run#{key}"))), ("sk".to_owned(), s(RUN))])
}

fn part_key(key: &RunKey, shard: u8) -> Item {
    Item::from([("pk".to_owned(), s(format!("run#{key}"))), ("sk".to_owned(), s(format!("part#{shard:02}")))])
}
