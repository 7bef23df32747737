//! What receivers answer to a worker's POSTs, and what is noted of these.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rand::RngExt;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryKey, Tenant, Turn};
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::protection::{AtOrigin, Circuit, Whose};
use redial_core::time::Timestamp;
use redial_engine::ports::Limited;
use redial_memory::schedule::{Reply, Schedule as _};
use redial_memory::senders::{answered, answered_with};
use redial_memory::{State, dispatch_settings};

use super::Worker;
use crate::address::{self, ALL, receiver_of};
use crate::neighbours::Exchange;
use crate::payload::{Payload, read_payload};
use crate::posted::{Posted, Sign};
use crate::scenario::receivers::{Behaviour, Hostile, Wait as Asked};
use crate::situations::Situation;
use crate::watch::{Memo, Post};

/// How long the adapters wait for a push service.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// The share of POSTs to a callback that fail while there are faults.
const FAILING_CALLBACKS: f64 = 0.3;

impl Worker {
    /// A POST arrives, or may have: what comes of it, and whether it may be.
    pub(super) fn is_posted(&self, endpoint: &str, payload: &[u8], within: Duration, state: &State) -> Reply {
        if address::is_callback(endpoint) {
            return self.is_called_back(endpoint, payload, within);
        }
        let scenario = &self.stage.scenario;
        let receiver = receiver_of(endpoint).and_then(|at| scenario.receivers.get(at));
        let of_foe = scenario.foe.as_ref().and_then(|foe| foe.target_at(endpoint));
        let of_crowd = scenario.crowd.zip(receiver_of(endpoint)).and_then(|(crowd, at)| {
            let payload = read_payload(payload)?;
            crowd.differs(payload.key.tenant.as_str(), at, self.stage.since_begin())
        });
        let usual = of_foe
            .map(|target| &target.receiver)
            .or(receiver)
            .or_else(|| Some(&scenario.audiences.member_at(endpoint)?.receiver))
            .map_or(Behaviour::Answers(404), |receiver| receiver.at(self.stage.since_begin()));
        if of_crowd.is_some() && endpoint.ends_with(ALL) {
            self.stage.watch.saw(Situation::SharedAddress);
        }
        let behaviour = of_crowd.unwrap_or(usual);
        let reply = self.reply(behaviour).within(within);
        let now = self.stage.timeline.now();
        let token = self.token();
        self.stage.trace.add(now, &self.name, format_args!("POST {endpoint} {token}: {reply:?}"));
        self.stage
            .watch
            .memo()
            .facts
            .answers
            .entry(endpoint.to_owned())
            .or_default()
            .add(status_of(&reply), now);
        if reply.arrives {
            let mut memo = self.stage.watch.memo();
            let before = memo.violations.len();
            match read_payload(payload) {
                Some(Payload { key, content, ack }) => {
                    memo.acks.tokens.extend(ack);
                    memo.takes_a_seat(&key, now, reply.takes, scenario.most_at_once);
                    let is_swallowed = matches!(reply.outcome, Outcome::InDoubt(_));
                    let post =
                        Post { at: now, content, turn: Turn::default(), token: token.clone(), is_swallowed };
                    let member = self.stage.scenario.audiences.member_at(endpoint);
                    let entry = state.ledger.get(&key);
                    let is_stored = member.is_some() || entry.is_some_and(|it| it.subscription.is_some());
                    if is_stored && matches!(status_of(&reply), Some(200..=299)) {
                        memo.facts.answers.entry(endpoint.to_owned()).or_default().verified_at = Some(now);
                    }
                    let own = match member {
                        Some(to) => memo.posts_to_member(post, &key, &to.key(), state),
                        None => {
                            memo.posts(post, &key, state);
                            memo.posts_to(now, &key, endpoint, &token, state);
                            Some(key)
                        }
                    };
                    if let Some(own) = own {
                        self.answers(&mut memo, own, behaviour, &reply);
                    }
                }
                None => memo.violated(format!("an unknown payload went to {endpoint}")),
            }
            for violation in &memo.violations[before..] {
                self.stage.trace.add(now, "broken", format_args!("{violation}"));
            }
        }
        if self.stage.scenario.foe.is_some() {
            self.posts_beside(endpoint, payload, &reply, state);
        }
        if self.stage.scenario.stream.is_some() {
            self.posts_to(endpoint, payload, &reply);
        }
        reply
    }

