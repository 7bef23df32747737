//! What DynamoDB's TTL does: it deletes rows that have expired, late, one by one and in any order.

use redial_core::audience::RunKey;
use redial_core::identity::DeliveryKey;
use redial_core::page::PageKey;
use redial_core::time::Timestamp;

use super::State;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Row {
    Entry(DeliveryKey),
    /// The batch of a lease token.
    Batch(String),
    Run(RunKey),
    /// How far a part of its audience is.
    Part(RunKey, u8),
    /// What became of a page.
    Page(PageKey),
    /// The members of a page.
    Members(PageKey),
    /// What was acknowledged of a recipient of a page.
    Acks(DeliveryKey),
}

impl State {
    /// The rows that have expired and are still there.
    pub fn expired(&self) -> Vec<Row> {
        let is_over = |at: &Timestamp| *at <= self.now;
        let entries = self.ledger.own_entries().filter(|(_, entry)| is_over(&entry.expires_at));
        let batches = self.ledger.batches().filter(|(_, at)| is_over(at));
        let runs = self.runs.iter().filter(|(_, run)| is_over(&run.kept_until));
        let parts = self.part_expiries.iter().filter(|(_, at)| is_over(at));
        let mut rows: Vec<Row> = entries.map(|(key, _)| Row::Entry(key.clone())).collect();
        rows.extend(batches.map(|(token, _)| Row::Batch(token.clone())));
        // A map's order is not the same in two processes.
        rows.sort_by_cached_key(|row| format!("{row:?}"));
        rows.extend(runs.map(|(key, _)| Row::Run(key.clone())));
        rows.extend(parts.map(|((key, shard), _)| Row::Part(key.clone(), *shard)));
        let pages = self.pages.iter().filter(|(_, page)| is_over(&page.lease.kept_until));
        let members = self.page_members.iter().filter(|(_, (_, at, _))| is_over(at));
        rows.extend(pages.map(|(key, _)| Row::Page(key.clone())));
        rows.extend(members.map(|(key, _)| Row::Members(key.clone())));
        let acks = self.acks_apart.iter().filter(|(_, (until, _))| is_over(until));
        rows.extend(acks.map(|(key, _)| Row::Acks(key.clone())));
        rows
    }

    pub fn delete(&mut self, row: &Row) {
        match row {
            Row::Entry(key) => {
                self.ledger.remove(key);
                self.attempts.remove(key);
                self.acknowledged.retain(|(of, _), _| of != key);
            }
            Row::Acks(key) => {
                self.acks_apart.remove(key);
            }
            Row::Batch(token) => self.ledger.remove_batch(token),
            Row::Run(key) => {
                self.runs.remove(key);
            }
            Row::Page(key) => {
                self.pages.remove(key);
            }
            Row::Members(key) => {
                self.page_members.remove(key);
            }
            Row::Part(key, shard) => {
                self.progress.remove(&(key.clone(), *shard));
                self.bounds.remove(&(key.clone(), *shard));
                self.part_expiries.remove(&(key.clone(), *shard));
            }
        }
    }
}
