//! The `audiences` table: which subscriptions have a tag, and the messages to them that are under way.
//!
//! | pk | sk | what | expires |
//! |---|---|---|---|
//! | `<tenant>#<tag>#<part>` | subscription's id | the subscription has the tag | never |
//! | `run#<tenant>#<run>` | `run` | a message to an audience: its id, lane and body, when it was opened, when it was cancelled | when its last recipient's delivery is over |
//! | `run#<tenant>#<run>` | `part#<part>` | the progress of a part of its audience, and which call moved it last | with it |
//! | `run#<tenant>#<message's id>` | `current` | which run of the message was opened last, and when | with that run |
//!
//! A run of the previous release has the message's id as its own, and no `current`. DynamoDB deletes expired rows late and one by one:
//! a row past its expiry counts as absent.
//!
//! | file | concept |
//! |---|---|
//! | `membership` | the rows of tags, written with their subscriptions |
//! | `runs` | messages under way |
//! | `current` | which run a message's id leads to |
//! | `operator` | progress and cancellation |

mod current;
mod membership;
mod operator;
mod runs;

use redial_core::audience::RunKey;

use crate::table::attributes::{Item, key};
use crate::table::{Table, on_a_table};

pub(crate) use membership::changes;
pub use membership::{partition, shard_of};
pub use operator::Standing;

/// The `audiences` table: partition key `pk` and sort key `sk` (strings), TTL attribute `expires_at`.
#[derive(Clone, Debug)]
pub struct DynamoAudiences {
    table: Table,
}

on_a_table!(DynamoAudiences);

fn run_key(run: &RunKey) -> Item {
    key(format!("run#{run}"), "run")
}

fn part_key(run: &RunKey, shard: u8) -> Item {
    key(format!("run#{run}"), format!("part#{shard:02}"))
}
