//! The ledger on DynamoDB beside the one in memory, with which the passes and the simulation are tested: the same calls come to the same.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use redial_core::channel::Channel;
use redial_core::distinct::one_by_one;
use redial_core::identity::{IdSource, Lineage, SubscriptionId};
use redial_core::ledger::{Ask, Given, HeldBy, listing};
use redial_core::reason::Reason;
use redial_core::verdict::Verdict;
use redial_engine::ports::{Deliveries, NewDelivery, Settlement};
use redial_memory::Memory;

use super::tests::{self, at, fingerprint};
use super::*;
use crate::deliveries_dynamo::DynamoDeliveries;
use crate::delivery_item::{ATTEMPTS, attribute};
use crate::fake_table::FakeTable;
use crate::fixtures::{self, delivery};
use crate::table::attributes::Read as _;

const DELIVERIES: [&str; 3] = ["a", "b", "c"];

/// A message of a delivery, as a worker receives it.
#[derive(Clone, Debug)]
struct Received {
    delivery: usize,
    /// Of the attempt that the entry is at, or one before or after it.
    attempt: i64,
    is_replay: bool,
    source: u8,
    content: bool,
    is_known: bool,
    end: Option<Settlement>,
}

#[derive(Clone, Debug)]
enum Step {
    Claim(Vec<Received>),
    /// The outcomes of an earlier claim's attempts.
    Record {
        claim: prop::sample::Index,
        outcomes: Vec<Outcome>,
        is_carried: bool,
    },
    Hold(Vec<Received>, HeldBy),
    /// By the HTTP API.
    Insert(Vec<Received>),
    Cancel(usize),
    Pass(Duration),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Outcome {
    Sent,
    /// Sent with a doubt, which no batch lists.
    SentInDoubt,
    Retrying,
    GivenBack,
    Failed,
    NotRecorded,
}

fn received() -> impl Strategy<Value = Received> {
    let end = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Settlement { state: State::Expired, reason: None })),
        1 => Just(Some(Settlement { state: State::Failed, reason: Some(Reason::ServerError) })),
    ];
    let attempt = prop_oneof![4 => Just(0), 3 => Just(1), 1 => Just(-1)];
    (0..DELIVERIES.len(), attempt, prop::bool::weighted(0.2), 0u8..3, any::<bool>(), any::<bool>(), end)
        .prop_map(|(delivery, attempt, is_replay, source, content, is_known, end)| Received {
            delivery,
            attempt,
            is_replay,
            source,
            content,
            is_known,
            end,
        })
}

/// Of different deliveries.
fn wave() -> impl Strategy<Value = Vec<Received>> {
    prop::collection::vec(received(), 1..4).prop_map(|mut wave| {
        wave.sort_by_key(|it| it.delivery);
        wave.dedup_by_key(|it| it.delivery);
        wave
    })
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Sent),
        1 => Just(Outcome::SentInDoubt),
        2 => Just(Outcome::Retrying),
        1 => Just(Outcome::GivenBack),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::NotRecorded),
    ];
    let record =
        (any::<prop::sample::Index>(), prop::collection::vec(outcome, DELIVERIES.len()), any::<bool>());
    let by = prop_oneof![Just(HeldBy::Schedule), Just(HeldBy::Origin)];
    prop_oneof![
        4 => wave().prop_map(Step::Claim),
        4 => record.prop_map(|(claim, outcomes, is_carried)| Step::Record { claim, outcomes, is_carried }),
        1 => (wave(), by).prop_map(|(wave, by)| Step::Hold(wave, by)),
        1 => wave().prop_map(Step::Insert),
        1 => (0..DELIVERIES.len()).prop_map(Step::Cancel),
        2 => (1u64..40).prop_map(|secs| Step::Pass(Duration::from_secs(secs))),
        1 => Just(Step::Pass(Duration::from_secs(40 * 86_400))),
    ]
}

/// Both ledgers, and what was claimed so far.
struct Both {
    memory: Memory,
    table: FakeTable,
    dynamo: DynamoLedger,
    /// With the outcome that was recorded: another call about it repeats that.
    claims: Vec<Vec<(Claim, Outcome)>>,
    now: Timestamp,
}

