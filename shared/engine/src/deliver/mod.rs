//! The pass over a batch of SQS messages: which of them are acknowledged, and which must come back.
//!
//! It carries out what the pure modules decide and decides nothing itself. The order of effects is what keeps the promise
//! that nothing is lost: an attempt is claimed before it is made, recorded before it is handed off, handed off before its
//! message is acknowledged. Whatever dies in between, the message comes back, and [`redial_core::ledger::claim`] decides from the
//! ledger what is left to do. One case cannot be excluded: where a POST is followed by no record, because its worker dies or the
//! ledger stays out of reach until the invocation ends, it may be sent twice, and is recorded as in doubt.
//!
//! All messages of a batch go through together, so that a batch of ten costs one read of subscriptions, one claim and one
//! record. Outcomes are recorded in waves: as soon as every attempt is over, or, once all have begun, [`LINGER`] after the first one.
//!
//! Only this file knows the order. Each stage takes what the stage before it made, and uses the ports of its worker:
//!
//! | stage | makes of it |
//! |---|---|
//! | `batch` | jobs, releases, parts and pages of audiences, bodies that are no messages |
//! | `resolve` | jobs with their recipients and policies |
//! | `suspects` | jobs that are not held because their subscriptions are suspect |
//! | `record` | outcomes that messages carry, on the ledger |
//! | `job`, `admit` | what the gates and the protection of origins let through |
//! | `erasures` | jobs without those whose subscription was erased |
//! | `quotas` | ends of those that a tenant's quota keeps from waiting |
//! | `holds` | notes on the ledger about those that have to wait, without copies of what is over |
//! | `claim` | attempts that are this worker's |
//! | `attempt` | outcomes and plans |
//! | `record` | plans on the ledger |
//! | `health`, `hand_off` | retries, `waits`, `lines`, `dead_letters`, endpoints that are gone, opened audiences (`expand`) |
//! | `events` | events for producers |
//! | `pages` | of a page: attempts of many recipients, and one sheet of what became of them |
//! | `acknowledgements`, `visibility` | acknowledgements, and messages that come back |

mod acknowledgements;
mod admit;
mod attempt;
mod batch;
mod claim;
mod dead_letters;
mod erasures;
mod events;
mod expand;
mod hand_off;
mod health;
mod holds;
mod job;
mod lines;
mod pages;
mod planned;
mod quotas;
mod rarely;
mod record;
mod resolve;
mod shards;
mod suspects;
mod turns;
mod visibility;
mod waits;
mod worker;

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture as _, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::ports::{Clock, Outbox, PushSender, Randomness, Telemetry, WebhookSender};
use redial_core::gate::Gate;
use redial_core::message::To;
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::protection::Rank;
use redial_core::setback::Setback;

pub use batch::Incoming;
pub use shards::{KnownBuckets, KnownLines, KnownShards};
pub use visibility::return_all;
pub use worker::{CONCURRENCY, Invocation, LINGER, Ports, RESERVE, Settings, Worker, time_for};

use acknowledgements::Acknowledgements;
use attempt::Finished;
use batch::Batch;
use claim::Claimed;
use dead_letters::DeadLetter;
use hand_off::Effects;
use job::Job;
use planned::Planned;
use rarely::rarely;
use turns::{BEGUN_TOGETHER, others_go_on};

/// For how long after its beginning an invocation makes attempts of tenants that have to wait for their own others. After that they come back:
/// a tenant with slow receivers is not to keep a worker for itself.
const FOLLOWED_FOR: Duration = Duration::from_secs(5);

impl<P: Ports> Worker<P> {
    /// Delivers a batch; returns the SQS MessageIds of those that must come back.
    pub async fn deliver(&self, invocation: &Invocation, incoming: Vec<Incoming>) -> Vec<String> {
        let Self { settings, system, telemetry, outbox, .. } = self;
        let read: Vec<_> = incoming.iter().map(Incoming::read).collect();
        let runs = self.load_runs(&read).await;
        let Batch { refused, releases, expansions, pages, jobs, copies, decided: mut all } =
            Batch::sort(&incoming, read, &runs, &settings.hash_keys, telemetry);
        telemetry.count(Metric::Deliveries, jobs.len() as u64);
        let now = system.now();
        let refused = refused.into_iter().map(|refused| DeadLetter::of_refused(refused, now)).collect();
        let (refused, released, expanded, paged, delivered) = futures_util::join!(
            rarely(refused, |refused| self.post(refused)),
            rarely(releases, |releases| self.release_all(invocation, releases)),
            rarely(expansions, |expansions| self.expand_all(invocation, expansions)),
            rarely(pages, |pages| self.send_pages(invocation, pages)),
            self.deliver_all(invocation, jobs),
        );
        all.extend(refused.into_iter().chain(released).chain(expanded).chain(paged).chain(delivered));
        all.share(copies);
        visibility::return_some(outbox, telemetry, &incoming, all, system.now(), system.rng()).await
    }

