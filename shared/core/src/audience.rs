//! Audiences: one message to all of a tenant's subscriptions that have a tag.
//!
//! The message is stored once, as a [`Run`]; what travels to each recipient is a reference to it. The tag's subscriptions are divided
//! into [`SHARDS`] parts, and the worker that holds a part's [`Expansion`] sends it page by page, moving the part's [`Progress`] past
//! each page once it is sent. A worker that dies in between leaves a page that is sent again; a recipient's delivery has an id that
//! follows from run and subscription, so that the ledger drops the second.
//!
//! Several workers may hold copies of a part's message, and members of the audience change while they read them. At a rate, the one that
//! reads a page first records its [`Bounds`] before it sends it, and no other sends that page to anyone behind them: the rate decides when
//! those have their turn.
//!
//! A producer may use an id again once the ledger has forgotten it. DynamoDB deletes expired rows late and one by one, so rows of
//! the earlier run may still be there. A run therefore has an id of its own, a hash of the message's id and of its [`Opening`], and
//! everything that belongs to the run is keyed by that id: its rows, its parts and its recipients' deliveries.

use std::time::Duration;

use crate::body::Body;
use crate::identity::{DeliveryId, DeliveryKey, Key, RunId, SubscriptionId, Tenant, Turn, hashed};
use crate::lane::Lane;
use crate::queue::{Outgoing, Queue};
use crate::rate::Rate;
use crate::route::DelaySeconds;
use crate::shape::{Object, integer, text};
use crate::tag::Tag;
use crate::time::Timestamp;

pub const SHARDS: u8 = 16;

pub const PAGE: u16 = 100;

/// How long a page of a paced audience lasts, where that is no more than [`PAGE`].
const PACED_PAGE: Duration = Duration::from_secs(10);

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

    /// How long a part rests after a page of `recipients`: 16 hours at most, after a page of one at `1/h`.
    pub fn rest_after(&self, recipients: usize) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let secs = recipients as f64 * f64::from(SHARDS) / rate.per_second();
        Duration::from_secs_f64(secs)
    }
}

/// The part of an audience that a subscription belongs to, from 0.
pub fn shard_of(id: &SubscriptionId) -> u8 {
    let digest = ring::digest::digest(&ring::digest::SHA256, id.as_str().as_bytes());
    digest.as_ref()[0] % SHARDS
}

/// The claim that granted a message to an audience. The ledger keeps it, so it is the same on every hand-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    pub turn: Turn,
    pub at: Timestamp,
}

pub type RunKey = Key<RunId>;

impl RunKey {
    pub fn new(message: &DeliveryKey, opening: Opening) -> Self {
        let Opening { turn, at } = opening;
        let name = format!("run\0{}\0{}\0{}\0{}", message.id, turn.lineage.0, turn.attempt.0, at.as_ms());
        let id = RunId::parse(&hashed(&name)).expect("invariant: a hash is an id");
        Self { tenant: message.tenant.clone(), id }
    }
}

/// A message to an audience while it is sent, as it is stored: once for each opening, whatever the number of its recipients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub key: RunKey,
    /// The id of its message, by which the producer knows it.
    pub message: DeliveryId,
    pub lane: Lane,
    pub body: Body,
    pub opened_at: Timestamp,
    /// When it is forgotten: no recipient's delivery is under way any more. A row that is still there after this counts as absent.
    pub kept_until: Timestamp,
    pub cancelled_at: Option<Timestamp>,
    /// Whether its recipients are sent to by the page ([`crate::page`]), which is decided once for all of them.
    pub by_the_page: bool,
}

/// How far a page of an audience with a rate goes, as its first worker recorded it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The last subscription of the page.
    pub through: SubscriptionId,
    pub recipients: u16,
}

/// What a worker sends of a part at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub members: Vec<SubscriptionId>,
    /// The number of recipients that the part rests for.
    pub counted: usize,
    /// The subscription that the part goes on after, if that is another one than before.
    through: Option<SubscriptionId>,
    /// Whether no one follows.
    is_last: bool,
}

impl Page {
    /// The members that a worker read, where it asked for `most`.
    pub fn of(members: Vec<SubscriptionId>, most: u16) -> Self {
        let (through, counted) = (members.last().cloned(), members.len());
        Self { is_last: counted < usize::from(most), members, counted, through }
    }

    /// What is recorded before it is sent; `None` of a page that is empty.
    pub fn bounds(&self) -> Option<Bounds> {
        let recipients = u16::try_from(self.counted).unwrap_or(u16::MAX);
        Some(Bounds { through: self.through.clone()?, recipients })
    }

    /// Whether others may follow within these bounds: so many have joined since they were recorded that the page is full before their end.
    pub fn ends_before(&self, bounds: &Bounds) -> bool {
        !self.is_last && self.through.as_ref() < Some(&bounds.through)
    }

    /// The last one that was read.
    pub fn through(&self) -> Option<&SubscriptionId> {
        self.through.as_ref()
    }

    /// This page and the one that follows it.
    #[must_use]
    pub fn and(mut self, next: Self) -> Self {
        self.members.extend(next.members);
        Self {
            counted: self.members.len(),
            through: next.through.or(self.through),
            is_last: next.is_last,
            members: self.members,
        }
    }

