//! Pages: up to a hundred recipients of a part of an audience that are sent to by one message.
//!
//! The message names its recipients, and a recipient's *place* is where it stands in that list. What became of the places is one small
//! [`Sheet`], which a worker holds by a lease. A place is named in [`Sheet::started`] before its attempt is made, so that a worker that
//! dies leaves exactly those in doubt. Whatever is more than a plain success leaves the page: as a message and, once it was attempted,
//! with an entry of its own in the ledger. The sheet says so before that message is sent.
//!
//! The id of a recipient's delivery names its [`Position`]: the run, the part, and how many of the part's recipients come before it. So
//! the id alone, in an acknowledgement's token or in a request, leads to the page, and nothing has to be stored for it. It does not
//! change if the page is repeated, because a page's members are recorded before it is sent.

use std::fmt;

use crate::audience::{PAGE, Progress, RecipientRef, RunKey, SHARDS};
use crate::identity::{DeliveryId, DeliveryKey, HASH_LENGTH, ID_FORM, RunId, SubscriptionId, Tenant};
use crate::lane::Lane;
use crate::ledger::State;
use crate::queue::{Outgoing, Queue};
use crate::route::DelaySeconds;
use crate::shape::{Object, boolean, integer, text};
use crate::time::Timestamp;

/// The most recipients of a page.
pub const MOST: usize = PAGE as usize;

/// How many places are started together at most. A worker that dies leaves no more of them in doubt.
pub const WAVE: usize = 50;

/// What a page is known by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    pub run: RunKey,
    pub shard: u8,
    /// How many recipients of its part come before it.
    pub first: u32,
}

impl PageKey {
    /// The page of a part that follows this progress.
    pub fn next(run: RunKey, shard: u8, progress: &Progress) -> Self {
        // No part has more than four billion recipients.
        Self { run, shard, first: u32::try_from(progress.recipients).unwrap_or(u32::MAX) }
    }

    pub fn position(&self, place: usize) -> Position {
        let Self { run, shard, first } = self;
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        Position { run: run.clone(), shard: *shard, number: first.saturating_add(place) }
    }
}

/// Where a recipient stands in a run that is sent by the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    pub run: RunKey,
    pub shard: u8,
    /// How many recipients of its part come before it.
    pub number: u32,
}

impl Position {
    /// The id of its delivery: the run's id, the part and the number, as in `P0AZ…4Pd0-3-1207`.
    pub fn delivery(&self) -> DeliveryId {
        let Self { run, shard, number } = self;
        let id = DeliveryId::parse(&format!("{}-{shard}-{number}", run.id));
        id.expect("invariant: the id of a run that is sent by the page is a hash")
    }

    /// The one that a delivery's id names; `None` if it names none. A producer may have chosen an id of this form: its delivery has an
    /// entry, which is looked up first.
    pub fn of(key: &DeliveryKey) -> Option<Self> {
        let id = run_in(&key.id)?;
        let (shard, number) = key.id.as_str().get(HASH_LENGTH + 1..)?.split_once('-')?;
        let run = RunKey { tenant: key.tenant.clone(), id };
        let position = Self { run, shard: shard.parse().ok()?, number: number.parse().ok()? };
        // A number has one text.
        (position.shard < SHARDS && position.delivery() == key.id).then_some(position)
    }
}

/// The run in a delivery's id, if the id is of the form of those that name a [`Position`].
pub fn run_in(id: &DeliveryId) -> Option<RunId> {
    let (run, rest) = id.as_str().split_at_checked(HASH_LENGTH)?;
    RunId::parse(run).filter(|_| rest.starts_with('-'))
}

/// The message that sends a page: `{"page": "P0AZ…4Pd0", "tenant": "acme", "shard": 3, "first": 100, "members": ["s2", "s3"]}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageMessage {
    pub key: PageKey,
    /// As they were recorded before the first message of the page was sent: the same in each of its messages.
    pub members: Vec<SubscriptionId>,
    /// Whether all that are left are to be sent to by messages of their own: the page was in the quarantine.
    pub apart: bool,
}