impl Both {
    fn new() -> Self {
        let table = FakeTable::default();
        let dynamo = DynamoLedger::new(table.client(), "deliveries".to_owned()).recording(true);
        Self { memory: Memory::at(at()), table, dynamo, claims: Vec::new(), now: at() }
    }

    fn deliveries(&self) -> DynamoDeliveries {
        DynamoDeliveries::new(self.table.client(), "deliveries".to_owned())
    }

    fn stored(&self, key: &DeliveryKey) -> Option<Entry> {
        self.memory.state().ledger.get(key).filter(|entry| !entry.is_forgotten(self.now))
    }

    /// The turn of a message, and its content: a retry has that of the attempt before it.
    fn turn(&self, it: &Received) -> (Turn, bool) {
        let stored = self.stored(&delivery(DELIVERIES[it.delivery]));
        let own = stored.as_ref().map(|entry| entry.turn);
        let turn = own.map_or(Turn::default(), |own| Turn {
            lineage: Lineage(own.lineage.0 + u32::from(it.is_replay)),
            attempt: match it.is_replay {
                true => Attempt::FIRST,
                false => Attempt(u32::try_from(i64::from(own.attempt.0) + it.attempt).unwrap_or(0)),
            },
        });
        let is_other = match stored {
            Some(stored) if turn != Turn::default() => stored.fingerprint == fingerprint("another"),
            Some(_) | None => it.content,
        };
        (turn, is_other)
    }

    fn claim_of(&self, it: &Received, place: u32) -> Claim {
        let (turn, is_other) = self.turn(it);
        let ask = Ask {
            key: delivery(DELIVERIES[it.delivery]),
            turn,
            lease_token: format!("invocation-{}", self.claims.len()),
            lease_until: self.now.plus(Duration::from_secs(30)),
            source_message: format!("sqs-{}", it.source),
            fingerprint: fingerprint(if is_other { "another" } else { "content" }),
            id_source: IdSource::Producer,
            state: it.end.map_or(State::Sending, |end| end.state),
        };
        Claim {
            ask,
            channel: Channel::WebPush,
            endpoint_hash: it.is_known.then(|| fixtures::hash_keys().fingerprint(b"endpoint")),
            subscription: SubscriptionId::parse("s1"),
            given: if is_other { Given::default() } else { fixtures::given() },
            place: (place > 0).then_some(place),
            kept_until: None,
            settlement: it.end,
        }
    }

    async fn make(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.now;
        match step {
            Step::Claim(wave) => {
                let claims: Vec<Claim> = (0..).zip(&wave).map(|(at, it)| self.claim_of(it, at)).collect();
                let answers = self.dynamo.claim(claims.clone(), now).await;
                prop_assert_eq!(&answers, &self.memory.claim(claims.clone(), now).await, "{:?}", claims);
                let granted = claims.into_iter().zip(answers);
                let granted = granted.filter(|(_, answer)| matches!(answer, Ok(ClaimAnswer::Granted { .. })));
                let attempted = granted.map(|(claim, _)| claim).filter(|it| it.settlement.is_none());
                self.claims.push(attempted.map(|claim| (claim, Outcome::NotRecorded)).collect());
            }
            Step::Record { claim, outcomes, is_carried } => {
                if self.claims.is_empty() {
                    return Ok(());
                }
                let at = claim.index(self.claims.len());
                let mut records = Vec::new();
                for ((claim, recorded), outcome) in self.claims[at].iter_mut().zip(outcomes) {
                    if *recorded == Outcome::NotRecorded {
                        *recorded = outcome;
                    }
                    records.extend(record(claim, *recorded, now));
                }
                let fences = match is_carried {
                    true => [
                        self.dynamo.record_carried(records.clone()).await,
                        self.memory.record_carried(records).await,
                    ],
                    false => [self.dynamo.record(records.clone()).await, self.memory.record(records).await],
                };
                prop_assert_eq!(&fences[0], &fences[1]);
            }
            Step::Hold(wave, by) => {
                let holds: Vec<Hold> = wave.iter().map(|it| hold(self.claim_of(it, 1), by, now)).collect();
                let noted = self.dynamo.hold(holds.clone(), now).await;
                prop_assert_eq!(noted, self.memory.hold(holds, now).await);
            }
            Step::Insert(wave) => {
                let new: Vec<NewDelivery> = wave.iter().map(|it| new(self.claim_of(it, 1))).collect();
                let inserted = self.deliveries().insert(new.clone(), now).await;
                prop_assert_eq!(inserted, Deliveries::insert(&self.memory, new, now).await);
            }
            Step::Cancel(at) => {
                let (deliveries, key) = (self.deliveries(), delivery(DELIVERIES[at]));
                let cancelled = deliveries.cancel(&key, now).await;
                prop_assert_eq!(cancelled, Deliveries::cancel(&self.memory, &key, now).await);
            }
            Step::Pass(time) => {
                self.now = now.plus(time);
                self.memory.state().now = self.now;
            }
        }
        self.agree().await
    }

