//! The ports in memory, under watch.

use redial_core::ledger::hold::Hold;
use redial_core::ledger::{Ask, Entry, Fence, Record, State};
use redial_core::queue::{Outgoing, Queue};
use redial_core::time::Timestamp;
use redial_engine::ports::{
    Claim, ClaimAnswer, Ledger, Outbox, ParkedItem, ParkedKey, Parking, Partition, PortError, Receipt,
};
use redial_memory::{Memory, Takeover};

use crate::release;
use crate::situations::Situation;
use crate::stage::Stage;
use crate::trace::Trace;
use crate::watch::Watch;
use crate::worker::Worker;

/// The ledger.
#[derive(Clone, Debug)]
pub struct WatchedLedger {
    pub memory: Memory,
    pub watch: Watch,
    pub trace: Trace,
    pub schedule: Worker,
}

impl Ledger for WatchedLedger {
    async fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> Vec<Result<ClaimAnswer, PortError>> {
        let asks: Vec<_> = claims.iter().map(|claim| claim.ask.clone()).collect();
        let carried: Vec<_> = {
            let state = self.memory.state();
            let mut memo = self.watch.memo();
            for claim in &claims {
                memo.finds_nothing(claim, &state);
                memo.is_held(claim, &state);
            }
            asks.iter().map(|ask| memo.claims(ask, state.known(&ask.key).as_ref(), state.now)).collect()
        };
        {
            // A worker that dies before it hears of its claim may still hold it.
            let mut memo = self.watch.memo();
            for ask in &asks {
                memo.granted.insert((ask.key.clone(), ask.lease_token.clone()), ask.turn);
            }
        }
        let answers = self.memory.claim(claims, now).await;
        let is_refused = |answer: &Result<_, PortError>| answer.as_ref().is_err_and(|error| error.throttled);
        if answers.iter().any(is_refused) && answers.iter().any(Result::is_ok) {
            self.watch.saw(Situation::OthersGoOn);
        }
        self.takes_over();
        let at = self.memory.state().now;
        for ((ask, answer), carried) in asks.iter().zip(&answers).zip(carried) {
            self.watch.memo().claimed(ask, answer, carried);
            self.ends(ask, answer);
            let (turn, token) = (ask.turn.attempt.0, &ask.lease_token);
            self.trace.add(
                at,
                &self.schedule.name,
                format_args!("claim {} #{turn} {token}: {answer:?}", ask.key),
            );
            let situation = match answer {
                Ok(ClaimAnswer::Granted { in_doubt: true, .. }) => Situation::CopyTakesOver,
                Ok(ClaimAnswer::HandOffAgain(_)) => Situation::HandOffAgain,
                Ok(ClaimAnswer::Leased { .. }) => Situation::CopyDuringLease,
                Ok(ClaimAnswer::Done) => Situation::CopyAfterEnd,
                Ok(ClaimAnswer::Conflict) => Situation::Conflict,
                Ok(ClaimAnswer::Granted { .. }) | Err(_) => continue,
            };
            self.watch.saw(situation);
        }
        answers
    }

    async fn hold(&self, holds: Vec<Hold>, now: Timestamp) -> Vec<Result<Option<Entry>, PortError>> {
        let asked = holds.clone();
        let answers = self.memory.hold(holds, now).await;
        let mut memo = self.watch.memo();
        for (hold, answer) in asked.iter().zip(&answers) {
            if answer.is_err() {
                memo.unnoted.insert(hold.key.clone());
            }
        }
        answers
    }

    async fn record(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        let asked = records.clone();
        let answers = self.memory.record(records).await;
        self.recorded(&asked, &answers);
        answers
    }

    async fn record_carried(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        let asked = records.clone();
        let answers = self.memory.record_carried(records).await;
        self.recorded(&asked, &answers);
        answers
    }
}

impl WatchedLedger {
    /// No success can be added to the batch of an attempt that another worker has taken over.
    fn takes_over(&self) {
        let takeovers = std::mem::take(&mut self.memory.state().takeovers);
        for Takeover { key, lease_token, is_closed } in takeovers {
            if is_closed {
                self.watch.saw(Situation::BatchClosed);
            } else {
                let what = format!("{key} was taken over while the batch of {lease_token} is open");
                self.watch.memo().violated(what);
            }
        }
    }

    /// A delivery that ends without an attempt ends with its claim.
    fn ends(&self, ask: &Ask, answer: &Result<ClaimAnswer, PortError>) {
        let mut memo = self.watch.memo();
        match answer {
            Ok(ClaimAnswer::Granted { .. }) if ask.state.is_terminal() => {
                memo.ended.insert((ask.key.clone(), ask.state));
            }
            Ok(_) => {}
            Err(_) => {
                memo.shaken.insert(ask.key.clone());
                // Of a page's recipient that was attempted, this would have recorded it.
                memo.unrecorded.insert((ask.key.clone(), ask.lease_token.clone()));
            }
        }
    }

