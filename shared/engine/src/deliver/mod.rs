//! The one pass over the ports: from a batch of SQS messages to the list of those that must come back.
//!
//! It carries out what the pure modules decide and decides nothing itself. The order of effects is what keeps the promise
//! that nothing is lost: an attempt is claimed before it is made, recorded before it is handed off, handed off before its
//! message is acknowledged. Whatever dies in between, the message comes back, and [`redial_core::ledger::claim`] tells from the
//! ledger what is left to do. One case cannot be excluded: where a POST is followed by no record, because its worker dies or the ledger stays out of
//! reach until the invocation ends, it may be sent twice, and is recorded as in doubt.
//!
//! All messages of a batch go through together, so that a batch of ten costs one read of subscriptions, one claim and one
//! record. Outcomes are recorded in waves: as soon as every attempt is over, or [`LINGER`] after the first one.

mod announce;
mod attempt;
mod come_back;
mod expand;
mod fate;
mod gate;
mod hand_off;
mod health;
mod inbox;
mod parking;
mod protect;
mod release;
mod resolve;
mod settle;
mod unrecorded;

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{Fuse, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::ports::{
    Claim, ClaimAnswer, Clock, Environment, Ledger, PushSender, Randomness, Settlement, Telemetry,
    WebhookSender,
};
use redial_core::access::TokenKeys;
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::message::To;
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::route::WaitSettings;
use redial_core::time::Timestamp;

pub use come_back::all_come_back;
pub use fate::{Fate, Setback};
pub use inbox::Incoming;

use hand_off::{Facts, HandOff};
use inbox::{Inbox, Job};

/// How long the first outcome of a batch waits for the others before it is recorded.
pub const LINGER: Duration = Duration::from_millis(100);

/// The most attempts of one batch that are under way together.
pub const CONCURRENCY: usize = 64;

/// What an invocation keeps in reserve for recording and handing off after its last attempt.
pub const RESERVE: Duration = Duration::from_secs(2);

/// The time that an invocation needs for an attempt that takes so long: the wait before it, and what follows it.
pub fn time_for(attempt: Duration) -> Duration {
    attempt + gate::WAITED_OUT_INSIDE + RESERVE
}

/// What the operator has set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How waits are divided.
    pub waits: WaitSettings,
    /// The hosts that may be pushed to.
    pub push_hosts: PushHosts,
    /// Origins that may be pushed to besides: tests' and the local stack's.
    pub egress_allow: Vec<Origin>,
    /// What endpoints are hashed with.
    pub hash_keys: HashKeys,
    /// How long a lease outlives its invocation.
    pub lease_margin: Duration,
    /// What the tokens are made with by which browsers acknowledge.
    pub token_keys: TokenKeys,
    /// How long a webhook's receiver may fail without one success.
    pub switched_off_after: Duration,
}

/// One invocation.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// New for each: what its claims are fenced with.
    pub lease_token: String,
    /// When the function is stopped.
    pub deadline: Timestamp,
}

/// Deals with a batch; answers the SQS MessageIds of those that must come back.
pub async fn deliver<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    batch: Vec<Incoming>,
) -> Vec<String> {
    let read = inbox::read(&batch);
    let runs = expand::runs(env, &read).await;
    let inbox = Inbox::sort(&batch, read, &runs, settings);
    env.telemetry().count(Metric::Deliveries, inbox.jobs.len() as u64);
    let pass = Pass { env, settings, invocation };
    let (refused, released, expanded, delivered) = futures_util::join!(
        settle::refuse(env, inbox.refused),
        release::release_all(env, settings, invocation, inbox.releases),
        expand::expand_all(env, settings, invocation, inbox.expansions),
        pass.deliver_all(inbox.jobs),
    );
    let mut fates: Vec<(usize, Fate)> =
        refused.into_iter().chain(released).chain(expanded).chain(delivered).collect();
    fates.extend(inbox.unread.into_iter().map(|(index, why)| (index, expand::fate_of_unread(env, why))));
    fates.extend(inbox.unreadable.into_iter().map(|index| (index, Fate::ComesBack(Setback::Unreadable))));
    fates.extend(inbox.held_back.iter().map(|index| (*index, Fate::ComesBack(Setback::NotAdmitted))));
    for (follower, leader) in inbox.followers {
        let leaders = fates.iter().find(|(index, _)| *index == leader).map(|(_, fate)| fate);
        fates.push((follower, leaders.map_or(Fate::ComesBack(Setback::NotAdmitted), Fate::of_follower)));
    }
    let (now, rng) = (env.clock().now(), env.randomness().rng());
    come_back::send_back(env.outbox(), env.telemetry(), &batch, fates, now, rng).await
}

