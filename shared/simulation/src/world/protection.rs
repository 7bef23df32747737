//! Looks after the origins of a stream.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::endpoint::{Endpoint, Origin};
use redial_core::protection::{Circuit, Phase};
use redial_core::time::Timestamp;

use super::{LOOKS_EVERY, World};
use crate::address::endpoint;
use crate::origins::Past;
use crate::posted::Sign;
use crate::scenario::TENANTS;
use crate::scenario::focus::Focus;
use crate::scenario::messages::Sending;
use crate::scenario::receivers::Behaviour;
use crate::situations::Situation;
use crate::timeline::Event;
use crate::watch::Memo;

/// How much of a stream has to be under way after an origin's recovery.
const TRAFFIC: usize = 12;

/// Of so few receivers one decides on their service.
const FEW: usize = 4;

/// The longest pause in it.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// What a worker may remember of an origin, or of a recipient that it doubts, and of the limits there, as text (two windows for each, of
/// 10 and 30 buckets, and whose attempts those were), and of one recipient besides that it is about to forget.
const MOST_REMEMBERED: usize = 22_000;

/// What it may remember of how its last pushes fared: 64 of each of six groups, which are two tenants' and all, under two keys.
const MOST_OF_PEERS: usize = 6 * 64 * 100;

/// A worker doubts a recipient of which it saw this number of attempts go wrong.
const DOUBTED_FROM: usize = 10;

/// What may be stored of an origin: the two windows of its state, and whose attempts those were.
const MOST_STORED: usize = 4_000;

impl World {
    pub(super) fn origin(&self, receiver: usize) -> Origin {
        let is_webhook = self.stage.scenario.receivers[receiver].is_webhook;
        let address = endpoint(receiver, is_webhook, self.incarnations[receiver], TENANTS[0]);
        Endpoint::parse(&address).expect("invariant: an HTTPS address").origin()
    }

    /// Follows what workers wrote of origins.
    pub(super) fn follow_origins(&mut self, by_hand: bool) {
        let Some(stream) = &self.stage.scenario.stream else { return };
        let now = self.now();
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        for (origin, stored) in &state.origins {
            let past = memo.origins.of.entry(origin.clone()).or_default();
            let was_for_one = past.open_for_one_since(now).is_some();
            let was_half_open = past.half_open.is_some();
            past.is_of_a_crowd = self.stage.scenario.crowd.is_some();
            let wrong = past.follow(stored.version, &stored.state, by_hand, stream.is_calm, now);
            let is_for_all = was_for_one && !past.is_for_one_tenant();
            let is_outvoted = was_half_open && past.outvotes(now);
            if is_for_all && matches!(past.phase(now), Phase::Open { .. }) {
                memo.situations.saw(Situation::HeldTogether);
            }
            if is_outvoted {
                memo.situations.saw(Situation::Outvoted);
            }
            for what in wrong {
                memo.violated(format!("the breaker of {} {what}", origin.as_str()));
            }
        }
    }

    /// Follows what workers wrote of single recipients.
    pub(super) fn follow_recipients(&mut self) {
        let Some(crowd) = &self.stage.scenario.crowd else { return };
        let now = self.now();
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        for (recipient, stored) in &state.recipients {
            let is_calm = self.stage.scenario.is_calm_stream();
            let past = memo.origins.recipients.entry(recipient.clone()).or_default();
            past.is_of_a_crowd = true;
            let before = past.moved;
            let wrong = past.follow(stored.version, &stored.state, false, is_calm, now);
            if past.moved != before {
                let phase = past.phase(now);
                memo.recipient_moves(recipient, phase, crowd.all_fail_together() && is_calm, now);
            }
            for what in wrong {
                memo.violated(format!("the breaker of {recipient} {what}"));
            }
        }
    }

    /// Whether breakers of origins that are well again close.
    pub(super) fn look_after_origins(&mut self) {
        self.follow_origins(false);
        let Some(stream) = &self.stage.scenario.stream else { return };
        if self.stage.since_begin() > stream.until {
            return;
        }
        self.stage.timeline.after(LOOKS_EVERY, Event::Look);
        let only_deaths = self.stage.scenario.focus == Some(Focus::DyingProbes);
        if only_deaths && !self.stage.has_faults() {
            // Workers that died have left probes without an answer.
            self.are_tried();
        }
        if !stream.is_calm || self.stage.scenario.foe.is_some() {
            return;
        }
        self.look_after_recipients();
        self.are_tried();
        let origins: Vec<Origin> = (0..self.incarnations.len()).map(|at| self.origin(at)).collect();
        for origin in &origins {
            let Some(traffic) = self.traffic_since(origin, &origins) else { continue };
            let now = self.now();
            let Some(well) = self.well_since(origin, &origins) else { continue };
            self.stage.watch.memo().recovers(origin, well.max(traffic), &self.stage.scenario, now);
        }
    }