    fn recorded(&self, records: &[Record], answers: &[Result<Fence, PortError>]) {
        let (now, entries): (_, Vec<_>) = {
            let state = self.memory.state();
            let found = |record: &Record| {
                let own = state.ledger.own(&record.key).map(|own| own.state);
                (own, state.ledger.get(&record.key), state.ledger.is_closed(&record.lease_token))
            };
            (state.now, records.iter().map(found).collect())
        };
        let mut memo = self.watch.memo();
        for ((record, answer), (own, entry, is_closed)) in records.iter().zip(answers).zip(entries) {
            let Record { key, state, lease_token: token, .. } = record;
            self.trace.add(
                now,
                &self.schedule.name,
                format_args!("record {key} {} {token}: {answer:?}", state.label()),
            );
            memo.answered(&self.schedule.token(), record, answer);
            if is_closed && *state == State::Sent {
                memo.situations.saw(Situation::BatchFellBack);
            }
            let is_carried = *token != self.schedule.token();
            match answer {
                Ok(Fence::Held) => {
                    if *state == State::Queued {
                        memo.situations.saw(Situation::GivenBack);
                    } else if is_carried {
                        memo.situations.saw(Situation::Carried);
                    }
                    if state.is_terminal() {
                        memo.ended.insert((key.clone(), *state));
                    }
                    let is_another = |it: &&Entry| {
                        it.turn == record.turn && (&it.lease_token, it.state) != (token, *state)
                    };
                    if let Some(other) = entry.as_ref().filter(is_another).filter(|_| state.is_terminal()) {
                        let (state, held, by) = (state.label(), other.state.label(), &other.lease_token);
                        memo.violated(format!(
                            "{key} was recorded as {state} under {token}, and is {held} under {by}"
                        ));
                    }
                    if own != entry.map(|entry| entry.state) {
                        memo.situations.saw(Situation::SentTogether);
                    }
                    if let Some(until) = record.not_before {
                        memo.waits.insert((key.clone(), record.turn.lineage), until);
                    }
                }
                Ok(Fence::Lost) => memo.situations.saw(Situation::FenceLost),
                Err(_) => {
                    memo.shaken.insert(key.clone());
                    memo.unrecorded.insert((key.clone(), token.clone()));
                    memo.situations.saw(Situation::RecordFailed);
                }
            }
        }
    }
}

/// What holds parked messages.
#[derive(Clone, Debug)]
pub struct WatchedParking {
    pub memory: Released,
    pub watch: Watch,
    pub schedule: Worker,
}

impl Parking for WatchedParking {
    async fn put(&self, items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        let asked = items.clone();
        {
            let state = self.memory.memory.state();
            let mut memo = self.watch.memo();
            for item in &items {
                if let Some(former) = state.parked.get(&item.key) {
                    memo.replaces(&former.body, &item.body, state.now);
                }
            }
        }
        let answers = self.memory.put(items).await;
        let state = self.memory.memory.state();
        let mut memo = self.watch.memo();
        for (item, answer) in asked.iter().zip(&answers) {
            if answer.is_ok() {
                memo.parks(&self.schedule.token(), item, state.now);
                memo.can_be_found(item, &state);
                if let Partition::Line(shard) = &item.key.partition {
                    memo.joins(shard, &state);
                }
            }
        }
        answers
    }

    async fn holds_any(&self, partition: Partition) -> Result<bool, PortError> {
        self.memory.holds_any(partition).await
    }

    async fn page(&self, partition: Partition, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        self.memory.page(partition, limit).await
    }

    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        self.watch.memo().leave(&keys, &self.memory.memory.state());
        self.memory.delete(keys).await
    }
}

/// The queues and the parking of one worker, whose release may change.
#[derive(Clone, Debug)]
pub struct Released {
    pub memory: Memory,
    pub stage: Stage,
    pub worker: usize,
}

impl Released {
    fn written(&self, body: String) -> String {
        match &self.stage.scenario.storage.releases {
            Some(releases) if self.stage.is_newer(self.worker) => release::written(body, releases.is_a_kind),
            Some(_) | None => body,
        }
    }
}

impl Outbox for Released {
    fn has_events(&self) -> bool {
        self.memory.has_events()
    }

    async fn send(&self, mut messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        self.stage.watch.memo().are_sent(&messages, self.stage.timeline.now());
        for message in &mut messages {
            if let Queue::Retry(_) = message.queue {
                message.body = self.written(std::mem::take(&mut message.body));
            }
        }
        self.memory.send(messages).await
    }

    async fn come_back_after(&self, receipts: Vec<(Receipt, u32)>) {
        let now = self.stage.timeline.now();
        for (receipt, secs) in &receipts {
            let message_id = receipt.handle.rsplit_once('/').map_or(receipt.handle.as_str(), |(id, _)| id);
            self.stage.watch.memo().comes_back_after(message_id, *secs, now);
        }
        self.memory.come_back_after(receipts).await;
    }
}

impl Parking for Released {
    async fn put(&self, mut items: Vec<ParkedItem>) -> Vec<Result<(), PortError>> {
        for item in &mut items {
            item.body = self.written(std::mem::take(&mut item.body));
        }
        Parking::put(&self.memory, items).await
    }

    async fn holds_any(&self, partition: Partition) -> Result<bool, PortError> {
        self.memory.holds_any(partition).await
    }

    async fn page(&self, partition: Partition, limit: u16) -> Result<Vec<ParkedItem>, PortError> {
        self.memory.page(partition, limit).await
    }

    async fn delete(&self, keys: Vec<ParkedKey>) -> Result<(), PortError> {
        self.memory.delete(keys).await
    }
}
