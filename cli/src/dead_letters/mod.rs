//! Dead letters for an operator: found by what they are, sent again, removed.
//!
//! ```text
//! filter ─► letters (index, newest first) ─► resend (what of a letter may go, and how) ─► replay (paced, resumable) ─► queue
//!                                        └─► purge
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `filter` | which letters |
//! | `letters` | those letters, one by one, without reading all of them first |
//! | `resend` | from a stored body to the message that goes out, or why none does |
//! | `replay` | sends them at a rate, and goes on where it was interrupted |
//! | `checkpoint` | the file that says where that was |
//! | `purge` | removes them |
//! | `tally` | counts by tenant and reason |
//! | `table` | letters and counts below each other |

mod checkpoint;
mod filter;
mod letters;
mod purge;
mod replay;
mod resend;
mod table;
mod tally;

use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;

pub(crate) use checkpoint::Checkpoint;
pub(crate) use filter::Filter;
pub(crate) use letters::{Letters, count};
pub(crate) use purge::purge;
pub(crate) use replay::{Ended, Outcome, Plan, Queues, preview, replay};
pub(crate) use resend::{Permissions, Skip};
pub(crate) use table::{counts, json_of, row, table};
pub(crate) use tally::Tally;

use crate::target::Target;

/// The store of a stack.
pub(crate) fn store(target: &Target) -> DynamoDeadLetters {
    DynamoDeadLetters::new(aws_sdk_dynamodb::Client::new(&target.sdk), target.tables.dead_letters.clone())
}
