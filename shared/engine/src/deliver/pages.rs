//! Pages of audiences: many recipients by one message ([`redial_core::page`]).
//!
//! A page is claimed, and its places are sent to in waves. Before a wave its sheet names the places that start, and those that leave the
//! page, because they have to wait, or have ended. After it the sheet says who accepted. All other outcomes are recorded in entries of
//! their own before, and from there on these recipients are like any other.
//!
//! A worker that takes a page over sends to no place that was started: each gets an entry as a worker leaves it that dies in its attempt,
//! and a message of its own, which is judged by the ledger. Messages that leave a page are in one place, whichever worker sends them.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::attempt::{self, Finished};
use super::batch;
use super::claim::claim_of;
use super::job::Job;
use super::planned::{Facts, Planned};
use super::worker::{Invocation, LINGER, Ports, Settings, Worker, time_for};
use crate::ports::{
    Audiences, Claim, ClaimAnswer, Clock, Ledger, PageClaim, PageEvent, PageLease, PortError, PushSender,
    SentByPage, Telemetry, WebhookSender,
};
use redial_core::audience::Run;
use redial_core::gate::Gate;
use redial_core::ledger::{Ask, Unrecorded};
use redial_core::message::{Message, Travel};
use redial_core::metric::Metric;
use redial_core::page::{PageMessage, Places, Sheet, source_of};
use redial_core::plan::Plan;
use redial_core::protection::Rank;
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::DelaySeconds;
use redial_core::setback::Setback;
use redial_core::time::Timestamp;

/// The first pause before what was sent is recorded again; each is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How the work on a page ended.
enum Ended {
    /// Nothing is left to do by this message.
    Over,
    /// Something failed of our own infrastructure, and is reported: the page is taken up again.
    Unfinished,
    /// Another worker has it.
    Leased { until: Timestamp },
}

/// A page that this worker has claimed.
struct Held<'a> {
    page: &'a PageMessage,
    run: Run,
    message: Message,
    /// That of each recipient's delivery begins with its run's.
    travel: Travel,
    lease: PageLease,
    sheet: Sheet,
    has_failed: bool,
}

impl Held<'_> {
    fn jobs(&self, places: Places, settings: &Settings) -> Vec<Job> {
        let job = |place| {
            let recipient = self.page.recipient(place)?;
            let source = source_of(&recipient);
            let start = Travel::start(self.travel.first_sent);
            let travel = Travel { deferred_from: Some(source.clone()), ..start };
            let message = self.message.to_recipient(&recipient);
            let job = batch::job(place, message, travel, self.run.lane, source, 1, &settings.hash_keys);
            let (is_cancelled, opened_at) = (self.run.cancelled_at.is_some(), Some(self.run.opened_at));
            Some(Job { is_cancelled, opened_at, is_on_page: true, ..job })
        };
        places.iter().filter_map(job).collect()
    }

    /// The message with which a recipient leaves the page; with the outcome of its attempt, if that could not be recorded.
    fn message_to(&self, job: &Job, unrecorded: Option<Box<Unrecorded>>, now: Timestamp) -> Outgoing {
        let travel = Travel { unrecorded, ..job.travel.clone() };
        Outgoing {
            queue: Queue::Retry(self.run.lane),
            body: job.message.expose_travel_body(&travel, job.deadline, now),
            delay: Default::default(),
            tenant: Some(self.run.key.tenant.clone()),
            attribute: None,
        }
    }
}

