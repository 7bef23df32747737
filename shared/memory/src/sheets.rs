//! What ports do with pages of audiences in memory, and what is known of their recipients.

use std::collections::BTreeMap;

use redial_core::audience::{RecipientRef, RunKey, shard_of};
use redial_core::identity::{DeliveryKey, SubscriptionId};
use redial_core::ledger::batch::Success;
use redial_core::ledger::{Entry, Given, PastAttempt};
use redial_core::page::{PageKey, PageMessage, Position, Sheet};
use redial_core::time::Timestamp;
use redial_engine::ports::{OnPage, PageClaim, PageLease};

use super::State;
use super::pages::StoredPage;

impl State {
    /// What is known of a delivery: its entry, or what its page's sheet says of it.
    pub fn known(&self, key: &DeliveryKey) -> Option<Entry> {
        self.ledger.get(key).or_else(|| {
            let (page, place) = self.on_pages.get(key)?;
            let given = self.page_members.get(page).map(|(.., given)| given.clone());
            let entry = self.pages.get(page)?.entry(*place)?;
            Some(Entry { given: given.unwrap_or_default(), ..entry })
        })
    }

    /// All of whom something is known.
    pub fn all_known(&self) -> Vec<Entry> {
        let on_pages = self.on_pages.keys().filter(|key| !self.ledger.contains_key(key));
        self.ledger.values().chain(on_pages.filter_map(|key| self.known(key))).collect()
    }

    /// A subscription as a recipient of a run.
    pub fn recipient(&self, run: &RunKey, subscription: &SubscriptionId) -> RecipientRef {
        let first = PageKey { run: run.clone(), shard: shard_of(subscription), first: 0 };
        let last = PageKey { first: u32::MAX, ..first.clone() };
        let on_page = self.page_members.range(first..=last).find_map(|(page, (members, ..))| {
            let place = members.iter().position(|id| id == subscription)?;
            Some(page.position(place).delivery())
        });
        let recipient = RecipientRef::new(run, subscription.clone());
        RecipientRef { id: on_page.unwrap_or(recipient.id), ..recipient }
    }

    pub(crate) fn on_page(&self, position: &Position, now: Timestamp) -> Option<OnPage> {
        let Position { run, shard, number } = position;
        let key = |first| PageKey { run: run.clone(), shard: *shard, first };
        let (key, (members, kept_until, given)) =
            self.page_members.range(key(0)..=key(*number)).next_back()?;
        let place = usize::try_from(*number - key.first).ok()?;
        let opened_at = self.runs.get(run).map_or(now, |run| run.opened_at);
        let stored = self.pages.get(key);
        Some(OnPage {
            subscription: members.get(place).filter(|_| now < *kept_until)?.clone(),
            place,
            sheet: stored.map(|it| it.sheet).unwrap_or_default(),
            opened_at,
            updated_at: stored.and_then(|it| it.sent_at.get(&place)).copied().unwrap_or(opened_at),
            given: given.clone(),
        })
    }

    pub(crate) fn record_page(
        &mut self,
        key: &PageKey,
        members: &[SubscriptionId],
        given: &Given,
        kept_until: Timestamp,
    ) -> Vec<SubscriptionId> {
        let recorded = || (members.to_vec(), kept_until, given.clone());
        self.page_members.entry(key.clone()).or_insert_with(recorded).0.clone()
    }

    /// The condition of DynamoDB's statement.
    pub(crate) fn claim_page(&mut self, page: &PageMessage, lease: &PageLease, now: Timestamp) -> PageClaim {
        for place in page.places().iter() {
            if let Some(recipient) = page.recipient(place) {
                let key = DeliveryKey { tenant: page.key.run.tenant.clone(), id: recipient.id };
                self.on_pages.insert(key, (page.key.clone(), place));
            }
        }
        let stored = self.pages.entry(page.key.clone());
        let stored = stored.and_modify(|stored| {
            if stored.lease.until <= now || stored.lease.token == lease.token {
                stored.lease = lease.clone();
            }
        });
        let stored = stored.or_insert_with(|| StoredPage {
            page: page.clone(),
            sheet: Sheet::default(),
            lease: lease.clone(),
            claimed_at: now,
            sent_at: BTreeMap::new(),
        });
        if stored.lease.token == lease.token {
            PageClaim::Granted(stored.sheet)
        } else {
            PageClaim::Leased { until: stored.lease.until }
        }
    }

    /// The condition of DynamoDB's statement.
    pub(crate) fn write_sheet(&mut self, page: &PageMessage, lease: &PageLease, sheet: &Sheet) -> bool {
        let now = self.now;
        let is_its = |it: &&mut StoredPage| it.lease.token == lease.token && it.sheet.step < sheet.step;
        let Some(stored) = self.pages.get_mut(&page.key).filter(is_its) else { return false };
        let new = sheet.sent.without(stored.sheet.sent);
        stored.sent_at.extend(new.iter().map(|place| (place, now)));
        stored.sheet = *sheet;
        stored.lease = lease.clone();
        let entries: Vec<Entry> = new.iter().filter_map(|place| stored.entry(place)).collect();
        for entry in entries {
            let success = Success { at: now, status: entry.status, headers: BTreeMap::new() };
            let past = PastAttempt::of(&success.record(&entry));
            self.attempts.entry(entry.key).or_default().extend(past);
        }
        true
    }
}