struct Pass<'a, E> {
    env: &'a E,
    settings: &'a Settings,
    invocation: &'a Invocation,
}

impl<E: Environment> Pass<'_, E> {
    async fn deliver_all(&self, mut jobs: Vec<Job>) -> Vec<(usize, Fate)> {
        let mut fates = Vec::with_capacity(jobs.len());
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().min(CONCURRENCY));
            if self.has_time_for(&jobs) {
                fates.extend(self.deliver_some(jobs).await);
            } else {
                let not_admitted = |job: Job| (job.index, Fate::ComesBack(Setback::NotAdmitted));
                fates.extend(jobs.into_iter().map(not_admitted));
            }
            jobs = rest;
        }
        fates
    }

    /// Whether the longest attempt that these may make ends before the invocation does.
    fn has_time_for(&self, jobs: &[Job]) -> bool {
        // A push may be sent twice: once more with a new signature.
        let pushed = self.env.sender().attempt_timeout() * 2;
        let posted = self.env.webhooks().attempt_timeout();
        let of = |job: &Job| match job.message.to {
            To::WebPush(_) => pushed,
            To::Webhook(_) => posted,
            // Only handed on.
            To::Audience(_) => Duration::ZERO,
            // Where it leads is not read yet.
            To::Subscription(_) => pushed.max(posted),
        };
        let longest = jobs.iter().map(of).max().unwrap_or_default();
        self.env.clock().now().plus(time_for(longest)) <= self.invocation.deadline
    }

    async fn deliver_some(&self, jobs: Vec<Job>) -> Vec<(usize, Fate)> {
        let mut fates = Vec::with_capacity(jobs.len());
        let (targets, policies) =
            futures_util::join!(resolve::targets(self.env, &jobs), resolve::policies(self.env, &jobs),);
        let jobs = resolve::resolved(self.env, self.settings, jobs, &targets, &policies, &mut fates);
        let unrecorded::Recorded { jobs, ready } =
            unrecorded::record(self.env, self.settings, jobs, &mut fates).await;

        let now = self.env.clock().now();
        let gated = jobs.into_iter().map(|job| {
            let answer = gate::gate(&job, self.settings, now);
            (job, answer)
        });
        let (asking, mut answers): (Vec<_>, Vec<_>) =
            gated.partition(|(_, answer)| *answer == gate::Gate::Go);
        let early = answers.iter().filter(|(_, answer)| matches!(answer, gate::Gate::Later(_))).count();
        self.env.telemetry().count(Metric::Deferred, early as u64);
        let asking = asking.into_iter().map(|(job, _)| job).collect();
        answers.extend(protect::admit(self.env, self.settings, asking).await);
        let mut later = Vec::new();
        let mut claims = Vec::new();
        for (job, answer) in answers {
            match answer {
                gate::Gate::Later(not_before) => later.push(job.deferred(not_before, now)),
                // The reads may have been slow: an attempt that would come too late is not even claimed.
                gate::Gate::Go if !self.has_time_for(std::slice::from_ref(&job)) => {
                    fates.push((job.index, Fate::ComesBack(Setback::NotAdmitted)));
                }
                gate::Gate::Go => claims.push((job, None)),
                gate::Gate::End(plan) => claims.push((job, Some(plan))),
            }
        }
        let (deferred, recorded, delivered) = futures_util::join!(
            hand_off::hand_off(self.env, self.settings, later),
            hand_off::hand_off(self.env, self.settings, ready),
            self.claim(claims),
        );
        fates.extend(deferred.into_iter().map(|(index, fate)| (index, fate.alone())));
        fates.extend(recorded);
        fates.extend(delivered);
        fates
    }

    async fn claim(&self, wanted: Vec<(Job, Option<Plan>)>) -> Vec<(usize, Fate)> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let now = self.env.clock().now();
        let claims = wanted.iter().map(|(job, end)| self.claim_of(job, *end)).collect();
        let answers = self.env.ledger().claim(claims, now).await;

        let mut fates = Vec::with_capacity(wanted.len());
        let mut admitted = Vec::new();
        let mut ready = Vec::new();
        let mut conflicts = Vec::new();
        for ((job, end), answer) in wanted.into_iter().zip(answers) {
            match answer {
                Ok(ClaimAnswer::Granted { in_doubt, at }) => match end {
                    None => admitted.push((job, in_doubt)),
                    Some(plan) => {
                        settle::count(self.env, &plan, job.lane);
                        ready.push(HandOff { job, plan, facts: Facts::without_attempt(), at });
                    }
                },
                Ok(ClaimAnswer::HandOffAgain(entry)) => {
                    ready.push(HandOff::again(job, &entry, &self.settings.hash_keys))
                }
                Ok(ClaimAnswer::Leased { until }) => {
                    fates.push((job.index, Fate::ComesBack(Setback::Leased { until })));
                }
                Ok(ClaimAnswer::Done) => {
                    self.env.telemetry().count(Metric::DuplicatesDropped, 1);
                    fates.push((job.index, Fate::AcknowledgedAlone));
                }
                Ok(ClaimAnswer::Conflict) => conflicts.push(job),
                Err(error) => {
                    self.env.telemetry().infrastructure(&error);
                    // The claim may have been written, its answer lost: what is sent again says that nothing was attempted.
                    let setback = if end.is_some() {
                        Setback::Infrastructure
                    } else {
                        let given_back = settle::given_back(&job, &self.invocation.lease_token, now);
                        Setback::unrecorded(given_back, job.endpoint_hash.as_ref())
                    };
                    fates.push((job.index, Fate::ComesBack(setback)));
                }
            }
        }
        let (ended, conflicted, attempted) = futures_util::join!(
            hand_off::hand_off(self.env, self.settings, ready),
            settle::conflict(self.env, conflicts),
            self.attempt_all(admitted),
        );
        fates.extend(ended);
        fates.extend(conflicted.into_iter().map(|(index, fate)| (index, fate.alone())));
        fates.extend(attempted);
        fates
    }

    fn claim_of(&self, job: &Job, end: Option<Plan>) -> Claim {
        Claim {
            ask: job.ask(self.invocation, self.settings.lease_margin, end),
            endpoint_hash: job.endpoint_hash.clone(),
            channel: job.channel,
            subscription: job.message.to.subscription().cloned(),
            settlement: end.map(|plan| Settlement { state: settle::state_of(&plan), reason: plan.reason() }),
        }
    }

    /// Makes all attempts at once, and settles their outcomes in waves.
    async fn attempt_all(&self, admitted: Vec<(Job, bool)>) -> Vec<(usize, Fate)> {
        if admitted.is_empty() {
            return Vec::new();
        }
        let mut attempts: FuturesUnordered<_> = admitted
            .into_iter()
            .map(|(job, in_doubt)| attempt::attempt(self.env, self.settings, self.invocation, job, in_doubt))
            .collect();
        let mut settling = FuturesUnordered::new();
        let mut fates = Vec::new();
        let mut wave = Vec::new();
        let mut linger: Fuse<Pin<Box<dyn Future<Output = ()> + Send>>> = Fuse::terminated();
        loop {
            futures_util::select_biased! {
                settled = settling.select_next_some() => fates.extend::<Vec<(usize, Fate)>>(settled),
                finished = attempts.select_next_some() => {
                    if wave.is_empty() {
                        let timer: Pin<Box<dyn Future<Output = ()> + Send>> =
                            Box::pin(self.env.clock().sleep(LINGER));
                        linger = timer.fuse();
                    }
                    wave.push(finished);
                    if attempts.is_empty() {
                        linger = Fuse::terminated();
                        settling.push(self.settle(std::mem::take(&mut wave)));
                    }
                }
                () = &mut linger => {
                    settling.push(self.settle(std::mem::take(&mut wave)));
                }
                complete => return fates,
            }
        }
    }

    /// Records and hands off a wave, and meanwhile tells of the origins what it saw.
    async fn settle(&self, wave: Vec<attempt::Finished>) -> Vec<(usize, Fate)> {
        let seen = wave.iter().filter_map(attempt::Finished::seen).collect();
        let (fates, ()) = futures_util::join!(
            settle::settle(self.env, self.settings, wave),
            protect::learn(self.env, self.settings, seen),
        );
        fates
    }
}
