//! What a hostile tenant must not do to those beside it, and what its messages may cost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::identity::{SubscriptionKey, Turn};
use redial_core::ledger;
use redial_core::message::Message;
use redial_core::protection::{Phase, Place};
use redial_core::subscription::State;
use redial_core::time::Timestamp;

use super::remains::Remains;
use crate::address::endpoint;
use crate::neighbours::{Exchange, Neighbours, Tenants};
use crate::posted::Sign;
use crate::situations::Situation;
use crate::watch::Memo;

/// "What one message can cost at most" in infra/docs/protection.md: the seconds from the first POST on, and the most POSTs within them.
const COSTS: [(u64, usize); 2] = [(10, 14), (60, 35)];

/// A worker relies on a state for a second and a half, and an attempt that it admits leaves within a few seconds.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

/// By then workers have reported an attempt, and one of them has looked.
const REPORTED_WITHIN: Duration = Duration::from_secs(12);

/// A breaker judges the attempts of five minutes.
const JUDGED_FOR: Duration = Duration::from_secs(285);

/// This number of attempts of the others, of which this share fails, in hundredths, shows that it is not one tenant's trouble. A breaker
/// takes five of which more than ten fail.
const OTHERS_SHOWN_BY: usize = 20;
const OTHERS_FAIL_PERCENT: usize = 40;

/// A message that finds a limit's slots taken waits behind its own tenant's, and behind one message of each other's.
const SOON: Duration = Duration::from_secs(30);

/// Retries a second of an origin that fails, besides a fifth of its first attempts, and of a subscription whose endpoint fails.
const RETRIES_PER_SECOND: u64 = 10;

/// The window in which they are counted, and by how much slots may be from the attempts that use them.
const WINDOW: Duration = Duration::from_secs(20);
const SLACK: Duration = Duration::from_secs(4);

/// What one worker lets pass of a subscription's retries before it limits them: ten that it sees fail, and the batch that it holds.
const UNSEEN: u64 = 20;

/// The attempts by which it is judged whether an origin is in trouble, and by when its workers know: they report within a second or two, one
/// of them looks, and the others read that within a second and a half. What they admitted before leaves within a few more.
const IN_TROUBLE_FOR: Duration = Duration::from_secs(15);
const BUDGETED_AFTER: Duration = Duration::from_secs(5);
const IN_TROUBLE_PERCENT: usize = 30;

/// Two tenants share their place at one origin in sixteen.
const ORIGINS: usize = 48;
const MOST_SHARED: usize = 16;

impl Memo {
    /// A bucket had no slot.
    pub(crate) fn finds_empty(&mut self, bucket: &str) {
        if self.neighbours.tenants.is_none() {
            return;
        }
        if bucket.starts_with("retries#") {
            self.situations.saw(Situation::BudgetMet);
        } else if bucket.starts_with("endpoint#") {
            self.situations.saw(Situation::RateMet);
        }
    }

    /// A message that goes on without an attempt.
    pub(crate) fn holds_back(&mut self, message: &Message, turn: Turn, now: Timestamp) {
        let Some(tenants) = &self.neighbours.tenants else { return };
        let key = message.key();
        let Some(id) = message.to.subscription().cloned() else { return };
        let subscription = SubscriptionKey { tenant: key.tenant.clone(), id };
        let Some(origin) = tenants.origins.get(&subscription) else { return };
        if key.tenant == tenants.foe {
            let past = self.origins.of.get(origin);
            if past.is_some_and(|past| past.open_for_one_since(now).is_some()) {
                self.situations.saw(Situation::HeldAlone);
            }
            return;
        }
        if tenants.shares_place(&key.tenant, origin) {
            self.situations.saw(Situation::PlaceShared);
            return;
        }
        let is_calm = tenants.is_calm && tenants.others_are_well && !tenants.is_limited;
        if is_calm && turn == Turn::default() {
            let (foe, origin) = (tenants.foe.clone(), origin.as_str().to_owned());
            self.violated(format!("{key} was held back at {origin}, where {foe} alone is in trouble"));
        }
    }

    /// A POST where a hostile tenant is one of several.
    pub(crate) fn posts_beside(&mut self, exchange: Exchange) {
        let Some(tenants) = self.neighbours.tenants.clone() else { return };
        if tenants.is_calm {
            self.costs_little(&exchange);
            if exchange.key.tenant == tenants.foe {
                self.is_stopped(&exchange, &tenants);
            } else {
                self.is_one_of_many(&exchange, &tenants);
                self.is_soon(&exchange, &tenants);
            }
        }
        self.neighbours.posts.push(exchange);
    }

    /// What one message costs.
    fn costs_little(&mut self, exchange: &Exchange) {
        let attempts = self.neighbours.attempts.entry(exchange.key.clone()).or_default();
        attempts.entry(exchange.turn).or_insert(exchange.at);
        let Some(first) = attempts.values().min().copied() else { return };
        let within =
            |secs| attempts.values().filter(|at| at.since(first) < Duration::from_secs(secs)).count();
        let most = COSTS.into_iter().find(|(secs, most)| within(*secs) > *most);
        if let Some((secs, most)) = most {
            self.violated(format!("{} was posted more than {most} times within {secs} s", exchange.key));
        }
    }