    /// The page as its first worker recorded it. Some of its recipients may have left meanwhile, and others may have joined: these are
    /// sent to with it, and the part rests for all of them.
    #[must_use]
    pub fn within(self, bounds: Bounds) -> Self {
        let Self { mut members, counted, is_last, .. } = self;
        members.retain(|id| *id <= bounds.through);
        Self {
            is_last: is_last && members.len() == counted,
            counted: members.len().max(bounds.recipients.into()),
            through: Some(bounds.through),
            members,
        }
    }
}

impl Page {
    /// The page with the members that its first worker recorded, which may be others than this one read.
    #[must_use]
    pub fn recorded(self, members: Vec<SubscriptionId>) -> Self {
        let through = members.last().cloned();
        // Those that were read behind the recorded ones are in the next page.
        Self { is_last: self.is_last && self.through <= through, counted: members.len(), members, through }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The last subscription that was sent to; `None` before the first.
    pub after: Option<SubscriptionId>,
    pub recipients: u64,
    pub done: bool,
    /// Before this its rate lets no further page go: a copy of the part's message may come at any time.
    pub rests_until: Option<Timestamp>,
}

impl Progress {
    /// The progress after a page.
    #[must_use]
    pub fn past(&self, page: &Page, rests_until: Option<Timestamp>) -> Self {
        let done = page.is_last;
        Self {
            after: page.through.as_ref().or(self.after.as_ref()).cloned(),
            recipients: self.recipients + page.members.len() as u64,
            done,
            rests_until: rests_until.filter(|_| !done),
        }
    }
}

/// The message that sends a part of an audience its next page: `{"expand": "news-17", "tenant": "acme", "shard": 3}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expansion {
    pub run: RunKey,
    pub shard: u8,
}

impl Expansion {
    pub fn all(run: RunKey) -> impl Iterator<Item = Self> {
        (0..SHARDS).map(move |shard| Self { run: run.clone(), shard })
    }

    /// Takes its fields out of a body; `None` if it has no `expand`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.raw("expand")?;
        let id = object.required("expand", "the id of a run", text(RunId::parse));
        let tenant = object.required("tenant", "a tenant", text(Tenant::parse));
        let last = u64::from(SHARDS) - 1;
        let shard = object.required("shard", "an integer from 0 to 15", integer(0..=last));
        Some(Self { run: RunKey { tenant: tenant?, id: id? }, shard: shard? })
    }

    pub fn outgoing(&self, lane: Lane, delay: DelaySeconds) -> Outgoing {
        let Self { run, shard } = self;
        let body = serde_json::json!({ "expand": run.id, "tenant": run.tenant, "shard": shard });
        let tenant = Some(run.tenant.clone());
        Outgoing { queue: Queue::Retry(lane), body: body.to_string(), delay, tenant, attribute: None }
    }
}

/// What travels to one recipient: a reference to the run's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecipientRef {
    pub run: RunKey,
    pub id: DeliveryId,
    pub subscription: SubscriptionId,
}

