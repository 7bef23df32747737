//! Shared token buckets: a rate limit is a line of slots in time, and a worker leases a block of them to send.
//!
//! Workers share one value of a bucket: the moment from which its slots are free. A lease moves that moment past the block's slots in
//! one conditional write. Slots that are not used within [`KEPT`] are void: a worker that dies loses its one block, and nothing else.
//! An idle bucket does not accumulate slots.

use std::time::Duration;

use crate::time::Timestamp;

/// The first slot of a block may be this far ahead: the invocation waits for it.
pub const AHEAD: Duration = Duration::from_secs(1);

/// How long after its last slot a block is void: what many workers have left over may be used in one second.
pub const KEPT: Duration = Duration::from_secs(1);

/// What a bucket is for. Its text is its key in the store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum TokenBucket {
    Origin(String),
    Retries(String),
    Tenant(String),
    /// All attempts to a subscription's endpoint: `tenant#subscription`.
    Endpoint(String),
    ApiKey(String),
    /// The reads of an origin's open breaker by messages that wait for it.
    Waiting(String),
    /// The messages that leave an origin's line.
    Line(String),
    /// The releases that look after a shard of a line.
    Turn(String, u16),
    /// A tenant's seats in a window, by the window's number and how many seats it has ([`super::seats`]).
    Seats(String, i64, u32),
    /// The order in which a tenant's messages return after they found none of its seats free.
    Seated(String),
    /// The order in which a tenant's messages return after they found a bucket empty.
    Queue(Box<TokenBucket>, String),
}