    /// An event arrives at a tenant's callback.
    fn is_called_back(&self, endpoint: &str, payload: &[u8], within: Duration) -> Reply {
        let behaviour = match self.stage.strikes(FAILING_CALLBACKS) {
            true if self.stage.rng().random_bool(0.5) => Behaviour::Swallows(InDoubt::Reset),
            true => Behaviour::Answers(503),
            false => Behaviour::Accepts,
        };
        let reply = self.reply(behaviour).within(within);
        let (now, token, status) = (self.stage.timeline.now(), self.token(), status_of(&reply));
        self.stage.trace.add(now, &self.name, format_args!("POST {endpoint} {token}: {reply:?}"));
        let mut memo = self.stage.watch.memo();
        memo.facts.answers.entry(endpoint.to_owned()).or_default().add(status, now);
        memo.is_called_back(endpoint, payload, status);
        reply
    }

    /// A POST of a stream: what the breakers and limits of its origin and its recipient say of it.
    fn posts_to(&self, endpoint: &str, payload: &[u8], reply: &Reply) {
        let endpoint = Endpoint::parse(endpoint).expect("invariant: an address that was parsed before");
        let origin = endpoint.origin();
        let now = self.stage.timeline.now();
        let tenant = read_payload(payload).map(|payload| payload.key.tenant);
        let clock = self.clock(now);
        let of_origin = self.knowledge.posts(&origin, tenant.as_ref(), clock);
        let mut memo = self.stage.watch.memo();
        for limited in
            [Some(Limited::Origin(origin.clone())), tenant.clone().map(Limited::Tenant)].into_iter().flatten()
        {
            memo.origins.posts.entry(limited).or_default().push(now);
        }
        let before = memo.violations.len();
        let is_probe = memo.may_be_posted(of_origin);
        let Some(tenant) = tenant else { return };
        let whose = Whose::of(&origin, &tenant, &endpoint);
        let posted = Posted {
            at: now,
            answered: now.plus(reply.takes),
            sign: Sign::of(&reply.outcome),
            whose,
            recipient: hashed(&tenant, &endpoint),
            concerned: true,
            worker: self.number,
            is_probe,
        };
        memo.origins.of.entry(origin.clone()).or_default().notes_post(posted);
        if self.stage.scenario.stream.as_ref().is_some_and(|stream| stream.is_calm) {
            memo.posts_on(&origin, whose, now);
            if self.stage.scenario.crowd.is_some() {
                memo.probes(&origin);
            }
        }
        if self.stage.scenario.crowd.is_some() {
            let recipient = recipient(&tenant, &endpoint);
            let is_probe = memo.may_be_posted(self.knowledge.posts_to(&recipient, clock));
            let past = memo.origins.recipients.entry(recipient.clone()).or_default();
            past.notes_post(Posted { is_probe, ..posted });
            if memo.lone.is_some() {
                let seen = self.knowledge.sees(&recipient, posted.answered, posted.sign);
                memo.posts_to_one_of_many(&recipient, &seen, now);
            }
        }
        for violation in &memo.violations[before..] {
            self.stage.trace.add(now, "broken", format_args!("{violation}"));
        }
    }

    /// A POST where a hostile tenant is one of several.
    fn posts_beside(&self, endpoint: &str, payload: &[u8], reply: &Reply, state: &State) {
        let Some(Payload { key, .. }) = read_payload(payload) else { return };
        let Some(entry) = state.known(&key) else { return };
        let (turn, is_by_subscription) = (entry.turn, entry.subscription.is_some());
        let at = self.stage.timeline.now();
        let endpoint = Endpoint::parse(endpoint).expect("invariant: an address that was parsed before");
        let status = status_of(reply);
        let mut memo = self.stage.watch.memo();
        let before = memo.violations.len();
        memo.posts_beside(Exchange { at, endpoint, key, turn, status, is_by_subscription });
        for violation in &memo.violations[before..] {
            self.stage.trace.add(at, "broken", format_args!("{violation}"));
        }
    }

