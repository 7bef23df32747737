//! Messages to audiences, as releases write and read them, under watch.

use redial_core::audience::{Bounds, Progress, Run, RunKey};
use redial_core::body::Body;
use redial_core::identity::{DeliveryKey, SubscriptionId, Tenant, Turn};
use redial_core::ledger::{self, Given};
use redial_core::page::{PageKey, PageMessage, Places, Sheet};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences, PageClaim, PageLease, PortError};
use redial_memory::Memory;

use crate::release;
use crate::situations::Situation;
use crate::stage::Stage;
use crate::worker::Worker;

/// Messages to audiences, of which a newer release has written some that older ones cannot read: half of the workers run one of those.
#[derive(Clone, Debug)]
pub struct ReleasedRuns {
    pub memory: Memory,
    pub stage: Stage,
    pub worker: usize,
    pub schedule: Worker,
}

impl ReleasedRuns {
    fn stored(&self, run: Run) -> Run {
        let until = self.stage.scenario.audiences.unreadable_until.unwrap_or_default();
        let is_of_newer = run.key.id.as_str().bytes().map(u32::from).sum::<u32>().is_multiple_of(2);
        let is_older = (self.worker as u64).wrapping_add(self.stage.scenario.seed).is_multiple_of(2);
        if self.stage.since_begin() >= until || !is_of_newer || !is_older {
            return run;
        }
        self.stage.watch.saw(Situation::UnreadableRun);
        let body = Body::new(release::written(run.body.expose().to_owned(), false));
        Run { body, ..run }
    }
}

impl Audiences for ReleasedRuns {
    async fn open(&self, runs: Vec<Run>) -> Vec<Result<(), PortError>> {
        self.memory.open(runs).await
    }

    async fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> Vec<Result<Option<Run>, PortError>> {
        let loaded = Audiences::load(&self.memory, keys, now).await;
        loaded.into_iter().map(|run| run.map(|run| run.map(|run| self.stored(run)))).collect()
    }

    async fn members(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        shard: u8,
        after: Option<&SubscriptionId>,
        most: u16,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        self.memory.members(tenant, tag, shard, after, most).await
    }

    async fn progress(&self, run: &RunKey, shard: u8) -> Result<Progress, PortError> {
        self.memory.progress(run, shard).await
    }

    async fn bound(
        &self,
        run: &Run,
        shard: u8,
        after: Option<&SubscriptionId>,
        page: &Bounds,
    ) -> Result<Option<Bounds>, PortError> {
        let recorded = self.memory.bound(run, shard, after, page).await?;
        if recorded.as_ref().is_some_and(|recorded| recorded != page) {
            self.stage.watch.saw(Situation::PageReadTwice);
        }
        Ok(recorded)
    }

    async fn advance(&self, run: &Run, shard: u8, from: &Progress, to: &Progress) -> Result<bool, PortError> {
        self.memory.advance(run, shard, from, to).await
    }

    async fn record_page(
        &self,
        run: &Run,
        page: &PageKey,
        members: &[SubscriptionId],
        given: &Given,
    ) -> Result<Vec<SubscriptionId>, PortError> {
        let recorded = self.memory.record_page(run, page, members, given).await?;
        if recorded != members {
            self.stage.watch.saw(Situation::PageReadTwice);
        }
        Ok(recorded)
    }

    async fn claim_page(
        &self,
        page: &PageMessage,
        lease: &PageLease,
        now: Timestamp,
    ) -> Result<PageClaim, PortError> {
        let before = self.memory.state().pages.get(&page.key).map(|stored| stored.lease.token.clone());
        let claimed = self.memory.claim_page(page, lease, now).await;
        self.trace(format_args!("claim page {:?} {}: {claimed:?}", page.key, lease.token));
        let Ok(PageClaim::Granted(sheet)) = &claimed else { return claimed };
        if !sheet.started.is_empty() {
            self.stage.watch.saw(Situation::PageTakenUp);
        }
        if let Some(former) = before.filter(|former| *former != lease.token) {
            let keys: Vec<_> = keys_of(page, sheet.started.and(sheet.open(page))).collect();
            self.stage.watch.memo().takes_page_over(&keys, token_of(lease), invocation_of(&former));
        }
        claimed
    }

    async fn write_sheet(
        &self,
        page: &PageMessage,
        lease: &PageLease,
        sheet: &Sheet,
    ) -> Result<bool, PortError> {
        let token = token_of(lease).to_owned();
        let sent_before = self.memory.state().pages.get(&page.key).map(|stored| stored.sheet.sent);
        let new = sheet.sent.without(sent_before.unwrap_or_default());
        {
            // A worker that dies before it hears of it may have started these.
            let mut memo = self.stage.watch.memo();
            for key in keys_of(page, sheet.started) {
                memo.granted.insert((key, token.clone()), Turn::default());
            }
        }
        let written = self.memory.write_sheet(page, lease, sheet).await;
        self.trace(format_args!("sheet of {:?} by {}: {sheet:?} {written:?}", page.key, lease.token));
        let mut memo = self.stage.watch.memo();
        match &written {
            Ok(true) => memo.ended.extend(keys_of(page, new).map(|key| (key, ledger::State::Sent))),
            Ok(false) => memo.situations.saw(Situation::FenceLost),
            Err(_) => {
                let keys: Vec<_> = keys_of(page, new.and(sheet.started)).collect();
                memo.shaken.extend(keys.iter().cloned());
                memo.unrecorded.extend(keys.into_iter().map(|key| (key, token.clone())));
            }
        }
        if written == Ok(true) && sheet.apart.len() > sheet.settled.len() {
            memo.situations.saw(Situation::LeftItsPage);
        }
        written
    }
}

impl ReleasedRuns {
    fn trace(&self, what: std::fmt::Arguments<'_>) {
        self.stage.trace.add(self.stage.timeline.now(), &self.schedule.name, what);
    }
}

/// The deliveries at these places of a page.
fn keys_of(page: &PageMessage, places: Places) -> impl Iterator<Item = DeliveryKey> {
    let recipients = places.iter().filter_map(|place| page.recipient(place));
    recipients.map(|recipient| DeliveryKey { tenant: page.key.run.tenant.clone(), id: recipient.id })
}

fn token_of(lease: &PageLease) -> &str {
    invocation_of(&lease.token)
}

/// The token of an invocation that a page's lease names.
fn invocation_of(lease_token: &str) -> &str {
    lease_token.split('#').next().unwrap_or_default()
}