impl TokenBucket {
    pub fn key(&self) -> String {
        match self {
            Self::Origin(origin) => format!("origin#{origin}"),
            Self::Retries(origin) => format!("retries#{origin}"),
            Self::Tenant(tenant) => format!("tenant#{tenant}"),
            Self::Endpoint(endpoint) => format!("endpoint#{endpoint}"),
            Self::ApiKey(id) => format!("api-key#{id}"),
            Self::Waiting(origin) => format!("waiting#{origin}"),
            Self::Line(line) => format!("line#{line}"),
            Self::Turn(line, shard) => format!("turn#{line}#{shard}"),
            Self::Seats(tenant, window, most) => format!("seats#{tenant}#{most}#{window}"),
            Self::Seated(tenant) => format!("seats#{tenant}"),
            Self::Queue(bucket, tenant) => format!("queue#{tenant}#{}", bucket.key()),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    pub key: String,
    pub slots: u32,
    /// How long they take: slots over slots a second.
    pub span: Duration,
    /// The latest moment of the first slot; none: any.
    pub latest: Option<Timestamp>,
    pub now: Timestamp,
    /// Where a bucket's first block begins, also after it lay idle for [`AHEAD`].
    pub first: Timestamp,
}

impl Request {
    /// For `slots` of a part that has `per_second` a second.
    pub fn new(key: String, slots: u32, per_second: f64, latest: Option<Timestamp>, now: Timestamp) -> Self {
        let ms = (f64::from(slots) * 1000.0 / per_second).ceil().clamp(1.0, 1e12);
        Self { key, slots, span: Duration::from_millis(ms as u64), latest, now, first: now }
    }

    /// For a part of a bucket that gets more of them while it grows, and loses them again. One that was not in use begins behind all slots
    /// that can have been leased of the other parts: those were as many as the whole bucket has.
    #[must_use]
    pub fn of_growing(self) -> Self {
        Self { first: self.now.plus(AHEAD), ..self }
    }

    /// The answer if slots are free from `free_from`. A store's conditional write decides the same.
    pub fn judge(&self, free_from: Option<Timestamp>) -> Answer {
        let in_use = free_from.filter(|at| *at >= self.now.minus(AHEAD));
        let begin = in_use.map_or(self.first, |at| at.max(self.now));
        match self.latest {
            Some(latest) if begin > latest => Answer::Empty { free_from: begin },
            Some(_) | None => Answer::Leased { begin },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Leased { begin: Timestamp },
    Empty { free_from: Timestamp },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    slots: u32,
    begin: Timestamp,
    void_from: Timestamp,
}

impl Block {
    pub fn of(request: &Request, begin: Timestamp) -> Self {
        Self { slots: request.slots, begin, void_from: begin.plus(request.span).plus(KEPT) }
    }

    /// With what is left of an earlier block, whose slots may not be used before its own begin.
    #[must_use]
    pub fn with_left_of(self, earlier: Option<Self>, now: Timestamp) -> Self {
        let Some(earlier) = earlier.filter(|block| block.left(now) > 0) else { return self };
        Self {
            slots: self.slots.saturating_add(earlier.slots),
            begin: self.begin.max(earlier.begin),
            void_from: self.void_from.max(earlier.void_from),
        }
    }

    pub fn left(&self, now: Timestamp) -> u32 {
        if now < self.void_from { self.slots } else { 0 }
    }

    /// Uses one, if any is left; returns from when it may be used.
    pub fn take(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.left(now) == 0 {
            return None;
        }
        self.slots -= 1;
        Some(self.begin)
    }

    pub fn give_back(&mut self) {
        self.slots += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000_000).plus(Duration::from_millis(ms))
    }

    #[test]
    fn an_idle_bucket_accumulates_no_slots_and_blocks_expire() {
        let request = Request::new("k".to_owned(), 10, 50.0, Some(at(60_000)), at(59_000));
        assert_eq!(request.span, Duration::from_millis(200));
        for (free_from, answer) in [
            (Some(at(0)), Answer::Leased { begin: at(59_000) }),
            (None, Answer::Leased { begin: at(59_000) }),
            (Some(at(60_001)), Answer::Empty { free_from: at(60_001) }),
        ] {
            assert_eq!(request.judge(free_from), answer);
        }
        let growing = request.of_growing();
        for (free_from, begin) in [
            (None, at(60_000)),
            // Not in use for a second.
            (Some(at(57_999)), at(60_000)),
            (Some(at(58_000)), at(59_000)),
            (Some(at(59_001)), at(59_001)),
        ] {
            assert_eq!(growing.judge(free_from), Answer::Leased { begin }, "{free_from:?}");
        }
        let request = Request::new("k".to_owned(), 2, 1.0, None, at(0));
        let mut block = Block::of(&request, at(0));
        assert_eq!((block.take(at(2_999)), block.left(at(2_999))), (Some(at(0)), 1));
        assert_eq!(block.take(at(3_000)), None);
    }

    #[test]
    fn what_is_left_of_a_block_is_not_used_before_its_own_begin() {
        let block = |begin: u64| Block::of(&Request::new("k".to_owned(), 2, 10.0, None, at(0)), at(begin));
        let mut later = block(900);
        assert_eq!(later.take(at(0)), Some(at(900)));
        let mut both = block(100).with_left_of(Some(later), at(0));
        assert_eq!((both.left(at(0)), both.take(at(0))), (3, Some(at(900))));
        later.take(at(0));
        assert_eq!(block(100).with_left_of(Some(later), at(0)), block(100));
    }

    proptest! {
        /// No span of time has more slots than its rate, and one block.
        #[test]
        fn no_span_has_more_slots_than_its_share_and_a_block(
            asks in prop::collection::vec((0u64..300, 1u32..20), 1..200), per_second in 1u32..200, from in 0u64..20_000,
        ) {
            let rate = f64::from(per_second);
            let (mut now, mut free_from, mut leased) = (0, None, Vec::new());
            for (later, slots) in asks {
                now += later;
                let request = Request::new("k".to_owned(), slots, rate, Some(at(now).plus(AHEAD)), at(now));
                if let Answer::Leased { begin } = request.judge(free_from) {
                    free_from = Some(begin.plus(request.span));
                    leased.push((begin, slots));
                }
            }
            let span = |begin: &Timestamp| *begin >= at(from) && *begin < at(from + 5_000);
            let slots: u32 = leased.iter().filter(|(begin, _)| span(begin)).map(|(_, slots)| slots).sum();
            prop_assert!(f64::from(slots) <= 5.0 * rate + 20.0, "{slots}");
        }
    }
}