    /// Notes what a receiver has answered.
    fn answers(&self, memo: &mut Memo, key: DeliveryKey, behaviour: Behaviour, reply: &Reply) {
        let (now, token) = (self.stage.timeline.now(), self.token());
        let status = status_of(reply);
        if matches!(status, Some(200..=299)) {
            memo.facts.accepted.insert(key.clone());
        }
        // A refused signature is made again within the attempt.
        if status == Some(401) {
            memo.unrecorded.insert((key, token));
            return;
        }
        // What comes after the attempt's time-out asks for nothing.
        if reply.outcome.response().is_none() {
            return;
        }
        let until = match behaviour {
            Behaviour::Asks(_, secs) => now.plus(Duration::from_secs(secs.into())),
            Behaviour::Hostile(_, at) => match Hostile::ALL[at].wait {
                Asked::No => return,
                Asked::Secs(secs) => now.plus(Duration::from_secs(secs)),
                Asked::Until(at) => Timestamp::parse_rfc3339(at).unwrap_or_default(),
            },
            Behaviour::Accepts
            | Behaviour::Answers(_)
            | Behaviour::Swallows(_)
            | Behaviour::Unreachable(_)
            | Behaviour::Slow(_)
            | Behaviour::Fickle(_)
            | Behaviour::Flaps(_) => return,
        };
        memo.facts.asked.insert(key, (until, token));
    }

    fn reply(&self, behaviour: Behaviour) -> Reply {
        let at = self.clock(self.stage.timeline.now());
        let takes = self.way();
        let answer = |outcome: Outcome| {
            let mut outcome = outcome;
            if let Outcome::Response(response) = &mut outcome {
                response.at = at;
            }
            Reply { arrives: true, outcome, takes }
        };
        match behaviour {
            Behaviour::Accepts => answer(answered(201)),
            Behaviour::Answers(status) => answer(answered(status)),
            Behaviour::Asks(status, secs) => {
                answer(answered_with(status, &[("retry-after", secs.to_string().as_str())]))
            }
            Behaviour::Swallows(how) => {
                let takes = if how == InDoubt::Timeout { PUSH_TIMEOUT } else { takes };
                Reply { arrives: true, outcome: Outcome::InDoubt(how), takes }
            }
            Behaviour::Unreachable(why) => Reply { arrives: false, outcome: Outcome::NotSent(why), takes },
            Behaviour::Hostile(status, at) => {
                self.stage.watch.saw(Situation::Hostile);
                answer(answered_with(status, Hostile::ALL[at].headers))
            }
            Behaviour::Slow(ms) => Reply { takes: Duration::from_millis(ms), ..answer(answered(201)) },
            Behaviour::Fickle(ms) => {
                let status = [201, 400, 503][self.stage.rng().random_range(0..3)];
                Reply { takes: Duration::from_millis(ms), ..answer(answered(status)) }
            }
            Behaviour::Flaps(rate) => {
                let fails = self.stage.rng().random_bool(rate);
                answer(answered(if fails { 503 } else { 201 }))
            }
        }
    }
}

fn status_of(reply: &Reply) -> Option<u16> {
    reply.outcome.response().map(|response| response.status)
}

/// The breaker of one recipient. No crowd's scenario exchanges the keys of hashes.
fn recipient(tenant: &Tenant, endpoint: &Endpoint) -> Circuit {
    let hash = dispatch_settings().hash_keys.endpoint(endpoint);
    Circuit::Recipient(AtOrigin { origin: endpoint.origin(), tenant: tenant.clone(), endpoint: hash })
}

/// Distinguishes recipients: by other means than the breakers that are judged.
fn hashed(tenant: &Tenant, endpoint: &Endpoint) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tenant.as_str(), endpoint.expose().as_str()).hash(&mut hasher);
    hasher.finish()
}