    async fn deliver_all(&self, invocation: &Invocation, jobs: Vec<Job>) -> Acknowledgements {
        let mut all = Acknowledgements::default();
        let mut jobs = self.guard.in_turn(jobs, |job| (Rank::of(&job.message), &job.message.tenant));
        let follow_until = self.system.now().plus(FOLLOWED_FOR);
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().min(CONCURRENCY));
            let mut following = Vec::new();
            if self.has_time_for(invocation, &jobs) {
                let may_follow = self.system.now() < follow_until;
                all.extend(Box::pin(self.deliver_some(invocation, jobs, may_follow, &mut following)).await);
            } else {
                jobs.iter().for_each(|job| all.comes_back(job.place, Setback::NotAdmitted));
            }
            jobs = rest;
            jobs.append(&mut following);
        }
        all
    }

    /// Whether the longest attempt that these may make ends before the invocation does.
    fn has_time_for(&self, invocation: &Invocation, jobs: &[Job]) -> bool {
        // A push may be sent twice: once more with a new signature.
        let pushed = self.push_sender.attempt_timeout() * 2;
        let posted = self.webhook_sender.attempt_timeout();
        let of = |job: &Job| match job.message.to {
            To::WebPush(_) => pushed,
            To::Webhook(_) | To::Callback(_) => posted,
            // Only handed on.
            To::Audience(_) => Duration::ZERO,
            // Where it leads is not read yet.
            To::Subscription(_) => pushed.max(posted),
        };
        let longest = jobs.iter().map(of).max().unwrap_or_default();
        self.system.now().plus(time_for(longest)) <= invocation.deadline
    }

    /// Delivers these, but for those that are to follow once the others are over.
    async fn deliver_some(
        &self,
        invocation: &Invocation,
        jobs: Vec<Job>,
        may_follow: bool,
        following: &mut Vec<Job>,
    ) -> Acknowledgements {
        let Self { settings, system, telemetry, .. } = self;
        let mut all = Acknowledgements::default();
        let jobs = erasures::without_erased(self.resolve(jobs, &mut all).await, &mut all);
        let (jobs, recorded) = self.record_carried(jobs, &mut all).await;

        let now = system.now();
        let gated = jobs.into_iter().map(|job| {
            let gate = job.gate(settings, now);
            (job, gate)
        });
        let (passed, mut gated): (Vec<_>, Vec<_>) = gated.partition(|(_, gate)| *gate == Gate::Go);
        let early = gated.iter().filter(|(_, gate)| matches!(gate, Gate::Later(_))).count();
        telemetry.count(Metric::Deferred, early as u64);
        let passed = passed.into_iter().map(|(job, _)| job).collect();
        let admitted = self.admit(passed, may_follow).await;
        gated.extend(admitted.gated);
        for (job, at) in admitted.seatless {
            match at {
                None => following.push(job),
                Some(at) => {
                    telemetry.count_with(Metric::Deferred, job.provider(), 1);
                    gated.push((job, Gate::Later(at)));
                }
            }
        }
        self.keep_to_quotas(&mut gated, now).await;
        let mut later = Vec::new();
        let mut claims = Vec::with_capacity(gated.len());
        for (job, gate) in gated {
            match gate {
                Gate::Later(not_before) => {
                    later.push(Planned::without_attempt(job, Plan::Defer { not_before }, false, now));
                }
                // The reads may have been slow: an attempt that would come too late is not even claimed.
                Gate::Go if !self.has_time_for(invocation, std::slice::from_ref(&job)) => {
                    all.comes_back(job.place, Setback::NotAdmitted);
                }
                Gate::Go => claims.push((job, None)),
                Gate::End(plan) => claims.push((job, Some(plan))),
            }
        }
        let (deferred, recorded, delivered) = futures_util::join!(
            rarely(later, |later| self.hold_back(invocation, later)),
            rarely(recorded, |recorded| self.hand_off(recorded)),
            self.claim_and_attempt(invocation, claims),
        );
        all.extend(deferred.into_iter().chain(recorded).chain(delivered));
        all
    }

    async fn claim_and_attempt(
        &self,
        invocation: &Invocation,
        wanted: Vec<(Job, Option<Plan>)>,
    ) -> Acknowledgements {
        let mut all = Acknowledgements::default();
        let Claimed { admitted, ready, conflicts } = Box::pin(self.claim(invocation, wanted, &mut all)).await;
        let (ended, conflicted, attempted) = futures_util::join!(
            rarely(ready, |ready| self.hand_off(ready)),
            rarely(conflicts, |conflicts| self.keep_conflicts(conflicts)),
            self.attempt_all(invocation, admitted),
        );
        all.extend(ended.into_iter().chain(conflicted).chain(attempted));
        all
    }

    /// Claims what the ledger says is over, and does what that leaves to do. An attempt that is granted anyway is given back, because a gate
    /// holds it back.
    async fn claim_over(&self, invocation: &Invocation, over: Vec<Job>) -> Acknowledgements {
        let mut all = Acknowledgements::default();
        let over = over.into_iter().map(|job| (job, None)).collect();
        let Claimed { admitted, ready, conflicts } = self.claim(invocation, over, &mut all).await;
        for (job, _) in admitted {
            all.comes_back(job.place, claim::gives_back(&job, invocation, self.system.now()));
        }
        all.extend(rarely(ready, |ready| self.hand_off(ready)).await);
        all.extend(rarely(conflicts, |conflicts| self.keep_conflicts(conflicts)).await);
        all
    }

    async fn keep_conflicts(&self, conflicts: Vec<Job>) -> Acknowledgements {
        let mut all = Acknowledgements::default();
        let now = self.system.now();
        let conflicts = self.conflicts_to_keep(conflicts, &mut all).await;
        let kept = self.post(conflicts.iter().map(|job| DeadLetter::of_conflict(job, now)).collect()).await;
        all.extend(kept.alone());
        all
    }

    /// Makes all attempts at once, and records and hands off their outcomes in waves.
    async fn attempt_all(&self, invocation: &Invocation, admitted: Vec<(Job, bool)>) -> Acknowledgements {
        let mut all = Acknowledgements::default();
        if admitted.is_empty() {
            return all;
        }
        let mut wave = Vec::with_capacity(admitted.len());
        let mut beginning =
            admitted.into_iter().map(|(job, in_doubt)| self.attempt(invocation, job, in_doubt));
        let mut attempts: FuturesUnordered<_> = beginning.by_ref().take(BEGUN_TOGETHER).collect();
        let mut finishing = FuturesUnordered::new();
        let mut linger: Fuse<Pin<Box<dyn Future<Output = ()> + Send>>> = Fuse::terminated();
        loop {
            let have_begun = beginning.len() == 0;
            if have_begun && !wave.is_empty() && linger.is_terminated() {
                let timer: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(self.system.sleep(LINGER));
                linger = timer.fuse();
            }
            let mut others = if have_begun { Fuse::terminated() } else { others_go_on().fuse() };
            futures_util::select_biased! {
                finished = finishing.select_next_some() => all.extend::<Acknowledgements>(finished),
                finished = attempts.select_next_some() => {
                    wave.push(finished);
                    if have_begun && attempts.is_empty() {
                        linger = Fuse::terminated();
                        finishing.push(self.finish(invocation, std::mem::take(&mut wave)));
                    }
                }
                () = &mut linger => {
                    finishing.push(self.finish(invocation, std::mem::take(&mut wave)));
                }
                () = &mut others => attempts.extend(beginning.by_ref().take(BEGUN_TOGETHER)),
                complete => return all,
            }
        }
    }

    /// Records and hands off a wave, and meanwhile learns what it saw of the origins.
    async fn finish(&self, invocation: &Invocation, wave: Vec<Finished>) -> Acknowledgements {
        self.note_peers(&wave, self.system.now());
        let seen = wave.iter().filter_map(|finished| finished.seen.clone()).collect();
        let recorded = async {
            let mut all = Acknowledgements::default();
            let ready = Box::pin(self.record(&invocation.lease_token, wave, &mut all)).await;
            all.extend(Box::pin(self.hand_off(ready)).await);
            all
        };
        futures_util::join!(recorded, Box::pin(self.learn(seen))).0
    }

    /// Carries out all of these plans, like with like in one batch, and then announces those that are ends.
    async fn hand_off(&self, ready: Vec<Planned>) -> Acknowledgements {
        let mut all = Acknowledgements::default();
        let ends = if self.outbox.has_events() { events::of_ends(&ready) } else { Vec::new() };
        let now = self.system.now();
        let ready = self.count_failures(ready, now, &mut all).await;
        let ready = self.disable(ready, now, &mut all).await;
        let ready = self.announce_verified(ready, &mut all).await;
        let (ready, erased) = self.erased_refs(ready, &mut all).await;
        let mut effects = Effects::of(ready, &self.settings, now, |job| self.is_shared_failure(job, now));
        effects.store_nothing_of(&erased);
        effects.done.into_iter().for_each(|place| all.acknowledged(place));
        let (recovered, gone, opened, dead_letters, queued, parked, lined_up) = futures_util::join!(
            rarely(effects.recovered, |recovered| self.recover(recovered)),
            rarely(effects.gone, |gone| self.hand_off_gone(gone, now)),
            rarely(effects.opened, |opened| self.open(opened)),
            rarely(effects.dead_letters, |dead_letters| self.post(dead_letters)),
            self.send(effects.queued),
            rarely(effects.parked, |parked| self.park(parked)),
            rarely(effects.lined_up, |lined_up| self.line_up(lined_up)),
        );
        for some in [recovered, gone, opened, dead_letters, queued, parked, lined_up] {
            all.extend(some);
        }
        self.announce(ends, &mut all).await;
        all
    }
}
