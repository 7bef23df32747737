//! Producers that send through the HTTP API, and send again what was not answered.

use std::time::Duration;

use rand::RngExt;
use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_engine::http_api::{self, Answer};
use redial_engine::ports::Clock;
use redial_memory as memory;
use serde_json::json;

use super::asked::{Item, Request};
use super::{Done, FUNCTION_TIMEOUT, Task, World};
use crate::scenario::api::Besides;
use crate::scenario::messages::Sending;
use crate::situations::Situation;
use crate::timeline::Event;

impl World {
    /// Sends a message through the API: the same text each time.
    pub(super) fn request(&mut self, at: usize) {
        let Some(place) = self.free_place() else {
            return self.stage.timeline.after(Duration::from_secs(1), Event::Request(at));
        };
        let sending = self.stage.scenario.sendings[at].clone();
        let tenant = Tenant::parse(sending.tenant).expect("invariant: a tenant's name");
        let items = self.texts.get(&at).cloned().unwrap_or_else(|| self.items(at, &sending));
        self.texts.insert(at, items.clone());
        let keys: Vec<Option<DeliveryKey>> = items
            .iter()
            .map(|(sending, _)| sending.as_ref().map(|it| self.promise(it, FUNCTION_TIMEOUT)))
            .collect();
        let had = {
            let state = self.memory.state();
            keys.iter().map(|key| key.as_ref().is_some_and(|key| state.ledger.contains_key(key))).collect()
        };
        let (id, token) = self.begins(place);
        self.stage.watch.memo().api.asked += 1;
        let name = self.places[place].schedule.name.clone();
        self.trace(&name, format_args!("{token} is asked by a producer for {at}: {} items", items.len()));
        let ports = self.places[place].ports.clone();
        let texts: Vec<String> = items.iter().map(|(_, text)| text.clone()).collect();
        let future = async move {
            let (now, hash_keys) = (ports.now(), memory::dispatch_settings().hash_keys);
            let made = DeliveryId::parse("made").expect("invariant: an id");
            let mut accepted = Vec::new();
            let refused: Vec<bool> = texts
                .iter()
                .map(|text| {
                    let read = http_api::accept(text, &tenant, &made, None, &hash_keys, now);
                    read.map(|message| accepted.push(message)).is_err()
                })
                .collect();
            let mut entered = http_api::enter(&ports, &ports, &accepted, now).await.into_iter();
            Done::Entered(
                refused.into_iter().map(|refused| (!refused).then(|| entered.next()).flatten()).collect(),
            )
        };
        let request = Request { at, items, had };
        let task = Task { future: Box::pin(future), worker: place, source: None, messages: Vec::new() };
        self.requests.insert(id, request);
        self.start(id, task);
    }

    fn items(&self, at: usize, sending: &Sending) -> Vec<Item> {
        let own = (Some(sending.clone()), self.message(sending).to_string());
        let besides = self.stage.scenario.by_api.get(&at).copied().unwrap_or(Besides::Nothing);
        let other = match besides {
            Besides::Nothing => return vec![own],
            Besides::Itself => own.clone(),
            Besides::AnotherContent => {
                let other = Sending { content: sending.content + 10, ..sending.clone() };
                let text = self.message(&other).to_string();
                (Some(other), text)
            }
            Besides::Nonsense => {
                let mut nonsense = self.message(sending);
                nonsense["tenant"] = json!(if sending.tenant == "acme" { "globex" } else { "acme" });
                nonsense["payload"] = json!("acme/nonsense/0");
                (None, nonsense.to_string())
            }
        };
        vec![own, other]
    }

    /// A request has no answer: the producer sends it again.
    pub(super) fn is_unanswered(&mut self, id: u64) {
        let Some(request) = self.requests.remove(&id) else { return };
        self.stage.watch.saw(Situation::RequestUnanswered);
        request.items.iter().filter_map(|(sending, _)| sending.as_ref()).for_each(|it| self.may_be_taken(it));
        self.asks_again(request.at);
    }

    fn asks_again(&self, at: usize) {
        let later = Duration::from_millis(self.stage.rng().random_range(500..60_000));
        self.stage.timeline.after(later, Event::Request(at));
    }

    /// What the API answers, item by item: `None` for what it takes for no message.
    pub(super) fn answers(&mut self, id: u64, answers: Vec<Option<Answer>>) {
        let Some(Request { at, items, had }) = self.requests.remove(&id) else { return };
        let mut is_over = true;
        for (nth, ((sending, _), answer)) in items.iter().zip(answers).enumerate() {
            self.trace("api", format_args!("answers {answer:?} to item {nth} of {at}"));
            let Some(sending) = sending else {
                if answer.is_some() {
                    self.stage.watch.memo().violated(format!("the API took nonsense of request {at}"));
                }
                continue;
            };
            match answer {
                None => {
                    self.stage.watch.memo().violated(format!("the API refused the message {}", sending.id))
                }
                Some(Answer::Failed(_)) => {
                    self.may_be_taken(sending);
                    is_over = false;
                }
                Some(Answer::Taken { duplicate, .. }) => self.taken(sending, had[nth], duplicate),
                Some(Answer::Conflict) => self.refused(sending),
            }
        }
        if self.stage.strikes(self.stage.scenario.faults.lost) {
            // The answer never arrives.
            self.stage.watch.saw(Situation::AnswerLost);
            is_over = false;
        }
        if is_over {
            self.planned -= 1;
            self.texts.remove(&at);
        } else {
            self.asks_again(at);
        }
    }

    /// An answer that is on its way is a promise, whether it arrives or not.
    fn taken(&mut self, sending: &Sending, had: bool, duplicate: bool) {
        let key = super::producers::delivery(sending.tenant, &sending.id);
        let mut memo = self.stage.watch.memo();
        // It is known from the first answer on.
        if let Some(entry) = self.memory.state().ledger.get(&key) {
            memo.is_tagged(&entry);
        }
        if had && !duplicate {
            memo.violated(format!("{key} was there, and the API did not call it a duplicate"));
        }
        if !duplicate && !memo.api.new.insert(key.clone()) {
            memo.violated(format!("{key} was new to the API twice"));
        }
        let taken = memo.api.taken.entry(key.clone()).or_default();
        let is_first = taken.insert((sending.content, sending.by_address));
        if duplicate {
            memo.situations.saw(Situation::DuplicateAnswered);
        }
        drop(memo);
        if is_first {
            self.accepted.entry(key).or_default().push(sending.clone());
        }
    }

    fn may_be_taken(&self, sending: &Sending) {
        let key = super::producers::delivery(sending.tenant, &sending.id);
        self.stage
            .watch
            .memo()
            .api
            .unanswered
            .entry(key)
            .or_default()
            .insert((sending.content, sending.by_address));
    }

    fn refused(&mut self, sending: &Sending) {
        let key = super::producers::delivery(sending.tenant, &sending.id);
        let mut memo = self.stage.watch.memo();
        memo.situations.saw(Situation::ConflictAnswered);
        memo.api.refused.entry(key).or_default().insert((sending.content, sending.by_address));
    }
}
