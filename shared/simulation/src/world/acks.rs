//! Browsers that acknowledge what they received.

use std::time::Duration;

use rand::RngExt;
use rand::seq::IndexedRandom;
use redial_core::ack::AckEvent;
use redial_core::page::Position;
use redial_engine::acks;
use redial_engine::ports::{Acknowledged, Clock, PortError};
use redial_memory as memory;

use super::asked::Report;
use super::{Done, Task, World};
use crate::situations::Situation;
use crate::timeline::Event;

/// How long a report waits for a place. Hundreds may wait for an only worker, and each wait is a step of the scenario.
const NO_PLACE: Duration = Duration::from_secs(15);

impl World {
    /// Browsers that received a push report what their users did with it: at once, late, or twice.
    pub(super) fn browsers_report(&mut self) {
        let tokens = std::mem::take(&mut self.stage.watch.memo().acks.tokens);
        for token in tokens {
            let times = self.stage.rng().random_range(1..=3);
            for _ in 0..times {
                let mut rng = self.stage.rng();
                let event = *AckEvent::ALL.choose(&mut *rng).unwrap_or(&AckEvent::Displayed);
                let is_at_once = rng.random_bool(0.4);
                let later =
                    if is_at_once { rng.random_range(0..100) } else { rng.random_range(0..3_600_000) };
                let is_repeated = rng.random_bool(0.3);
                drop(rng);
                for _ in 0..1 + usize::from(is_repeated) {
                    self.reports.push(Report { token: token.clone(), event, tries: 3 });
                    let at = self.reports.len() - 1;
                    self.stage.timeline.after(Duration::from_millis(later), Event::Report(at));
                    self.planned += 1;
                }
            }
        }
    }

    pub(super) fn report(&mut self, at: usize) {
        let Some(place) = self.free_place() else {
            return self.stage.timeline.after(NO_PLACE, Event::Report(at));
        };
        let Report { token, event, .. } = self.reports[at].clone();
        let ports = self.places[place].ports.clone();
        let token_keys = memory::dispatch_settings().token_keys;
        let Some(token) = token_keys.read_ack(&token, ports.now()) else {
            self.planned -= 1;
            return self.stage.watch.memo().violated(format!("the token of report {at} is refused"));
        };
        let key = token.key();
        let known = self.memory.state().known(&key).map(|entry| entry.state);
        if known.is_some_and(|state| !state.is_terminal()) {
            self.stage.watch.saw(Situation::AckBeforeRecord);
        }
        if Position::of(&key).is_some() {
            let is_apart = self.memory.state().ledger.contains_key(&key);
            self.stage.watch.saw(if is_apart { Situation::AckApart } else { Situation::AckOnPage });
        }
        self.stage.watch.memo().acks.ends.insert(key.clone(), token.expires_at);
        let (id, invocation) = self.begins(place);
        self.stage.watch.memo().api.asked += 1;
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{invocation} hears that {key} was {}", event.label()));
        let future = async move {
            let now = ports.now();
            Done::Acknowledged(acks::take(&ports, &token, event, now).await)
        };
        let task = Task { future: Box::pin(future), worker: place, source: None, messages: Vec::new() };
        self.reporting.insert(id, at);
        self.start(id, task);
    }

    /// A report has no answer: its browser tries again, or gives up.
    pub(super) fn is_unheard(&mut self, id: u64) {
        let Some(at) = self.reporting.remove(&id) else { return };
        self.reports[at].tries -= 1;
        if self.reports[at].tries == 0 {
            self.planned -= 1;
        } else {
            self.stage.timeline.after(Duration::from_secs(2), Event::Report(at));
        }
    }

    pub(super) fn acknowledged(&mut self, id: u64, answer: Result<Acknowledged, PortError>) {
        self.trace("api", format_args!("answers {answer:?}"));
        let Ok(answer) = answer else { return self.is_unheard(id) };
        let Some(at) = self.reporting.remove(&id) else { return };
        self.planned -= 1;
        let Report { token, event, .. } = &self.reports[at];
        let now = self.now();
        let Some(token) = memory::dispatch_settings().token_keys.read_ack(token, now) else { return };
        let key = token.key();
        let mut memo = self.stage.watch.memo();
        match answer {
            Acknowledged::First => {
                if !memo.acks.first.insert((key.clone(), *event)) {
                    memo.violated(format!("{key} was {} for the first time twice", event.label()));
                }
                memo.acks.answered.insert((key, *event));
            }
            Acknowledged::Again => {
                memo.situations.saw(Situation::AckRepeated);
                memo.acks.answered.insert((key, *event));
            }
            Acknowledged::Unknown => {
                memo.violated(format!("{key} was received, and its acknowledgement unknown"))
            }
        }
    }
}
