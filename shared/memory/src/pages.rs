//! A page of an audience as it is stored.

use std::collections::BTreeMap;

use redial_core::endpoint::HashKeys;
use redial_core::identity::{DeliveryKey, Turn};
use redial_core::ledger::{self, Entry};
use redial_core::page::{PageMessage, Sheet, source_of};
use redial_core::time::Timestamp;
use redial_engine::ports::PageLease;

/// A page's item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredPage {
    /// As its messages name them: the item itself does not.
    pub page: PageMessage,
    pub sheet: Sheet,
    pub lease: PageLease,
    pub claimed_at: Timestamp,
    /// When each place was recorded as sent.
    pub sent_at: BTreeMap<usize, Timestamp>,
}

impl StoredPage {
    /// What the ledger would have of a recipient of it, if each had an entry.
    pub(crate) fn entry(&self, place: usize) -> Option<Entry> {
        let Self { page, sheet, lease, claimed_at, sent_at } = self;
        let state = if sheet.sent.contains(place) {
            ledger::State::Sent
        } else if sheet.started.contains(place) {
            ledger::State::Sending
        } else {
            return None;
        };
        let recipient = page.recipient(place)?;
        let token = lease.token.split('#').next().unwrap_or_default();
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        let key = DeliveryKey { tenant: page.key.run.tenant.clone(), id: recipient.id.clone() };
        Some(Entry {
            lease_token: token.to_owned(),
            lease_until: lease.until,
            source_message: source_of(&recipient),
            subscription: Some(recipient.subscription),
            status: (state == ledger::State::Sent).then_some(201),
            dispatched_at: Some(*claimed_at),
            updated_at: sent_at.get(&place).copied().unwrap_or(*claimed_at),
            expires_at: lease.kept_until,
            ..Entry::unclaimed(key, state, Turn::default(), keys.fingerprint(b"page"), *claimed_at)
        })
    }
}
