//! The walk over all subscriptions: a scan of the table, page by page, and how far it has come in `control`.
//!
//! A scan costs half a read unit for every 4 KB, a few cents for a million subscriptions. It is not consistent, and need not be: what it finds
//! is decided on once more by a conditional write.

use redial_core::recipient::Recipient;
use redial_core::subscription::{Rival, State, Subscription, same_endpoint::keeps_it};
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Endowed, PortError, SubscriptionHealth as _, SubscriptionWalk, WalkProgress, Walked, WalkedPage,
};

use super::DynamoSubscriptions;
use super::holder::holds;
use super::transaction::{After, Ends, Met};
use crate::table::attributes::{Read as _, item, key, ms, s};

/// The most items that are read at a time.
pub const WALKED_AT_A_TIME: i32 = 500;

/// The partition of the walk's progress, in `control`.
const WALK: &str = "walk";

const SUBSCRIPTIONS: &str = "subscriptions";

/// What became of the endpoint of one that was walked to.
enum Decided {
    Its,
    OtherLoses(Box<Subscription>),
    Loses,
    Changed,
}

impl SubscriptionWalk for DynamoSubscriptions {
    async fn walk_page(&self, from: Option<String>) -> Result<WalkedPage, PortError> {
        let from = from.map(|pk| item([("pk", s(pk))]));
        let (items, last) = self.table.scan_page(from, WALKED_AT_A_TIME).await?;
        let walked = |item| {
            // A webhook's secrets stay sealed: they are not walked for.
            let subscription = super::item::read(item, None)?.ok()?;
            Some(Walked { subscription, has_its_endpoint: holds(item) })
        };
        let next = last.and_then(|last| last.text("pk").map(str::to_owned));
        Ok(WalkedPage { found: items.iter().filter_map(walked).collect(), next })
    }

    async fn walk_progress(&self) -> Result<Option<WalkProgress>, PortError> {
        let found = self.control.table.get_one(key(WALK, SUBSCRIPTIONS)).await?;
        Ok(found.and_then(|item| {
            Some(WalkProgress {
                began_at: item.time("began_at")?,
                next: item.text("next").map(str::to_owned),
            })
        }))
    }

    async fn walk_to(&self, progress: &WalkProgress) -> Result<(), PortError> {
        let mut row = key(WALK, SUBSCRIPTIONS);
        row.insert("began_at".to_owned(), ms(progress.began_at));
        row.extend(progress.next.as_ref().map(|next| ("next".to_owned(), s(next))));
        self.control.table.put(row).await
    }

    async fn endow(&self, found: &Subscription, at: Timestamp) -> Result<Endowed, PortError> {
        let Recipient::WebPush(target) = &found.recipient else { return Ok(Endowed::Changed) };
        let decide = |Met { before, holder }: Met<'_>| {
            let same = before.filter(|before| !holds(before));
            let same = self.read(same)?.filter(|it| it.recipient.endpoint() == &target.endpoint);
            let Some(own) = same else { return Ok((None, Decided::Changed)) };
            let mark = Some(After::Part { sets: vec![("updated_at", ms(at))], removes: Vec::new() });
            Ok(match holder.rival() {
                Some(Rival::Stored(other)) if keeps_it(&own, &other) => {
                    (mark, Decided::OtherLoses(Box::new(Subscription { state: State::Stale, ..*other })))
                }
                Some(Rival::Stored(_)) => (None, Decided::Loses),
                Some(Rival::Former) | None => (mark, Decided::Its),
            })
        };
        Ok(match self.change_both(&found.key, Some(&target.endpoint), Ends::Stale, at, decide).await? {
            Decided::Its => Endowed::Its,
            Decided::OtherLoses(other) => Endowed::Lost(other),
            Decided::Loses if self.end(found, State::Stale, at).await? => {
                Endowed::Lost(Box::new(Subscription { state: State::Stale, ..found.clone() }))
            }
            Decided::Loses | Decided::Changed => Endowed::Changed,
        })
    }
}