    /// What there is of each delivery, of its history, and of its place in the index by state.
    async fn agree(&self) -> Result<(), TestCaseError> {
        let keys = DELIVERIES.map(delivery);
        let patience = Patience::brief();
        let entries = batches_dynamo::entries(&self.dynamo.table, keys.iter(), self.now).await;
        let items = keys.iter().map(entry_key).collect();
        let items = batches_dynamo::resolved(&self.dynamo.table, items, patience).await;
        for ((key, stored), item) in keys.iter().zip(entries).zip(items) {
            prop_assert_eq!(stored.expect("it is read"), self.stored(key));
            let Some(item) = item.expect("it is read") else { continue };
            let kept = ATTEMPTS.iter().filter_map(|name| Some((*name, item.text(name)?.to_owned())));
            let past = self.memory.state().attempts.get(key).cloned().unwrap_or_default();
            let past = past.iter().map(|past| (attribute(past.place()), past.to_text()));
            prop_assert_eq!(one_by_one::<BTreeMap<_, _>, _>(kept), one_by_one(past), "{:?}", key);
        }
        for item in self.dynamo.table.get_each(keys.iter().map(entry_key).collect(), patience).await {
            let Some(item) = item.expect("it is read") else { continue };
            let own = entry(&item).expect("an entry");
            let partition = own.state.is_listed().then(|| listing::partition_of(&own.key, own.state));
            prop_assert_eq!(item.text(FOUND[0]), partition.as_deref(), "{:?}", own);
        }
        Ok(())
    }
}

fn record(claim: &Claim, outcome: Outcome, now: Timestamp) -> Option<Record> {
    let plain = Record {
        turn: claim.ask.turn,
        lease_token: claim.ask.lease_token.clone(),
        place: claim.place,
        verdict: Some(Verdict::Sent.label()),
        now,
        ..tests::record(claim.ask.key.id.as_str())
    };
    let failed = Record {
        status: Some(503),
        verdict: Some("retry"),
        reason: Some(Reason::ServerError),
        ..plain.clone()
    };
    Some(match outcome {
        Outcome::Sent => plain,
        Outcome::SentInDoubt => Record { in_doubt: true, ..plain },
        Outcome::Retrying => {
            Record { state: State::Retrying, not_before: Some(now.plus(Duration::from_secs(4))), ..failed }
        }
        Outcome::GivenBack => Record { state: State::Queued, status: None, verdict: None, ..plain },
        Outcome::Failed => Record { state: State::Failed, ..failed },
        Outcome::NotRecorded => return None,
    })
}

fn new(claim: Claim) -> NewDelivery {
    let Claim { ask: Ask { key, fingerprint, .. }, channel, endpoint_hash, subscription, given, .. } = claim;
    NewDelivery {
        key,
        fingerprint,
        channel: Some(channel),
        endpoint_hash,
        subscription,
        given,
        not_before: None,
    }
}

fn hold(claim: Claim, by: HeldBy, now: Timestamp) -> Hold {
    let Claim { ask, channel, endpoint_hash, subscription, given, kept_until, .. } = claim;
    let Ask { key, turn, source_message, fingerprint, id_source, .. } = ask;
    let until = now.plus(Duration::from_secs(60));
    Hold {
        key,
        turn,
        by,
        until,
        fingerprint,
        id_source,
        source_message,
        channel,
        endpoint_hash,
        subscription,
        given,
        kept_until,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_same_calls_come_to_the_same_as_in_memory(steps in prop::collection::vec(step(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut both = Both::new();
            for step in steps {
                both.make(step).await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