impl PageMessage {
    /// Takes its fields out of a body; `None` if it has no `page`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.raw("page")?;
        let id = object.required("page", ID_FORM, text(RunId::parse));
        let tenant = object.required("tenant", "a tenant", text(Tenant::parse));
        let shard = object.required("shard", "an integer from 0 to 15", integer(0..=15));
        let first = object.required("first", "an integer from 0", integer(0..=u64::from(u32::MAX)));
        let members = object.list("members", "the id of a subscription", MOST, text(SubscriptionId::parse));
        let apart = object.optional("apart", "true or false", boolean).unwrap_or_default();
        let key = PageKey { run: RunKey { tenant: tenant?, id: id? }, shard: shard?, first: first? };
        Some(Self { key, members: members?, apart })
    }

    pub fn outgoing(&self, lane: Lane) -> Outgoing {
        let PageKey { run, shard, first } = &self.key;
        let mut body = serde_json::json!({
            "page": run.id, "tenant": run.tenant, "shard": shard, "first": first, "members": self.members,
        });
        if self.apart {
            body["apart"] = true.into();
        }
        Outgoing {
            queue: Queue::Retry(lane),
            body: body.to_string(),
            delay: DelaySeconds::ZERO,
            tenant: Some(run.tenant.clone()),
            attribute: None,
        }
    }

    pub fn places(&self) -> Places {
        Places::below(self.members.len())
    }

    pub fn recipient(&self, place: usize) -> Option<RecipientRef> {
        let subscription = self.members.get(place)?.clone();
        Some(RecipientRef {
            run: self.key.run.clone(),
            id: self.key.position(place).delivery(),
            subscription,
        })
    }
}

/// What stands for the MessageId of all messages to a recipient that leave its page: each of them may hand off what another recorded.
pub fn source_of(recipient: &RecipientRef) -> String {
    format!("page-{}", recipient.id)
}

/// Places of a page, each below [`MOST`].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Places(u128);

impl Places {
    /// The first `many`.
    pub fn below(many: usize) -> Self {
        (0..many.min(MOST)).collect()
    }

    pub fn insert(&mut self, place: usize) {
        self.0 |= bit(place);
    }

    pub fn contains(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }

    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    #[must_use]
    pub const fn without(self, fewer: Self) -> Self {
        Self(self.0 & !fewer.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |place| self.contains(*place))
    }

    /// As it is stored: hexadecimal digits.
    pub fn to_text(self) -> String {
        format!("{:x}", self.0)
    }

    /// Reads a text; `None` if it is not one that this version wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().filter(|bits| bits >> MOST == 0).map(Self)
    }
}

/// A place that no page has is none.
fn bit(place: usize) -> u128 {
    if place < MOST { 1 << place } else { 0 }
}

impl FromIterator<usize> for Places {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        Self(places.into_iter().fold(0, |bits, place| bits | bit(place)))
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What became of a page's places. A place is in at most one of `started`, `sent` and `apart`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sheet {
    /// How often it was written: of two requests of one worker, the later one holds.
    pub step: u32,
    /// Those whose attempts may be under way.
    pub started: Places,
    /// Those that accepted it.
    pub sent: Places,
    /// Those that have a message of their own, or had one.
    pub apart: Places,
    /// Of `sent` and `apart`, those of which nothing is left to announce or to hand off.
    pub settled: Places,
    /// When those of `sent` were sent that are not settled, as it is announced: an event that is announced again is the same event.
    pub sent_at: Option<Timestamp>,
}

impl Sheet {
    /// Those of a page that nothing was begun of.
    pub fn open(&self, page: &PageMessage) -> Places {
        page.places().without(self.started).without(self.sent).without(self.apart)
    }

    /// The next ones to start.
    pub fn next(&self, page: &PageMessage) -> Places {
        self.open(page).iter().take(WAVE).collect()
    }

    /// These were sent at `now`; answers the time that is announced. Beside others that may have been announced already it is theirs.
    pub fn sends(&mut self, places: Places, now: Timestamp) -> Timestamp {
        let at = self.sent_at.filter(|_| !self.sent.without(self.settled).is_empty()).unwrap_or(now);
        self.sent_at = Some(at);
        self.started = self.started.without(places);
        self.sent = self.sent.and(places);
        at
    }

    /// These leave the page.
    pub fn parts_with(&mut self, places: Places) {
        self.started = self.started.without(places);
        self.apart = self.apart.and(places);
    }

    /// What a recipient's delivery is while it has no entry of its own.
    pub fn state(&self, place: usize) -> State {
        if self.sent.contains(place) {
            State::Sent
        } else if self.started.contains(place) {
            State::Sending
        } else {
            State::Queued
        }
    }