    /// The tenant whose messages fail is held back where the others' do not.
    fn is_stopped(&mut self, exchange: &Exchange, tenants: &Tenants) {
        let origin = exchange.endpoint.origin();
        let past = self.origins.of.get(&origin);
        let since = past.and_then(|past| past.open_for_one_since(exchange.at));
        if since.is_some_and(|since| since.plus(FOLLOWED_WITHIN) < exchange.at) && tenants.others_are_well {
            let (key, origin) = (&exchange.key, origin.as_str());
            self.violated(format!("{key} was posted to {origin}, which is open for its tenant"));
        }
    }

    /// A first attempt of another tenant's leaves soon after it was sent, unless no worker was free for it or for one that it waited behind.
    fn is_soon(&mut self, exchange: &Exchange, tenants: &Tenants) {
        let Exchange { at, key, turn, endpoint, .. } = exchange;
        let Some(sent) = self.promises.get(key).map(|promise| promise.from) else { return };
        let is_first = *turn == Turn::default() && tenants.others_are_well;
        let late = at.since(sent);
        if !is_first || late <= SOON || tenants.shares_place(&key.tenant, &endpoint.origin()) {
            return;
        }
        let caught_up = self.neighbours.caught_up.entry(key.tenant.clone()).or_default();
        if self.punctual.starved_at >= sent {
            *caught_up = *at;
        } else if *caught_up < sent {
            self.violated(format!("{key} was posted {late:?} after it was sent, beside {}", tenants.foe));
        }
    }

    /// Where others fail, too, a breaker holds back everyone.
    fn is_one_of_many(&mut self, exchange: &Exchange, tenants: &Tenants) {
        let origin = exchange.endpoint.origin();
        let Some(past) = self.origins.of.get(&origin).filter(|past| past.is_for_one_tenant()) else { return };
        let now = exchange.at;
        if matches!(past.phase(now), Phase::Closed | Phase::Ramping { .. })
            || tenants.shares_place(&exchange.key.tenant, &origin)
        {
            return;
        }
        let moved = past.moved.map_or(Timestamp::default(), |at| at.plus(REPORTED_WITHIN));
        let from = now.minus(JUDGED_FOR).max(moved);
        let foe = Place::of(&origin, &tenants.foe);
        let others = past.posted(from, now.minus(REPORTED_WITHIN)).filter(|it| it.whose.tenant() != foe);
        let others: Vec<Sign> = others.map(|it| it.sign).collect();
        let failed = others.iter().filter(|sign| **sign == Sign::Fails).count();
        self.situations.saw(Situation::SentBeside);
        if others.len() >= OTHERS_SHOWN_BY && failed * 100 > others.len() * OTHERS_FAIL_PERCENT {
            let (key, origin, all) = (&exchange.key, origin.as_str(), others.len());
            self.violated(format!(
                "{key} was posted to {origin}, where {failed} of {all} others failed, and one tenant alone is held back"
            ));
        }
    }
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let Some(tenants) = memo.neighbours.tenants.clone() else { return };
    same_ids(remains, memo);
    places(&tenants, memo);
    subscriptions(remains, &tenants, memo);
    if tenants.is_calm {
        ends(remains, &tenants, memo);
        let Neighbours { posts, .. } = &memo.neighbours;
        let violations = [rates(posts, tenants.workers), budgets(posts, &tenants)].concat();
        violations.into_iter().for_each(|violation| memo.violated(violation));
    }
}

fn same_ids(remains: &Remains<'_>, memo: &mut Memo) {
    let mut tenants: BTreeMap<&str, usize> = BTreeMap::new();
    remains.accepted.keys().for_each(|key| *tenants.entry(key.id.as_str()).or_default() += 1);
    if tenants.values().any(|count| *count > 1) {
        memo.situations.saw(Situation::SameId);
    }
}

/// Whom a tenant shares its place with differs from origin to origin.
fn places(tenants: &Tenants, memo: &mut Memo) {
    let others: BTreeSet<_> = tenants.origins.keys().map(|key| &key.tenant).collect();
    for other in others.into_iter().filter(|other| **other != tenants.foe) {
        let origin =
            |n: usize| Origin::parse(&format!("https://o{n}.example")).expect("invariant: an origin");
        let shared = (0..ORIGINS).filter(|n| tenants.shares_place(other, &origin(*n))).count();
        if shared > MOST_SHARED {
            let foe = &tenants.foe;
            memo.violated(format!("{foe} and {other} share a place at {shared} of {ORIGINS} origins"));
        }
    }
}