impl<P: Ports> Worker<P> {
    /// Sends these pages, one after the other, and tenants in turn.
    pub(super) async fn send_pages(
        &self,
        invocation: &Invocation,
        pages: Vec<(usize, PageMessage)>,
    ) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        for (place, page) in self.guard.in_turn(pages, |(_, page)| (Rank::Last, &page.key.run.tenant)) {
            if !self.has_time_for_a_wave(invocation) {
                acknowledgements.comes_back(place, Setback::NotAdmitted);
                continue;
            }
            match self.send_page(invocation, place, &page).await {
                Ok(Ended::Over) => acknowledgements.acknowledged(place),
                Ok(Ended::Unfinished) => acknowledgements.comes_back(place, Setback::Infrastructure),
                Ok(Ended::Leased { until }) => {
                    // Its copies may be the only ones that are left.
                    acknowledgements.comes_back(place, Setback::Leased { until });
                }
                Err(error) => acknowledgements.failed(place, error, &self.telemetry),
            }
        }
        acknowledgements
    }

    fn has_time_for_a_wave(&self, invocation: &Invocation) -> bool {
        // A push may be sent twice: once more with a new signature.
        let longest = (self.push_sender.attempt_timeout() * 2).max(self.webhook_sender.attempt_timeout());
        self.system.now().plus(time_for(longest)) <= invocation.deadline
    }

    async fn send_page(
        &self,
        invocation: &Invocation,
        place: usize,
        page: &PageMessage,
    ) -> Result<Ended, PortError> {
        // It is kept for longer than its TTL, so that is over.
        let Some(run) = self.run_of(page).await? else { return Ok(Ended::Over) };
        let (message, _, travel) = run.read().ok_or_else(PortError::unreadable_run)?;
        let lease = PageLease {
            // Two copies in one batch are two claims.
            token: format!("{}#{place}", invocation.lease_token),
            until: invocation.deadline.plus(self.settings.lease_margin),
            kept_until: run.kept_until,
        };
        let sheet = match self.audiences.claim_page(page, &lease, self.system.now()).await? {
            PageClaim::Granted(sheet) => sheet,
            PageClaim::Leased { until } => return Ok(Ended::Leased { until }),
        };
        let mut held = Held { page, run, message, travel, lease, sheet, has_failed: false };
        self.take_up(invocation, &mut held).await?;
        if page.apart {
            let open = held.sheet.open(page);
            held.sheet.parts_with(open);
            self.write_sheet(&mut held).await?;
            self.send_apart(&mut held, open).await?;
        }
        let mut is_first = true;
        loop {
            let places = held.sheet.next(page);
            if held.has_failed {
                return Ok(Ended::Unfinished);
            }
            if places.is_empty() {
                if is_first && !page.apart {
                    // A copy of the message of a page that is over: the next copy need not wait for this one's lease.
                    self.write_sheet(&mut held).await?;
                }
                return Ok(Ended::Over);
            }
            if !self.has_time_for_a_wave(invocation) {
                return self.goes_on(held, Duration::ZERO).await;
            }
            if !is_first {
                // It may have been cancelled meanwhile.
                let Some(run) = self.run_of(page).await? else { return Ok(Ended::Over) };
                held.run = run;
            }
            is_first = false;
            if let Some(seats_at) = self.send_wave(invocation, &mut held, places).await? {
                return self.goes_on(held, seats_at.since(self.system.now())).await;
            }
        }
    }

    async fn run_of(&self, page: &PageMessage) -> Result<Option<Run>, PortError> {
        let loaded = self.audiences.load(vec![page.key.run.clone()], self.system.now()).await;
        loaded.into_iter().next().expect("a port answers every item")
    }

    /// Ends the lease, and sends the page's message again for the rest, which is taken up after so long.
    async fn goes_on(&self, mut held: Held<'_>, after: Duration) -> Result<Ended, PortError> {
        held.lease.until = self.system.now();
        self.write_sheet(&mut held).await?;
        let delay = DelaySeconds::floor(after, self.settings.waits.sqs_max_delay);
        self.send_all(vec![Outgoing { delay, ..held.page.outgoing(held.run.lane) }]).await?;
        Ok(Ended::Over)
    }

    /// Writes the sheet under the page's lease, which ends with the last place.
    async fn write_sheet(&self, held: &mut Held<'_>) -> Result<(), PortError> {
        held.sheet.step += 1;
        let Held { page, lease, sheet, .. } = held;
        let is_over = sheet.open(page).is_empty() && sheet.started.is_empty();
        let until = if is_over { self.system.now().min(lease.until) } else { lease.until };
        let lease = PageLease { until, ..lease.clone() };
        if self.audiences.write_sheet(page, &lease, sheet).await? {
            return Ok(());
        }
        // Another worker has taken the page over: what became of these places is its to find out.
        Err(PortError { operation: "write_sheet", code: "FenceLost".to_owned(), throttled: false })
    }

    /// Does what the workers before this one left: of places that they had started, and of those that they had recorded.
    async fn take_up(&self, invocation: &Invocation, held: &mut Held<'_>) -> Result<(), PortError> {
        let started = held.sheet.started;
        if !started.is_empty() {
            let (resolved, others) = self.resolve_some(held, started).await?;
            let now = self.system.now();
            // What a worker leaves that dies in its attempt: the next one that asks takes it over, in doubt.
            // Of an erased recipient none is made: its message is dropped when it comes up.
            let claimed = resolved.iter().chain(&others).filter(|job| !job.is_erased);
            let claims = claimed.map(|job| self.own_claim(job, invocation, now)).collect();
            self.ledger.claim(claims, now).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            held.sheet.parts_with(started);
            self.write_sheet(held).await?;
        }
        let unsettled = held.sheet.unsettled();
        let apart = unsettled.without(held.sheet.sent);
        self.send_apart(held, apart).await?;
        let sent = unsettled.without(held.sheet.apart);
        if sent.is_empty() {
            return Ok(());
        }
        let (resolved, others) = self.resolve_some(held, sent).await?;
        let facts = Facts { attempted: true, ..Facts::default() };
        let at = held.sheet.sent_at.unwrap_or_else(|| self.system.now());
        let planned = |job| Planned { job, plan: Plan::Sent, facts: facts.clone(), at };
        let done = self.hand_off(resolved.into_iter().chain(others).map(planned).collect()).await;
        self.settle(held, done);
        Ok(())
    }

    /// These, with what is stored for them; and those of them of whom that could not be read. An error if it could be read of none.
    async fn resolve_some(&self, held: &Held<'_>, places: Places) -> Result<(Vec<Job>, Vec<Job>), PortError> {
        let mut acknowledgements = Acknowledgements::default();
        let resolved = self.resolve(held.jobs(places, &self.settings), &mut acknowledgements).await;
        let read: Places = resolved.iter().map(|job| job.place).collect();
        if read.is_empty() {
            return Err(PortError { operation: "resolve", code: "Unread".to_owned(), throttled: false });
        }
        Ok((resolved, held.jobs(places.without(read), &self.settings)))
    }

    /// Sends messages to these, which have left the page, of which nothing is known besides.
    async fn send_apart(&self, held: &mut Held<'_>, places: Places) -> Result<(), PortError> {
        if places.is_empty() {
            return Ok(());
        }
        let now = self.system.now();
        let jobs = held.jobs(places, &self.settings);
        self.send_all(jobs.iter().map(|job| held.message_to(job, None, now)).collect()).await?;
        held.sheet.settled = held.sheet.settled.and(places);
        Ok(())
    }

    /// A claim of an entry of its own, which no batch lists.
    fn own_claim(&self, job: &Job, invocation: &Invocation, lease_until: Timestamp) -> Claim {
        let claim = claim_of(job, None, &self.settings, invocation);
        Claim { ask: Ask { lease_until, ..claim.ask }, place: None, ..claim }
    }

    fn settle(&self, held: &mut Held<'_>, done: Acknowledgements) {
        for (place, acknowledgement) in done {
            match acknowledgement {
                Acknowledgement::Acknowledged | Acknowledgement::AcknowledgedAlone => {
                    held.sheet.settled.insert(place);
                }
                Acknowledgement::ComesBack(_) => held.has_failed = true,
            }
        }
    }

    /// Sends to those of these places that may be sent to now; the others leave the page, but for those that have to wait until others of their
    /// tenant are over. Answers when the page goes on, if all of them have to.
    async fn send_wave(
        &self,
        invocation: &Invocation,
        held: &mut Held<'_>,
        places: Places,
    ) -> Result<Option<Timestamp>, PortError> {
        let (resolved, _) = self.resolve_some(held, places).await?;
        let now = self.system.now();
        let is_open = |job: &Job| job.gate(&self.settings, now) == Gate::Go;
        let passed = resolved.into_iter().filter(is_open).collect();
        let admitted = self.admit(passed, true).await;
        let go = admitted.gated.into_iter().filter(|(_, gate)| *gate == Gate::Go);
        let going: Vec<Job> = go.map(|(job, _)| job).collect();
        if !self.has_time_for_a_wave(invocation) {
            // The reads may have been slow. Nothing was begun of these.
            return Ok(None);
        }
        let following: Places = admitted.seatless.iter().map(|(job, _)| job.place).collect();
        let seats_at = admitted.seatless.iter().filter_map(|(_, at)| *at).min();
        self.telemetry.count(Metric::Deliveries, going.len() as u64);
        let started: Places = going.iter().map(|job| job.place).collect();
        let apart = places.without(started).without(following);
        held.sheet.started = started;
        held.sheet.parts_with(apart);
        self.write_sheet(held).await?;
        if let Err(error) = self.send_apart(held, apart).await {
            self.telemetry.infrastructure(&error);
            held.has_failed = true;
        }
        self.attempt_wave(invocation, held, going).await;
        Ok(seats_at)
    }

    /// Makes all these attempts at once, and records and hands off their outcomes as they come. What it learns of the origins delays
    /// no record.
    async fn attempt_wave(&self, invocation: &Invocation, held: &mut Held<'_>, going: Vec<Job>) {
        let mut attempts: FuturesUnordered<_> =
            going.into_iter().map(|job| self.attempt(invocation, job, false)).collect();
        let mut outcomes = Vec::new();
        let mut learning = FuturesUnordered::new();
        loop {
            while outcomes.is_empty() {
                futures_util::select_biased! {
                    finished = attempts.select_next_some() => outcomes.push(finished),
                    () = learning.select_next_some() => {},
                    complete => return,
                }
            }
            let mut linger = pin!(self.system.sleep(LINGER).fuse());
            while !attempts.is_empty() {
                futures_util::select_biased! {
                    finished = attempts.select_next_some() => outcomes.push(finished),
                    () = linger => break,
                }
            }
            let wave = std::mem::take(&mut outcomes);
            self.note_peers(&wave, self.system.now());
            learning.push(self.learn(wave.iter().filter_map(|finished| finished.seen.clone()).collect()));
            let mut recording = pin!(self.record_and_hand_off(invocation, held, wave).fuse());
            loop {
                futures_util::select_biased! {
                    () = recording => break,
                    finished = attempts.select_next_some() => outcomes.push(finished),
                    () = learning.select_next_some() => {},
                }
            }
        }
    }

    async fn record_and_hand_off(
        &self,
        invocation: &Invocation,
        held: &mut Held<'_>,
        outcomes: Vec<Finished>,
    ) {
        self.log_successes(held, &outcomes);
        let mut sent = Vec::new();
        let mut others = Vec::new();
        // Those with messages of their own.
        let mut leaving: Vec<(Job, Option<Box<Unrecorded>>)> = Vec::new();
        for finished in outcomes {
            match finished.made {
                Ok((Plan::Sent, facts)) => {
                    self.count(&Plan::Sent, finished.job.lane);
                    sent.push((finished.job, facts));
                }
                Ok(_) | Err(Setback::Panicked) => others.push(finished),
                // Nothing was sent.
                Err(_) => leaving.push((finished.job, None)),
            }
        }
        let places = sent.iter().map(|(job, _)| job.place).collect();
        let at = held.sheet.sends(places, self.system.now());
        let planned = |(job, facts)| Planned { job, plan: Plan::Sent, facts, at };
        let mut ready: Vec<Planned> = sent.into_iter().map(planned).collect();
        let recorded = self.record_apart(invocation, held, others, &mut leaving).await;
        held.sheet.parts_with(recorded.iter().map(|planned| planned.job.place).collect());
        held.sheet.parts_with(leaving.iter().map(|(job, _)| job.place).collect());
        ready.extend(recorded);
        if let Err(error) = self.write_as_long_as_possible(invocation, held).await {
            self.telemetry.infrastructure(&error);
            held.has_failed = true;
            return;
        }
        let done = self.hand_off(ready).await;
        self.settle(held, done);
        self.send_leaving(held, leaving).await;
        if held.has_failed
            && let Err(error) = self.write_sheet(held).await
        {
            self.telemetry.infrastructure(&error);
        }
    }

    /// Sends messages of their own to those that leave the page.
    async fn send_leaving(&self, held: &mut Held<'_>, leaving: Vec<(Job, Option<Box<Unrecorded>>)>) {
        if leaving.is_empty() {
            return;
        }
        let now = self.system.now();
        let places: Places = leaving.iter().map(|(job, _)| job.place).collect();
        let messages = leaving.into_iter().map(|(job, unrecorded)| held.message_to(&job, unrecorded, now));
        match self.send_all(messages.collect()).await {
            Ok(()) => held.sheet.settled = held.sheet.settled.and(places),
            Err(error) => {
                self.telemetry.infrastructure(&error);
                held.has_failed = true;
            }
        }
    }

    /// Logs those of these that were sent, in one line.
    fn log_successes(&self, held: &Held<'_>, outcomes: &[Finished]) {
        let sent = |finished: &'_ Finished| matches!(finished.made, Ok((Plan::Sent, _)));
        let logged =
            outcomes.iter().filter(|finished| sent(finished)).map(|Finished { job, made, took, .. }| {
                SentByPage {
                    correlation_id: &job.message.id,
                    place: job.place,
                    endpoint_hash: job.endpoint_hash.as_ref(),
                    channel: job.channel,
                    provider: job.provider(),
                    status_code: made.as_ref().ok().and_then(|(_, facts)| facts.status),
                    took_ms: attempt::ms(*took),
                }
            });
        let sent: Vec<_> = logged.collect();
        if !sent.is_empty() {
            let tags = held.message.tags.to_text();
            let (message, page) = (&held.run.message, &held.page.key);
            let traceparent = held.message.traceparent;
            let event = PageEvent { message, tags: tags.as_deref(), traceparent, page, sent };
            self.telemetry.sent_by_page(&event);
        }
    }

    /// What was sent is known to this worker alone, until it is written.
    async fn write_as_long_as_possible(
        &self,
        invocation: &Invocation,
        held: &mut Held<'_>,
    ) -> Result<(), PortError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let written = self.write_sheet(held).await;
            let is_lost = written.as_ref().is_err_and(|error| error.code == "FenceLost");
            if written.is_ok() || is_lost || invocation.is_ending(self.system.now().plus(pause)) {
                return written;
            }
            self.system.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Records these outcomes in entries of their own; returns those to hand off. Others are left to messages of their own, and those whose
    /// entry could not be made stay started: without it, a message could not say which attempt it is about.
    async fn record_apart(
        &self,
        invocation: &Invocation,
        held: &mut Held<'_>,
        others: Vec<Finished>,
        leaving: &mut Vec<(Job, Option<Box<Unrecorded>>)>,
    ) -> Vec<Planned> {
        if others.is_empty() {
            return Vec::new();
        }
        let token = &invocation.lease_token;
        let now = self.system.now();
        let until = invocation.deadline.plus(self.settings.lease_margin);
        let claims = others.iter().map(|it| self.own_claim(&it.job, invocation, until)).collect();
        let mut granted = Vec::new();
        for (finished, answer) in others.into_iter().zip(self.ledger.claim(claims, now).await) {
            match answer {
                Ok(ClaimAnswer::Granted { .. }) => granted.push(finished),
                // Another worker has taken the page over, and sends its message.
                Ok(_) => leaving.push((finished.job, None)),
                Err(error) => {
                    self.telemetry.infrastructure(&error);
                    held.has_failed = true;
                }
            }
        }
        let jobs: Vec<Job> = granted.iter().map(|finished| finished.job.clone()).collect();
        let mut unrecorded = Acknowledgements::default();
        let recorded = self.record(token, granted, &mut unrecorded).await;
        for (place, acknowledgement) in unrecorded {
            let outcome = if let Acknowledgement::ComesBack(Setback::Unrecorded(outcome)) = acknowledgement {
                Some(outcome)
            } else {
                None
            };
            leaving.extend(jobs.iter().find(|job| job.place == place).map(|job| (job.clone(), outcome)));
        }
        recorded
    }
}