    /// Those that a worker has recorded, and may have died before it announced them or handed them off.
    pub fn unsettled(&self) -> Places {
        self.sent.and(self.apart).without(self.settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audience::Opening;
    use crate::fixtures::{delivery, subscription, tenant, texts};
    use crate::identity::Turn;
    use crate::message::{Inbound, QueueKind, parse};

    fn page(members: usize) -> PageMessage {
        let run =
            RunKey::new(&delivery("news"), Opening { turn: Turn::default(), at: Timestamp::from_secs(1) });
        let members = (0..members).map(|n| subscription(&format!("s{n}")).id).collect();
        PageMessage { key: PageKey { run, shard: 3, first: 0 }, members, apart: false }
    }

    fn read(body: &str) -> Result<PageMessage, Vec<String>> {
        match parse(body, QueueKind::Retry, "m", Timestamp::from_secs(0)) {
            Ok(Inbound::Page(page)) => Ok(page),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(texts(&refusal.errors)),
        }
    }

    #[test]
    fn a_page_travels_as_it_is() {
        let later = PageMessage { key: PageKey { first: 300, ..page(0).key }, apart: true, ..page(100) };
        for page in [page(1), later] {
            assert_eq!(read(&page.outgoing(Lane::Bulk).body), Ok(page));
        }
    }

    #[test]
    fn a_page_that_is_none_is_refused_with_what_would_do() {
        let errors = read(r#"{"page":"news","tenant":"acme","shard":16,"members":["s1",2]}"#);
        let errors = errors.expect_err("it is refused").join("; ");
        assert!(["shard", "first", "members[1]"].iter().all(|field| errors.contains(field)), "{errors}");
    }

    #[test]
    fn the_id_of_a_recipient_s_delivery_names_its_position() {
        let later = PageMessage { key: PageKey { first: 300, ..page(0).key }, ..page(100) };
        let recipient = later.recipient(7).expect("it has a hundred");
        let run = later.key.run.clone();
        assert_eq!(recipient.id.as_str(), format!("{}-3-307", run.id));
        let key = DeliveryKey { tenant: tenant(), id: recipient.id };
        assert_eq!(Position::of(&key), Some(Position { run: run.clone(), shard: 3, number: 307 }));
        let last = Position { run: run.clone(), shard: SHARDS - 1, number: u32::MAX };
        let id = last.delivery();
        assert_eq!((id.as_str().len(), Position::of(&DeliveryKey { id, ..key.clone() })), (57, Some(last)));
        let of_run = ["16-307", "3-0307", "03-307", "3-", "-307", "3-4294967296"];
        let ids = of_run.map(|rest| format!("{}-{rest}", run.id)).into_iter();
        for id in ids.chain(["order-3-307", "order-17", "-"].map(str::to_owned)) {
            let key = DeliveryKey { id: DeliveryId::parse(&id).expect("an id"), ..key.clone() };
            assert_eq!(Position::of(&key), None, "{id}");
        }
    }

    #[test]
    fn places_are_stored_as_they_are() {
        for places in
            [Places::default(), Places::below(1), Places::below(MOST), [3, 99].into_iter().collect()]
        {
            assert_eq!(Places::from_text(&places.to_text()), Some(places));
        }
        assert_eq!(Places::from_text("10000000000000000000000000"), None, "the place 100");
        assert_eq!((Places::below(200).len(), Places::below(0).is_empty()), (MOST, true));
    }

    #[test]
    fn a_place_is_started_once_and_then_sent_or_apart() {
        let page = page(100);
        let mut sheet = Sheet::default();
        assert_eq!(sheet.next(&page), Places::below(WAVE));
        sheet.started = sheet.next(&page);
        assert_eq!((sheet.open(&page).len(), sheet.next(&page).len()), (50, 50));
        assert_eq!(sheet.state(49), State::Sending);
        assert_eq!(sheet.sends(Places::below(48), Timestamp::from_secs(1)), Timestamp::from_secs(1));
        assert_eq!(sheet.sends([48].into_iter().collect(), Timestamp::from_secs(2)), Timestamp::from_secs(1));
        sheet.parts_with([49, 50].into_iter().collect());
        assert_eq!((sheet.started, sheet.open(&page).len()), (Places::default(), 49));
        assert_eq!([0, 49, 51].map(|place| sheet.state(place)), [State::Sent, State::Queued, State::Queued]);
        assert_eq!(sheet.unsettled(), Places::below(51));
        sheet.settled = Places::below(51);
        assert!(sheet.unsettled().is_empty());
        assert_eq!(sheet.sends([52].into_iter().collect(), Timestamp::from_secs(2)), Timestamp::from_secs(2));
    }
}