    /// Whether half-open breakers are tried while messages come.
    fn are_tried(&self) {
        let origins: Vec<Origin> = (0..self.incarnations.len()).map(|at| self.origin(at)).collect();
        for origin in &origins {
            let Some(traffic) = self.traffic_since(origin, &origins) else { continue };
            // A worker that dies hides what it holds for minutes.
            let dead = self.stage.scenario.faults.death > 0.0;
            let calm = if dead { self.stage.begin.plus(self.stage.scenario.faults_end) } else { traffic };
            self.stage.watch.memo().is_tried(origin, traffic.max(calm), &self.stage.scenario, self.now());
        }
    }

    /// What workers and the shared state remember stays small, however long a stream is.
    pub(super) fn look_at_sizes(&self) {
        if self.stage.scenario.stream.is_none() {
            return;
        }
        let mut memo = self.stage.watch.memo();
        // A hostile tenant has more, and each of its subscriptions a rate.
        let of_foe = if self.stage.scenario.foe.is_some() { 3 } else { 1 };
        let most = MOST_REMEMBERED * (self.circuits(&memo) + 1).max(3) * of_foe + MOST_OF_PEERS;
        for place in &self.places {
            let bytes = format!("{:?}", place.dispatch.guard).len();
            if bytes > most {
                memo.violated(format!("{} remembers {bytes} bytes of origins", place.schedule.name));
            }
        }
        for (origin, stored) in &self.memory.state().origins {
            let bytes = serde_json::to_string(&stored.state).map_or(0, |text| text.len());
            if bytes > MOST_STORED {
                memo.violated(format!("{bytes} bytes are stored of {}", origin.as_str()));
            }
        }
    }

    /// How many origins, and recipients there, are counted or have a state that all share. A recipient is only while something is wrong
    /// with it alone; its worker remembers it before it has notified the others, and until it has a reason to look again.
    fn circuits(&self, memo: &Memo) -> usize {
        let state = self.memory.state();
        let counted = state.counters.keys().map(|(circuit, _)| circuit.clone());
        let of_origins = state.origins.keys().cloned().map(Circuit::Origin);
        let is_doubted =
            |past: &Past| past.posts.iter().filter(|it| it.sign != Sign::Well).count() >= DOUBTED_FROM;
        let doubted = memo.origins.recipients.iter().filter(|(_, past)| is_doubted(past));
        let of_recipients = state.recipients.keys().chain(doubted.map(|(of, _)| of)).cloned();
        let circuits: BTreeSet<Circuit> = counted.chain(of_origins).chain(of_recipients).collect();
        circuits.len()
    }

    /// Since when all receivers of an origin have accepted.
    fn well_since(&self, origin: &Origin, of: &[Origin]) -> Option<Timestamp> {
        let now = self.stage.since_begin();
        let mut since = Duration::ZERO;
        for (at, receiver) in self.stage.scenario.receivers.iter().enumerate() {
            if of[at] != *origin {
                continue;
            }
            if receiver.at(now) != Behaviour::Accepts {
                return None;
            }
            // One recipient of a few says much of them.
            let lone = self.stage.scenario.crowd.and_then(|crowd| crowd.lone);
            if lone.is_some_and(|lone| now < lone.until) && of.len() < FEW {
                return None;
            }
            let changes = receiver.phases.iter().map(|(from, _)| *from).filter(|from| *from <= now);
            since = since.max(changes.max().unwrap_or_default());
        }
        Some(self.stage.begin.plus(since))
    }

    /// Since when messages have come to an origin without a long pause; `None` if there were few.
    fn traffic_since(&self, origin: &Origin, of: &[Origin]) -> Option<Timestamp> {
        let now = self.stage.since_begin();
        let sendings = self.stage.scenario.sendings.iter();
        let own: Vec<Duration> =
            sendings.filter(|it| it.at <= now && of[it.receiver] == *origin).map(|it| it.at).collect();
        let pauses = own.windows(2).rposition(|pair| pair[1] - pair[0] > LONGEST_PAUSE);
        let of_late = &own[pauses.map_or(0, |at| at + 1)..];
        let is_going_on = of_late.last().is_some_and(|last| now - *last <= LONGEST_PAUSE);
        (is_going_on && of_late.len() >= TRAFFIC).then(|| self.stage.begin.plus(of_late[0]))
    }
    /// Whether the breaker of a recipient that failed alone closes once it is well.
    fn look_after_recipients(&self) {
        let Some(lone) = self.stage.scenario.fails_alone() else { return };
        let (now, since_begin) = (self.now(), self.stage.since_begin());
        let sendings = self.stage.scenario.sendings.iter();
        let is_its = |it: &&Sending| (it.tenant, it.receiver) == (lone.tenant, lone.receiver);
        let own = sendings.filter(is_its).filter(|it| lone.until <= it.at && it.at <= since_begin);
        let own: Vec<Duration> = own.map(|it| it.at).collect();
        if own.len() < TRAFFIC || own.windows(2).any(|pair| pair[1] - pair[0] > LONGEST_PAUSE) {
            return;
        }
        let well = self.stage.begin.plus(own[0]);
        self.stage.watch.memo().recipients_recover(well, &self.stage.scenario, now);
    }
}
