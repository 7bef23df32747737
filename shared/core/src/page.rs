//! Pages: up to a hundred recipients of a part of an audience that are sent to by one message.
//!
//! The message names its recipients, and a recipient's *place* is where it stands in that list. What became of the places is one small
//! [`Sheet`], which a worker holds by a lease. A place is named in [`Sheet::started`] before its attempt is made, so that a worker that
//! dies leaves exactly those in doubt. Whatever is more than a plain success leaves the page: as a message and, once it was attempted,
//! with an entry of its own in the ledger. The sheet says so before that message is sent.

use std::fmt;

use crate::audience::{PAGE, RecipientRef, RunKey};
use crate::identity::{ID_FORM, RunId, SubscriptionId, Tenant};
use crate::lane::Lane;
use crate::queue::{Outgoing, Queue};
use crate::route::DelaySeconds;
use crate::shape::{Object, boolean, integer, text};

/// The most recipients of a page.
pub const MOST: usize = PAGE as usize;

/// How many places are started together at most. A worker that dies leaves no more of them in doubt.
pub const WAVE: usize = 50;

/// What a page is known by: it is the one of its part that begins after this subscription.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    pub run: RunKey,
    pub shard: u8,
    /// `None` of the first.
    pub after: Option<SubscriptionId>,
}

/// The message that sends a page: `{"page": "news-17", "tenant": "acme", "shard": 3, "after": "s1", "members": ["s2", "s3"]}`.
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
        let after = object.optional("after", ID_FORM, text(SubscriptionId::parse));
        let members = object.list("members", "the id of a subscription", MOST, text(SubscriptionId::parse));
        let apart = object.optional("apart", "true or false", boolean).unwrap_or_default();
        let key = PageKey { run: RunKey { tenant: tenant?, id: id? }, shard: shard?, after };
        Some(Self { key, members: members?, apart })
    }

    pub fn outgoing(&self, lane: Lane) -> Outgoing {
        let PageKey { run, shard, after } = &self.key;
        let mut body = serde_json::json!({
            "page": run.id, "tenant": run.tenant, "shard": shard, "members": self.members,
        });
        if let Some(after) = after {
            body["after"] = after.as_str().into();
        }
        if self.apart {
            body["apart"] = true.into();
        }
        let tenant = Some(run.tenant.clone());
        Outgoing { queue: Queue::Retry(lane), body: body.to_string(), delay: DelaySeconds::ZERO, tenant }
    }

    pub fn places(&self) -> Places {
        Places::below(self.members.len())
    }

    pub fn recipient(&self, place: usize) -> Option<RecipientRef> {
        Some(RecipientRef::new(&self.key.run, self.members.get(place)?.clone()))
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
    /// The first so many.
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

    /// These were sent.
    pub fn sends(&mut self, places: Places) {
        self.started = self.started.without(places);
        self.sent = self.sent.and(places);
    }

    /// These leave the page.
    pub fn parts_with(&mut self, places: Places) {
        self.started = self.started.without(places);
        self.apart = self.apart.and(places);
    }

    /// Those that a worker has recorded, and may have died before it announced them or handed them off.
    pub fn unsettled(&self) -> Places {
        self.sent.and(self.apart).without(self.settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{subscription, tenant, texts};
    use crate::message::{Inbound, QueueKind, parse};
    use crate::time::Timestamp;

    fn page(members: usize) -> PageMessage {
        let run = RunKey { tenant: tenant(), id: RunId::parse("news").expect("an id") };
        let members = (0..members).map(|n| subscription(&format!("s{n}")).id).collect();
        PageMessage { key: PageKey { run, shard: 3, after: None }, members, apart: false }
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
        let after = Some(subscription("s9").id);
        let later = PageMessage { key: PageKey { after, ..page(0).key }, apart: true, ..page(100) };
        for page in [page(1), later] {
            assert_eq!(read(&page.outgoing(Lane::Bulk).body), Ok(page));
        }
    }

    #[test]
    fn a_page_that_is_none_is_refused_with_what_would_do() {
        let errors = read(r#"{"page":"news","tenant":"acme","shard":16,"members":["s1",2]}"#);
        let errors = errors.expect_err("it is refused").join("; ");
        assert!(errors.contains("shard") && errors.contains("members[1]"), "{errors}");
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
        sheet.sends(Places::below(49));
        sheet.parts_with([49, 50].into_iter().collect());
        assert_eq!((sheet.started, sheet.open(&page).len()), (Places::default(), 49));
        assert_eq!(sheet.unsettled(), Places::below(51));
        sheet.settled = Places::below(51);
        assert!(sheet.unsettled().is_empty());
    }
}
