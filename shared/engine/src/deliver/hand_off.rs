//! Handing off: what each plan asks for. Every effect is idempotent by its key, so that a crash in the middle is mended by doing all
//! of it again.

use super::dead_letters::DeadLetter;
use super::health;
use super::job::Job;
use super::lines::InLine;
use super::planned::{Gone, Planned};
use super::waits::Waiting;
use super::worker::Settings;
use crate::ports::SubscriptionUpdate;
use redial_core::line::{Line, waits_until};
use redial_core::message::Travel;
use redial_core::plan::Plan;
use redial_core::protection::Rank;
use redial_core::protection::patience::lane_of_retry;
use redial_core::queue::{Outgoing, Queue};
use redial_core::quota::Quota;
use redial_core::reason::Reason;
use redial_core::route::{Route, route};
use redial_core::time::Timestamp;

/// What plans ask for, like with like.
#[derive(Default)]
pub(super) struct Effects {
    /// The places of messages for which nothing is left to do.
    pub(super) done: Vec<usize>,
    pub(super) recovered: Vec<(usize, SubscriptionUpdate)>,
    /// Their endpoints are gone, or to be confirmed as gone.
    pub(super) gone: Vec<Gone>,
    /// Messages to audiences, and when each was claimed.
    pub(super) opened: Vec<(Job, Timestamp)>,
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) queued: Vec<(usize, Outgoing)>,
    pub(super) parked: Vec<Waiting>,
    pub(super) lined_up: Vec<InLine>,
}

impl Effects {
    /// `is_shared`: whether a job's failure is everybody's.
    pub(super) fn of(
        ready: Vec<Planned>,
        settings: &Settings,
        now: Timestamp,
        is_shared: impl Fn(&Job) -> bool,
    ) -> Self {
        let mut effects = Self::default();
        for Planned { mut job, plan, facts, at } in ready {
            match plan {
                Plan::Sent => match health::recovery(&job, now) {
                    Some(update) => effects.recovered.push((job.place, update)),
                    None => effects.done.push(job.place),
                },
                Plan::Expired | Plan::Cancelled | Plan::FailedNoRetries(_) => effects.done.push(job.place),
                Plan::Gone { confirmed } => effects.gone.push(Gone { job, confirmed, facts, at }),
                Plan::Expand => effects.opened.push((job, at)),
                Plan::DeadLetter(reason) => {
                    let too_long =
                        (reason == Reason::PayloadTooLarge).then(|| job.too_long(settings)).flatten();
                    let of_quota = (reason == Reason::QuotaExceeded).then(|| Quota::Parked.noun().to_owned());
                    let detail = too_long.map(|too_long| too_long.to_string()).or(of_quota);
                    let failed = DeadLetter::of_failed(&job, reason, &facts, detail, at, now);
                    effects.dead_letters.push(failed.noting(is_shared(&job)));
                }
                Plan::Retry { not_before, reason, .. } => {
                    job.lane = lane_of_retry(job.lane, job.channel, reason, facts.not_sent);
                    let next = Travel::to(job.travel.turn.next_attempt(), job.travel.first_sent);
                    effects.onward(job, next, not_before, now, settings);
                }
                Plan::Defer { not_before } => {
                    // The ledger may hold an outcome of this very message that a crash kept from being handed off.
                    if let Some(line) = job.line() {
                        effects.lined_up.push(in_line(job, line, not_before, now));
                        continue;
                    }
                    let deferred_from = Some(job.source_message.clone());
                    let same = Travel { deferred_from, ..Travel::to(job.travel.turn, job.travel.first_sent) };
                    effects.onward(job, same, not_before, now, settings);
                }
            }
        }
        effects
    }

    fn onward(
        &mut self,
        job: Job,
        travel: Travel,
        not_before: Timestamp,
        now: Timestamp,
        settings: &Settings,
    ) {
        let travel = Travel { not_before: Some(not_before), ..travel };
        let body = job.message.expose_travel_body(&travel, job.deadline, now);
        let tenant = job.message.tenant.clone();
        match route(job.lane, not_before, now, &settings.waits) {
            Route::Queue(delay) => {
                let queue = Queue::Retry(job.lane);
                let outgoing = Outgoing { queue, body, delay, tenant: Some(tenant), attribute: None };
                self.queued.push((job.place, outgoing));
            }
            Route::Park(bucket) => {
                let delivery = job.message.key();
                let Travel { turn, deferred_from, .. } = travel;
                // After an attempt the ledger drops the copies of what comes next.
                let came_before = deferred_from.is_some() && job.receives > 1;
                self.parked.push(Waiting {
                    place: job.place,
                    bucket,
                    delivery,
                    turn,
                    deferred_from,
                    not_before,
                    came_before,
                    body,
                });
            }
        }
    }
}

/// A message that waits in this line, with the travel that it comes back with.
fn in_line(job: Job, line: Line, or_at: Timestamp, now: Timestamp) -> InLine {
    let travel = Travel {
        not_before: Some(now),
        deferred_from: Some(job.source_message.clone()),
        ..Travel::to(job.travel.turn, job.travel.first_sent)
    };
    InLine {
        place: job.place,
        line,
        rank: Rank::of(&job.message),
        until: waits_until(job.deadline, now),
        delivery: job.message.key(),
        turn: travel.turn,
        body: job.message.expose_travel_body(&travel, job.deadline, now),
        in_place_of: job.source_message,
        message_id: job.message_id,
        or_at,
        came_before: job.receives > 1,
    }
}
