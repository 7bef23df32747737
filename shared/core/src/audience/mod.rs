//! Audiences: one message to all of a tenant's subscriptions that have a tag.
//!
//! The message is stored once, as a [`Run`]; what travels to each recipient is a reference to it. The tag's subscriptions are divided
//! into [`SHARDS`] parts, and the worker that holds a part's [`Expansion`] sends it page by page, moving the part's [`Progress`] past
//! each page once it is sent. A worker that dies in between leaves a page that is sent again; a recipient's delivery has an id that
//! follows from run and subscription, so that the ledger drops the second. The run's id follows from the claim that opened it
//! ([`Opening`]): a message whose hand-off is repeated has one run, an id that is used again has two.
//!
//! | file | concept |
//! |---|---|
//! | `opening` | the claim that opens a message to an audience, and the key of the run that begins with it |
//! | `run` | a message to an audience, under way; and how far a part of it is |
//! | `expansion` | the message that moves a part on |
//! | `recipient` | the message that goes to one recipient |

mod expansion;
mod opening;
mod recipient;
mod run;

use std::time::Duration;

use crate::identity::SubscriptionId;
use crate::rate::Rate;
use crate::tag::Tag;

pub use expansion::Expansion;
pub use opening::{Opening, RunKey};
pub use recipient::RecipientRef;
pub use run::{Progress, Run};

/// How many parts an audience has.
pub const SHARDS: u8 = 16;

/// Recipients of a page, at most.
pub const PAGE: u16 = 100;

/// How long a page of a paced audience lasts, where that is no more than [`PAGE`].
const PACED_PAGE: Duration = Duration::from_secs(10);

/// The longest that SQS delays, in seconds (SendMessage, API reference).
const MOST_DELAY: f64 = 900.0;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audience {
    pub tag: Tag,
    pub rate: Option<Rate>,
}

impl Audience {
    pub fn page(&self) -> u16 {
        let paced = self.rate.map(|rate| rate.per_second() / f64::from(SHARDS) * PACED_PAGE.as_secs_f64());
        // A float becomes an integer at its bounds.
        paced.map_or(PAGE, |paced| (paced.ceil() as u16).clamp(1, PAGE))
    }

    /// How long a part rests after a page of that many recipients.
    pub fn rest_after(&self, recipients: usize) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let secs = recipients as f64 * f64::from(SHARDS) / rate.per_second();
        Duration::from_secs_f64(secs.min(MOST_DELAY))
    }
}

/// The part of an audience that a subscription belongs to, from 0.
pub fn shard_of(id: &SubscriptionId) -> u8 {
    let digest = ring::digest::digest(&ring::digest::SHA256, id.as_str().as_bytes());
    digest.as_ref()[0] % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(rate: &str) -> Audience {
        let tag = Tag::parse("news").expect("valid");
        Audience { tag, rate: Some(Rate::parse(rate).expect("valid")) }
    }

    #[test]
    fn without_a_rate_pages_are_full_and_immediate() {
        let all = Audience { rate: None, ..paced("1/s") };
        assert_eq!((all.page(), all.rest_after(100)), (PAGE, Duration::ZERO));
    }

    #[test]
    fn all_parts_together_send_at_the_rate() {
        for (rate, per_second) in [("1/s", 1.0), ("160/s", 160.0), ("5000/s", 5000.0), ("90/min", 1.5)] {
            let audience = paced(rate);
            let page = f64::from(audience.page());
            let rest = audience.rest_after(usize::from(audience.page())).as_secs_f64();
            let actual = page * f64::from(SHARDS) / rest;
            assert!((actual - per_second).abs() < 0.01 * per_second, "{rate}: {actual} a second");
        }
    }

    #[test]
    fn a_rest_is_never_longer_than_sqs_delays() {
        assert_eq!(paced("1/h").rest_after(1), Duration::from_secs(900));
    }

    #[test]
    fn subscriptions_spread_evenly_over_fixed_parts() {
        let id = |n: usize| SubscriptionId::parse(&format!("s{n}")).expect("valid");
        let mut shards = [0; SHARDS as usize];
        for n in 0..1_600 {
            shards[usize::from(shard_of(&id(n)))] += 1;
        }
        assert!(shards.iter().all(|n| (60..=140).contains(n)), "{shards:?}");
        // Rows that are stored were divided like this: with another division they would not be found.
        assert_eq!(shard_of(&id(1)), 8);
    }
}
