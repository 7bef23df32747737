//! How long an attempt at a webhook's receiver may take, and in which lane, so that receivers which hang do not occupy the workers of
//! the transactional lane.
//!
//! An origin is *proven* if it answered within a week: it gets the whole time-out. Anyone can name a thousand origins that no worker has
//! heard of, so the first attempt at one gets [`FIRST_TIMEOUT`], and what gets no answer is retried in the bulk lane, with the whole
//! time-out. An attempt that must not be repeated is made there at once.

use std::time::Duration;

use crate::channel::Channel;
use crate::lane::Lane;
use crate::outcome::NotSent;
use crate::reason::Reason;
use crate::time::Timestamp;

/// The time-out of a first attempt at an origin that has not answered lately: receivers are asked to answer at once and to work later
/// (Standard Webhooks, "Best practices"), and an instance that is given up after three seconds is soon free for others.
pub const FIRST_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an answer proves an origin.
pub const PROVEN_FOR: Duration = Duration::from_secs(7 * 86_400);

/// An origin that answers is written down as proven again after this time.
pub const PROVEN_AGAIN_AFTER: Duration = Duration::from_secs(86_400);

/// How long a worker that saw an origin hang does not believe former answers.
pub const DOUBTED_FOR: Duration = Duration::from_secs(600);

/// What decides on the patience with an attempt besides its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posting {
    pub lane: Lane,
    /// When its message was sent first.
    pub first_sent: Timestamp,
    /// Whether it is the message's first attempt.
    pub is_first: bool,
    /// Whether its policy has a retry after it, also where it may have arrived.
    pub may_be_repeated: bool,
    /// Whether its message may not wait: its TTL is 0.
    pub is_immediate: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Patience {
    /// The whole time-out.
    #[default]
    Whole,
    /// [`FIRST_TIMEOUT`].
    Short,
    /// None here: it goes on in the bulk lane, and has used no attempt.
    InBulk,
}

impl Posting {
    pub fn patience(&self, is_proven: bool) -> Patience {
        if is_proven {
            return Patience::Whole;
        }
        match self.lane {
            Lane::Transactional if self.may_be_repeated || self.is_immediate => Patience::Short,
            Lane::Transactional => Patience::InBulk,
            Lane::Bulk if self.is_first && self.may_be_repeated => Patience::Short,
            Lane::Bulk => Patience::Whole,
        }
    }
}

/// The lane of the retry after an attempt that failed so: a receiver that hangs never sits in the transactional lane's retries.
pub fn lane_of_retry(lane: Lane, channel: Channel, reason: Reason, not_sent: Option<NotSent>) -> Lane {
    let hung = reason == Reason::InDoubt || not_sent == Some(NotSent::ConnectTimeout);
    if channel == Channel::Webhook && hung { Lane::Bulk } else { lane }
}

/// What one worker saw of an origin last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    Answered(Timestamp),
    Hung(Timestamp),
}

/// Whether an origin is proven, by what a worker saw of it and by what all share.
pub fn is_proven(last: Option<Last>, answered: Option<Timestamp>, now: Timestamp) -> bool {
    let answered = answered.filter(|at| now.since(*at) < PROVEN_FOR);
    match last {
        Some(Last::Answered(at)) if now.since(at) < PROVEN_FOR => true,
        Some(Last::Hung(at)) if now.since(at) < DOUBTED_FOR => answered.is_some_and(|answered| answered > at),
        Some(Last::Answered(_) | Last::Hung(_)) | None => answered.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    #[test]
    fn an_unproven_origin_gets_little_time_where_others_wait() {
        use Lane::{Bulk, Transactional};
        use Patience::{InBulk, Short, Whole};
        for (lane, is_first, may_be_repeated, is_immediate, expected) in [
            (Transactional, true, true, false, Short),
            (Transactional, false, true, false, Short),
            (Transactional, true, false, false, InBulk),
            (Transactional, false, false, false, InBulk),
            (Transactional, true, false, true, Short),
            (Bulk, true, true, false, Short),
            (Bulk, false, true, false, Whole),
            (Bulk, true, false, false, Whole),
            (Bulk, true, false, true, Whole),
        ] {
            let posting = Posting { lane, first_sent: at(0), is_first, may_be_repeated, is_immediate };
            assert_eq!(posting.patience(false), expected, "{posting:?}");
            assert_eq!(posting.patience(true), Whole, "{posting:?}");
        }
    }

    #[test]
    fn a_retry_after_a_hang_is_bulk_and_any_other_stays() {
        use Channel::{WebPush, Webhook};
        for (channel, reason, not_sent, expected) in [
            (Webhook, Reason::InDoubt, None, Lane::Bulk),
            (Webhook, Reason::NotSent, Some(NotSent::ConnectTimeout), Lane::Bulk),
            (Webhook, Reason::NotSent, Some(NotSent::Connect), Lane::Transactional),
            (Webhook, Reason::ServerError, None, Lane::Transactional),
            (WebPush, Reason::InDoubt, None, Lane::Transactional),
        ] {
            let lane = |lane| lane_of_retry(lane, channel, reason, not_sent);
            assert_eq!(lane(Lane::Transactional), expected, "{channel:?} {reason:?}");
            assert_eq!(lane(Lane::Bulk), Lane::Bulk);
        }
    }

    #[test]
    fn what_a_worker_saw_last_counts_before_what_all_share() {
        use Last::{Answered, Hung};
        let now = at(1_000_000);
        let ago = |secs| now.minus(Duration::from_secs(secs));
        for (last, answered, expected) in [
            (None, None, false),
            (None, Some(ago(600_000)), true),
            (None, Some(ago(700_000)), false),
            (Some(Answered(ago(10))), None, true),
            (Some(Answered(ago(700_000))), None, false),
            (Some(Hung(ago(10))), None, false),
            (Some(Hung(ago(10))), Some(ago(20)), false),
            (Some(Hung(ago(20))), Some(ago(10)), true),
            (Some(Hung(ago(700))), Some(ago(800)), true),
            (Some(Hung(ago(700))), None, false),
        ] {
            assert_eq!(is_proven(last, answered, now), expected, "{last:?} {answered:?}");
        }
    }
}