impl RecipientRef {
    /// This subscription as a recipient of a run that is sent recipient by recipient. The delivery's id follows from run and subscription,
    /// so a repetition is the same delivery. On a page it follows from the [`Position`](crate::page::Position).
    pub fn new(run: &RunKey, subscription: SubscriptionId) -> Self {
        let id = DeliveryId::parse(&hashed(&format!("audience\0{}\0{subscription}", run.id)));
        Self { run: run.clone(), id: id.expect("invariant: a hash is an id"), subscription }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{delivery, subscription, tenant};
    use crate::identity::{Attempt, Lineage};

    fn paced(rate: &str) -> Audience {
        let tag = Tag::parse("news").expect("valid");
        Audience { tag, rate: Some(Rate::parse(rate).expect("valid")) }
    }

    #[test]
    fn all_parts_together_send_at_the_rate() {
        for (rate, per_second) in
            [("1/s", 1.0), ("160/s", 160.0), ("5000/s", 5000.0), ("90/min", 1.5), ("1/h", 1.0 / 3600.0)]
        {
            let audience = paced(rate);
            let page = f64::from(audience.page());
            let rest = audience.rest_after(usize::from(audience.page())).as_secs_f64();
            let actual = page * f64::from(SHARDS) / rest;
            assert!((actual - per_second).abs() < 0.01 * per_second, "{rate}: {actual} a second");
        }
        let all = Audience { rate: None, ..paced("1/s") };
        assert_eq!((all.page(), all.rest_after(100)), (PAGE, Duration::ZERO), "full and immediate");
        assert_eq!(paced("1/h").rest_after(1), Duration::from_secs(16 * 3600), "longer than SQS delays");
    }

    #[test]
    fn subscriptions_spread_evenly_over_fixed_parts() {
        let id = |n: usize| subscription(&format!("s{n}")).id;
        let mut shards = [0; SHARDS as usize];
        for n in 0..1_600 {
            shards[usize::from(shard_of(&id(n)))] += 1;
        }
        assert!(shards.iter().all(|n| (60..=140).contains(n)), "{shards:?}");
        // Rows that are stored were divided like this: with another division they would not be found.
        assert_eq!(shard_of(&id(1)), 8);
    }

    #[test]
    fn each_opening_of_each_message_is_its_own_run() {
        let runs = [
            ("news", 0, 0, 1_800_000_000_000),
            ("news", 0, 0, 1_800_000_000_001),
            ("news", 1, 0, 1_800_000_000_000),
            ("news", 0, 1, 1_800_000_000_000),
            ("sport", 0, 0, 1_800_000_000_000),
        ]
        .map(|(id, lineage, attempt, ms)| {
            let turn = Turn { lineage: Lineage(lineage), attempt: Attempt(attempt) };
            RunKey::new(&delivery(id), Opening { turn, at: Timestamp::from_ms(ms) })
        });
        for (n, a) in runs.iter().enumerate() {
            assert!(runs[n + 1..].iter().all(|b| a != b), "{n}");
        }
        // Runs that are stored have ids of this hash: with another, they would not be found.
        assert_eq!(runs[0].id.as_str(), "P0AZkl2npXCrP85Xl7Zb5dOWd8d_HY2rdf97e7I4Pd0");
    }

    #[test]
    fn a_recipient_has_one_delivery_for_each_run() {
        let run = |id| RunKey { tenant: tenant(), id: RunId::parse(id).expect("valid") };
        let delivery = |run_id, id| RecipientRef::new(&run(run_id), subscription(id).id).id;
        assert_eq!(delivery("news", "s1"), delivery("news", "s1"));
        assert_ne!(delivery("news", "s1"), delivery("news", "s2"));
        assert_ne!(delivery("news", "s1"), delivery("sport", "s1"));
    }

    #[test]
    fn a_page_that_is_not_full_ends_the_part() {
        let until = Some(Timestamp::from_secs(10));
        let two = Progress::default().past(&Page::of(ids(&["a", "b"]), 2), until);
        let after = ids(&["b"]).pop();
        assert_eq!(two, Progress { after, recipients: 2, done: false, rests_until: until });
        let none = two.past(&Page::of(Vec::new(), 2), until);
        assert_eq!(none, Progress { done: true, rests_until: None, ..two });
    }

    fn ids(names: &[&str]) -> Vec<SubscriptionId> {
        names.iter().map(|name| subscription(name).id).collect()
    }

    #[test]
    fn a_page_goes_no_further_than_its_first_worker_recorded() {
        let first = Page::of(ids(&["a", "b", "c"]), 3);
        let bounds = first.bounds().expect("it has recipients");
        assert_eq!(first.clone().within(bounds.clone()), first);
        for (read, sent, after, done) in [
            (&["a", "c", "d"][..], &["a", "c"][..], "c", false),
            (&["a", "c"], &["a", "c"], "c", true),
            (&["d"], &[], "c", false),
        ] {
            let page = Page::of(ids(read), 3);
            assert!(!page.ends_before(&bounds), "{read:?}");
            let page = page.within(bounds.clone());
            assert_eq!((page.members.clone(), page.counted), (ids(sent), 3), "{read:?}");
            let next = Progress::default().past(&page, None);
            assert_eq!((next.after, next.done), (ids(&[after]).pop(), done), "{read:?}");
        }
        assert_eq!(Page::of(Vec::new(), 3).bounds(), None);
    }

    #[test]
    fn a_page_that_was_recorded_is_sent_as_it_was_and_the_next_begins_behind_it() {
        let recorded = ids(&["a", "c"]);
        for (read, done) in
            [(&["a", "c"][..], true), (&["a"], true), (&["a", "d"], false), (&["b", "c", "d"], false)]
        {
            let page = Page::of(ids(read), 3).recorded(recorded.clone());
            assert_eq!((page.members.clone(), page.counted), (recorded.clone(), 2), "{read:?}");
            let next = Progress::default().past(&page, None);
            assert_eq!((next.after, next.done), (ids(&["c"]).pop(), done), "{read:?}");
        }
    }

    #[test]
    fn who_joined_a_recorded_page_is_sent_with_it() {
        let bounds = Page::of(ids(&["a", "b", "c"]), 3).bounds().expect("it has recipients");
        let begins = Page::of(ids(&["a", "aa", "b"]), 3);
        assert!(begins.ends_before(&bounds), "`c` may follow");
        for (rest, sent, done) in [
            (&["c", "d", "e"][..], &["a", "aa", "b", "c"][..], false),
            (&["d"], &["a", "aa", "b"], false),
            (&["c"], &["a", "aa", "b", "c"], true),
            (&[], &["a", "aa", "b"], true),
        ] {
            let page = begins.clone().and(Page::of(ids(rest), 3));
            assert!(!page.ends_before(&bounds), "{rest:?}");
            let page = page.within(bounds.clone());
            assert_eq!((page.members.clone(), page.counted), (ids(sent), sent.len()), "{rest:?}");
            let next = Progress::default().past(&page, None);
            assert_eq!((next.after, next.done), (ids(&["c"]).pop(), done), "{rest:?}");
        }
    }
}
