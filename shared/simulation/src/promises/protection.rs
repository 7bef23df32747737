//! What protects origins: breakers that open in time and close again, limits that hold in every window.

use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::protection::spread::{Concerned, Spread, Trouble};
use redial_core::protection::{Count, Phase, Whose};
use redial_core::time::Timestamp;

use crate::origins::{Past, SetLimit};
use crate::posted::{Posted, Sign};
use crate::scenario::Scenario;
use crate::watch::Memo;

/// A breaker judges the attempts of five minutes, of which 20 are enough. More than a fifth of failures opens it, and single counts may
/// get lost with their workers: then it is a little more.
const JUDGED_FOR: Duration = Duration::from_secs(285);
const JUDGED_FROM: usize = 30;
const MOST_FAILURES: usize = 40;

/// How long workers keep successes that they have not reported.
const SUCCESSES_KEPT: Duration = Duration::from_secs(300);

/// More than a tenth of the others' fail, too. Single counts may get lost with their workers: then it is a little more.
const SPREAD_PERCENT: u64 = 20;

/// Whose troubles they are is judged by recent attempts: one or two spans of 5 to 150 seconds, each of which ends with 50 attempts.
const SHORTEST_SPAN: Duration = Duration::from_secs(5);
const LONGEST_SPAN: Duration = Duration::from_secs(150);
const ATTEMPTS_OF_A_SPAN: usize = 50;

/// By then workers have reported an attempt, and one of them has looked, whose read may be three seconds old.
const REPORTED_WITHIN: Duration = Duration::from_secs(15);

/// How long a half-open breaker of a healthy origin takes to close, while there is traffic to probe with.
const CLOSES_WITHIN: Duration = Duration::from_secs(120);

/// The same while all traffic is last attempts: the first probe waits for a third of the time that the origin has been out, and each that
/// follows until none has gone for 20 seconds.
const LAST_ATTEMPTS_CLOSE_WITHIN: Duration = Duration::from_secs(300);

/// While messages come, one of them is a probe: a last attempt once none has gone for 20 seconds.
const TRIED_WITHIN: Duration = Duration::from_secs(90);

/// Workers follow a limit within 30 seconds, and attempts that were admitted before are over a little later.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(35);

/// How far slots may be from the attempts that use them: a second ahead, two after a block's end, and the way of a claim.
const SLACK: Duration = Duration::from_secs(4);

/// One slot that was free before, and one that is shared by two windows.
const AT_ONCE: u64 = 2;

impl Memo {
    /// A POST to an origin in a scenario without faults.
    pub fn posts_on(&mut self, origin: &Origin, whose: Whose, now: Timestamp) {
        // Whose trouble it is is judged by seconds, and here by minutes: a hostile tenant's one or two recipients make that a difference.
        if self.neighbours.tenants.is_some() {
            return;
        }
        let Some(past) = self.origins.of.get(origin) else { return };
        if !matches!(past.phase(now), Phase::Closed | Phase::Ramping { .. }) {
            return;
        }
        // Counts start again with each move.
        let from =
            now.minus(JUDGED_FOR).max(past.moved.map_or(Timestamp::default(), |at| at.plus(REPORTED_WITHIN)));
        let mut posted: Vec<Posted> = past.posted(from, now.minus(REPORTED_WITHIN)).collect();
        // What went well before the first failure may be lost with its worker. Otherwise it is reported with it, and counts as long as it.
        // The latest are first.
        let first_failure = posted.iter().rposition(|it| it.sign == Sign::Fails);
        posted.truncate(first_failure.map_or(0, |at| at + 1));
        let failed = posted.iter().filter(|it| it.sign == Sign::Fails).count();
        let reported_late = posted.last().map_or(0, |first| {
            let before = past.posted(first.at.minus(SUCCESSES_KEPT), first.at);
            before.filter(|it| it.sign == Sign::Well).count()
        });
        let most = (posted.len() + reported_late) * MOST_FAILURES / 100;
        if posted.len() >= JUDGED_FROM && failed > most && recently_concerns(whose, past, now) {
            let (origin, all) = (origin.as_str(), posted.len());
            self.violated(format!(
                "{origin} has failed {failed} of {all} attempts, and its breaker is closed"
            ));
        }
    }

