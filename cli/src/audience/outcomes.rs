//! What became of the recipients of a message to an audience, counted.
//!
//! Of a run that is sent by the page, its pages say who accepted it, and only recipients with an entry of their own are looked up. Of any
//! other run a recipient has an entry from when a worker receives its message, whose id follows from the subscription: those that have the tag
//! now are looked up, and the others that it was handed on to count as under way until its TTL is over. Parts are read page by page, so an
//! audience of any size needs little memory.

use redial_adapters::{acks_dynamo::DynamoAcks, audiences_dynamo::DynamoAudiences};
use redial_core::{
    audience::{PAGE, RecipientRef, Run, SHARDS},
    identity::{DeliveryId, DeliveryKey, SubscriptionId},
    ledger::State,
    reason::Reason,
    tag::Tag,
    time::Timestamp,
};
use redial_engine::ports::{Audiences as _, DeliveryRecord, PortError};
use serde_json::{Value, json};

use crate::stack::Target;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcomes {
    pub(super) sent: u64,
    pub(super) failed: u64,
    pub(super) gone: u64,
    pub(super) expired: u64,
    pub(super) cancelled: u64,
    /// Not ended: queued, being sent, held back, or waiting for a retry.
    pub(super) under_way: u64,
    /// Of those that were sent: displayed, clicked or closed.
    pub(super) acknowledged: u64,
}

impl Outcomes {
    /// `handed_on`: the recipients that have an entry, or may still get one.
    pub(super) async fn read(
        target: &Target,
        run: &Run,
        tag: Option<&Tag>,
        handed_on: u64,
        now: Timestamp,
    ) -> Result<Self, PortError> {
        let mut counts = Self::default();
        let reader = Reader { target, audiences: target.audiences(), acks: target.acks(), run, now };
        for shard in 0..SHARDS {
            if run.by_the_page {
                reader.pages(shard, &mut counts).await?;
            } else if let Some(tag) = tag {
                reader.members(shard, tag, &mut counts).await?;
            }
        }
        if !run.by_the_page && tag.is_some() {
            counts.add_without_entry(handed_on);
        }
        Ok(counts)
    }

    /// Those whose messages no worker has received yet.
    fn add_without_entry(&mut self, handed_on: u64) {
        let Self { sent, failed, gone, expired, cancelled, under_way, acknowledged: _ } = *self;
        let found = sent + failed + gone + expired + cancelled + under_way;
        self.under_way += handed_on.saturating_sub(found);
    }

    fn add(&mut self, state: State) {
        *match state {
            State::Sent | State::Expanded => &mut self.sent,
            State::Failed | State::FailedNoRetries => &mut self.failed,
            State::Gone => &mut self.gone,
            State::Expired => &mut self.expired,
            State::Cancelled => &mut self.cancelled,
            State::Queued | State::Sending | State::Retrying | State::Deferred => &mut self.under_way,
        } += 1;
    }

    fn add_record(&mut self, record: &DeliveryRecord) {
        self.add(outcome(record.entry.state, record.entry.reason));
        self.acknowledged += u64::from(!record.acknowledged.is_empty());
    }

    fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("sent", self.sent),
            ("failed", self.failed),
            ("gone", self.gone),
            ("expired", self.expired),
            ("cancelled", self.cancelled),
            ("under_way", self.under_way),
            ("acknowledged", self.acknowledged),
        ]
    }

    pub(super) fn line(&self) -> String {
        let part = |(name, number): (&str, u64)| format!("{} {number}", name.replace('_', " "));
        self.parts().map(part).join(", ")
    }

    pub(super) fn to_json(&self) -> Value {
        self.parts().into_iter().map(|(name, number)| (name.to_owned(), json!(number))).collect()
    }
}

/// A recipient's message that came up after its audience was cancelled has ended without an attempt, as one that failed and is not retried.
fn outcome(state: State, reason: Option<Reason>) -> State {
    let is_cancelled = state == State::FailedNoRetries && reason == Some(Reason::Cancelled);
    if is_cancelled { State::Cancelled } else { state }
}

struct Reader<'a> {
    target: &'a Target,
    audiences: DynamoAudiences,
    acks: DynamoAcks,
    run: &'a Run,
    now: Timestamp,
}

impl Reader<'_> {
    fn delivery(&self, id: DeliveryId) -> DeliveryKey {
        DeliveryKey { tenant: self.run.key.tenant.clone(), id }
    }

    async fn pages(&self, shard: u8, counts: &mut Outcomes) -> Result<(), PortError> {
        let mut from = Some(0);
        while let Some(first) = from {
            let (pages, next) = self.audiences.pages(&self.run.key, shard, first).await?;
            for (page, members, sheet) in pages {
                let places =
                    (0..members).map(|place| (place, self.delivery(page.position(place).delivery())));
                let (apart, on_page): (Vec<_>, Vec<_>) =
                    places.partition(|(place, _)| sheet.apart.contains(*place));
                on_page.iter().for_each(|(place, _)| counts.add(sheet.state(*place)));
                let apart: Vec<DeliveryKey> = apart.into_iter().map(|(_, key)| key).collect();
                for record in self.target.deliveries().records(&apart).await? {
                    // One that has left its page, and whose message no worker has received yet, has no entry.
                    match record {
                        Some(record) => counts.add_record(&record),
                        None => counts.add(State::Queued),
                    }
                }
                let all = (0..members).map(|place| self.delivery(page.position(place).delivery()));
                counts.acknowledged += self.acks.count(&all.collect::<Vec<_>>(), self.now).await?;
            }
            from = next;
        }
        Ok(())
    }

    async fn members(&self, shard: u8, tag: &Tag, counts: &mut Outcomes) -> Result<(), PortError> {
        let mut after = None;
        loop {
            let tenant = &self.run.key.tenant;
            let members = self.audiences.members(tenant, tag, shard, after.as_ref(), PAGE).await?;
            let id = |member: &SubscriptionId| RecipientRef::new(&self.run.key, member.clone()).id;
            let keys: Vec<DeliveryKey> = members.iter().map(|member| self.delivery(id(member))).collect();
            for record in self.target.deliveries().records(&keys).await?.into_iter().flatten() {
                counts.add_record(&record);
            }
            if members.len() < usize::from(PAGE) {
                return Ok(());
            }
            after = members.last().cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_of_a_cancelled_audience_are_cancelled_and_not_failed() {
        assert_eq!(outcome(State::FailedNoRetries, Some(Reason::Cancelled)), State::Cancelled);
        for reason in [None, Some(Reason::Rejected)] {
            assert_eq!(outcome(State::FailedNoRetries, reason), State::FailedNoRetries);
        }
    }

    #[test]
    fn every_state_is_counted_once() {
        let mut counts = Outcomes::default();
        State::ALL.into_iter().for_each(|state| counts.add(state));
        let numbers: u64 = counts.parts().iter().map(|(_, number)| number).sum();
        assert_eq!(numbers, State::ALL.len() as u64);
        assert_eq!((counts.failed, counts.under_way), (2, 4));
        let line = "sent 2, failed 2, gone 1, expired 1, cancelled 1, under way 4, acknowledged 0";
        assert_eq!(counts.line(), line);
    }
}