/// Others' subscriptions stay, and what is gone of theirs, or of a tenant's old ones, is removed whatever turns gone beside it.
fn subscriptions(remains: &Remains<'_>, tenants: &Tenants, memo: &mut Memo) {
    let mut gone = BTreeSet::new();
    let mut violations = Vec::new();
    for key in tenants.origins.keys() {
        let is_foe = key.tenant == tenants.foe;
        let address = address_of(key, remains);
        let answers = memo.facts.answers.get(&address).cloned().unwrap_or_default();
        let stored = remains.state.subscriptions.get(key).map(|stored| stored.state);
        if answers.is_gone {
            gone.insert(&key.tenant);
        }
        if !is_foe && !answers.is_gone && answers.not_found.is_empty() && stored != Some(State::Active) {
            violations.push(format!("{key} is {stored:?}, and its endpoint never said that it is gone"));
        }
        let may_stay =
            remains.scenario.foe.as_ref().is_some_and(|foe| is_foe && foe.may_keep(key.id.as_str()));
        if tenants.is_calm && answers.is_gone && !may_stay && stored.is_some() {
            violations.push(format!("{key} is gone, as few of its tenant and age are, and is {stored:?}"));
        }
    }
    if gone.len() > 1 {
        memo.situations.saw(Situation::WavesBeside);
    }
    violations.into_iter().for_each(|violation| memo.violated(violation));
}

fn address_of(key: &SubscriptionKey, remains: &Remains<'_>) -> String {
    let tenant = key.tenant.as_str();
    let foe = remains.scenario.foe.as_ref().filter(|foe| foe.tenant == tenant);
    if let Some(target) = foe.and_then(|foe| foe.targets.iter().find(|it| it.id == key.id.as_str())) {
        return target.address(tenant);
    }
    let number: usize = key.id.as_str()[1..].parse().unwrap_or_default();
    let is_webhook = remains.scenario.receivers.get(number).is_some_and(|it| it.is_webhook);
    endpoint(number, is_webhook, 0, tenant)
}

/// What others send to receivers that accept is sent.
fn ends(remains: &Remains<'_>, tenants: &Tenants, memo: &mut Memo) {
    if !tenants.others_are_well {
        return;
    }
    for (key, sendings) in remains.accepted.iter().filter(|(key, _)| key.tenant != tenants.foe) {
        let receives = |receiver: usize| remains.scenario.receivers[receiver].phases.is_empty();
        let state = remains.state.known(key).map(|entry| entry.state);
        if sendings.iter().all(|it| receives(it.receiver)) && state != Some(ledger::State::Sent) {
            memo.violated(format!("{key} was sent to a receiver that accepts, and stands at {state:?}"));
        }
    }
}

/// Retries to one subscription's endpoint, while they fail.
fn rates(posts: &[Exchange], workers: usize) -> Vec<String> {
    let mut by_endpoint: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    // What goes to an address has no rate besides its origin's budget.
    for post in posts.iter().filter(|it| it.is_by_subscription && it.is_retry() && it.is_in_trouble()) {
        by_endpoint.entry(post.endpoint.expose().as_str()).or_default().push(post.at);
    }
    let most = RETRIES_PER_SECOND * (WINDOW + SLACK).as_secs() + UNSEEN * workers as u64;
    let passed = by_endpoint.iter().find_map(|(address, at)| {
        let is_passed =
            at.iter().zip(at.iter().skip(most as usize)).any(|(one, other)| other.since(*one) < WINDOW);
        is_passed
            .then(|| format!("{address} had more than {most} retries within {WINDOW:?} while they failed"))
    });
    passed.into_iter().collect()
}

/// Retries to an origin, while it is in trouble.
fn budgets(posts: &[Exchange], tenants: &Tenants) -> Vec<String> {
    let mut by_origin: BTreeMap<Origin, Vec<&Exchange>> = BTreeMap::new();
    for post in posts {
        by_origin.entry(post.endpoint.origin()).or_default().push(post);
    }
    by_origin.iter().filter_map(|(origin, posts)| budget(origin, posts, tenants)).collect()
}

fn budget(origin: &Origin, posts: &[&Exchange], tenants: &Tenants) -> Option<String> {
    for (at, first) in posts.iter().enumerate().step_by(20) {
        let (from, until) = (first.at, first.at.plus(WINDOW));
        let before: Vec<_> = posts[..at].iter().filter(|it| it.at.plus(IN_TROUBLE_FOR) >= from).collect();
        let in_window: Vec<_> = posts[at..].iter().take_while(|it| it.at < until).collect();
        let known =
            before.iter().filter(|it| it.at.plus(BUDGETED_AFTER) <= from).copied().collect::<Vec<_>>();
        let is_in_trouble = |posts: &[&&Exchange]| {
            let troubles = posts.iter().filter(|it| it.is_in_trouble()).count();
            posts.len() >= 20 && troubles * 100 > posts.len() * IN_TROUBLE_PERCENT
        };
        if !is_in_trouble(&known) || !is_in_trouble(&in_window) {
            continue;
        }
        let retries = in_window.iter().filter(|it| it.is_retry()).count() as u64;
        let firsts = before.iter().chain(&in_window).filter(|it| !it.is_retry()).count() as u64;
        let most =
            firsts / 5 + RETRIES_PER_SECOND * (WINDOW + SLACK).as_secs() + UNSEEN * tenants.workers as u64;
        if retries > most {
            let origin = origin.as_str();
            return Some(format!("{origin} had {retries} retries within {WINDOW:?}, and a budget of {most}"));
        }
    }
    None
}