    /// Whether nothing tries a half-open breaker, although messages have come since then.
    pub fn is_tried(
        &mut self,
        origin: &Origin,
        traffic_since: Timestamp,
        scenario: &Scenario,
        now: Timestamp,
    ) {
        let Some(past) = self.origins.of.get(origin) else { return };
        // One that holds back a tenant alone waits for that tenant's messages, and limits make probes wait.
        let Some(half_open) = past.half_open.filter(|_| !past.is_for_one_tenant()) else { return };
        let last = past.posts.last().map_or(half_open, |it| it.at);
        // A last attempt is spent on a probe only after a third of the time that the origin has been out.
        let of_last_attempts = scenario.stream.as_ref().is_some_and(|it| it.only_last_attempts);
        let within = TRIED_WITHIN + if of_last_attempts { past.out_for(now) / 3 } else { Duration::ZERO };
        if self.origins.limits.is_empty() && half_open.max(traffic_since).max(last).plus(within) < now {
            let origin = origin.as_str();
            self.violated(format!("{origin} has been half open for {within:?} without a probe"));
        }
    }

    /// Whether an origin that has been well since then, with traffic since then, stays half open for too long.
    pub fn recovers(&mut self, origin: &Origin, well_since: Timestamp, scenario: &Scenario, now: Timestamp) {
        let Some(stream) = &scenario.stream else { return };
        // It is not well while a hostile tenant's receivers are not.
        if scenario.foe.is_some() {
            return;
        }
        let Some(past) = self.origins.of.get(origin) else { return };
        // One that holds back a tenant alone waits for that tenant's messages.
        if past.is_for_one_tenant() {
            return;
        }
        let Some(half_open) = past.half_open else { return };
        let within = match stream.only_last_attempts {
            true => LAST_ATTEMPTS_CLOSE_WITHIN + past.out_for(now) / 3,
            false => CLOSES_WITHIN,
        };
        if half_open.max(well_since).plus(within) < now {
            let origin = origin.as_str();
            self.violated(format!("{origin} is well, and its breaker has been half open for {within:?}"));
        }
    }
}

/// Whether failures are spread so that they concern who posts now, wherever the recent attempts begin and whether or not the last seconds
/// are known.
fn recently_concerns(whose: Whose, past: &Past, now: Timestamp) -> bool {
    let from = now.minus(2 * LONGEST_SPAN).max(past.forgotten);
    [now, now.minus(REPORTED_WITHIN)].into_iter().all(|until| {
        let posted: Vec<Posted> = past.posted(from, until).collect();
        let mut spread = Spread::default();
        posted.iter().enumerate().all(|(at, it)| {
            let failures = u64::from(it.sign == Sign::Fails);
            spread.add(it.whose, Count { attempts: 1, failures, ..Count::default() });
            let (age, count) = (now.since(it.at), at + 1);
            let may_begin = age >= LONGEST_SPAN || (age >= SHORTEST_SPAN && count >= ATTEMPTS_OF_A_SPAN);
            !(may_begin || count == posted.len()) || concerns(whose, &spread)
        })
    })
}

fn concerns(whose: Whose, spread: &Spread) -> bool {
    match spread.concerned(Trouble::Failures, SPREAD_PERCENT) {
        Concerned::Everyone => true,
        Concerned::Tenant(place) => place == whose.tenant(),
        Concerned::Recipients => false,
    }
}

/// Holds all limits against all POSTs.
pub(super) fn judge_limits(scenario: &Scenario, end: Timestamp, memo: &mut Memo) {
    let faults = &scenario.faults;
    // A bucket that cannot be read limits nothing, and slow calls let slots be used late.
    let spares_buckets = faults.refused == 0.0 && faults.lost == 0.0 && faults.slow == 0.0;
    if !spares_buckets
        || faults.hot.is_some()
        || faults.outages.iter().any(|outage| outage.effects.contains(&"lease"))
    {
        return;
    }
    for limit in memo.origins.limits.clone() {
        let SetLimit { limited, rate, from, until } = &limit;
        let (from, until) = (from.plus(FOLLOWED_WITHIN), until.unwrap_or(end));
        let posts: Vec<Timestamp> = memo.origins.posts.get(limited).cloned().unwrap_or_default();
        let posts: Vec<Timestamp> = posts.into_iter().filter(|at| *at >= from && *at < until).collect();
        for secs in [10, 60, 300, 1200] {
            let window = Duration::from_secs(secs);
            let most = (rate.per_second() * (window + SLACK).as_secs_f64()).ceil() as u64 + AT_ONCE;
            let passed = (0..posts.len()).find(|first| {
                let last = first + most as usize;
                posts.get(last).is_some_and(|at| at.since(posts[*first]) < window)
            });
            if passed.is_some() {
                memo.violated(format!("{limited:?} had more than {most} attempts within {secs} s at {rate}"));
                break;
            }
        }
    }
}
