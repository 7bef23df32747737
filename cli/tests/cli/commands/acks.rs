//! Browsers' acknowledgements in the ledger's table: they stand beside what workers write there, and `status` shows them.

use redial_adapters::{acks_dynamo::DynamoAcks, ledger_dynamo::DynamoLedger};
use redial_core::{
    ack::AckEvent,
    ledger::{DEDUPE_WINDOW, Record, State},
    reason::Reason,
};
use redial_engine::ports::{Acknowledged, Acks as _, ClaimAnswer, Ledger as _, LedgerReader as _};

use super::{claim, key, record};
use crate::prelude::*;

const DAY: u64 = 86_400;

struct Acknowledging {
    stack: TestStack,
    ledger: DynamoLedger,
    acks: DynamoAcks,
    /// Whole seconds, as expiries are.
    now: Timestamp,
}

impl Acknowledging {
    async fn up() -> Self {
        let stack = TestStack::shared_idle().await;
        let table = &stack.tables().deliveries;
        Self {
            ledger: DynamoLedger::new(stack.dynamodb.clone(), table.clone()),
            acks: DynamoAcks::new(stack.dynamodb.clone(), table.clone()),
            // Of now, because `status` does not show what has expired.
            now: Timestamp::from_secs(System.now().as_secs()),
            stack,
        }
    }

    async fn attempt(&self, id: &str, number: u32, state: State, now: Timestamp) {
        let claimed = self.ledger.claim(vec![claim(key(&self.stack, id), number, now)], now).await;
        assert_eq!(claimed, [Ok(ClaimAnswer::Granted { in_doubt: false, at: now })]);
        let reason = (state == State::Retrying).then_some(Reason::ServerError);
        let record = record(key(&self.stack, id), number, state, reason, now);
        let record = Record { kept_until: Some(now.plus(Duration::from_secs(35 * DAY))), ..record };
        for recorded in self.ledger.record(vec![record]).await {
            recorded.expect("the claim is ours");
        }
    }

    async fn acknowledge(&self, id: &str, event: AckEvent, at: Timestamp) -> Acknowledged {
        let until = at.plus(Duration::from_secs(DAY));
        self.acks.acknowledge(&key(&self.stack, id), event, until, at).await.expect("the table answers")
    }

    fn status(&self, id: &str) -> Done {
        self.stack.redial(format!("status {id} --tenant {} --json", self.stack.tenant))
    }

    /// When the ledger forgets a delivery.
    async fn expiry(&self, id: &str) -> Timestamp {
        let entry = self.stack.entry(id).await.expect("it is in the ledger");
        Timestamp::from_secs(number(&entry, "expires_at").expect("a number"))
    }
}

#[tokio::test]
async fn acknowledgements_in_any_order_stand_beside_the_delivery() {
    let it = Acknowledging::up().await;
    let after = |secs| it.now.plus(Duration::from_secs(secs));

    // The first attempt arrived although it was not answered.
    it.attempt("d1", 0, State::Retrying, it.now).await;
    assert_eq!(it.acknowledge("d1", AckEvent::Clicked, after(1)).await, Acknowledged::First);
    assert_eq!(it.acknowledge("d1", AckEvent::Displayed, after(2)).await, Acknowledged::First);
    assert_eq!(it.acknowledge("d1", AckEvent::Clicked, after(3)).await, Acknowledged::Again);
    assert_eq!(it.status("d1").json()["state"], "retrying", "an acknowledgement does not change it");

    it.attempt("d1", 1, State::Sent, after(4)).await;
    let late = after(20 * DAY);
    assert_eq!(it.acknowledge("d1", AckEvent::Closed, late).await, Acknowledged::First);
    let shown = it.status("d1").json();
    let times = [after(2), after(1), late].map(|at| at.to_rfc3339());
    let [displayed, clicked, closed] = &times;
    let times = json!({"displayed_at": displayed, "clicked_at": clicked, "closed_at": closed});
    assert_fields(&shown, with_fields(json!({"state": "sent"}), &times));
    let words = it.stack.shown(format!("status d1 --tenant {}", it.stack.tenant));
    assert!(words.contains(&format!("  displayed     {}\n", after(2).to_rfc3339())), "{words}");

    // It is kept as long as its token is valid, where that is longer than usual.
    assert_eq!(it.expiry("d1").await, after(4 + 35 * DAY));
    assert!(after(4).plus(DEDUPE_WINDOW) < late);

    // An acknowledgement does not create a delivery that the ledger has forgotten.
    assert_eq!(it.acknowledge("d2", AckEvent::Displayed, it.now).await, Acknowledged::Unknown);
    it.status("d2").ends_with(1);

    it.attempt("d3", 0, State::Sent, it.now).await;
    let shown = it.status("d3").json();
    assert!(["displayed_at", "clicked_at", "closed_at"].iter().all(|at| shown.get(at) == Some(&Value::Null)));
}

/// An operator who sends a delivery again may give it more time, and its browser another token.
#[tokio::test]
async fn what_was_acknowledged_of_a_page_is_kept_until_the_last_of_its_tokens_ends() {
    let it = Acknowledging::up().await;
    let key = key(&it.stack, "wfUthxZCdca9hTLSomsVB4JdWCilteWrxKdo8ydztf4-12-106");
    let after = |days: u64| it.now.plus(Duration::from_secs(days * DAY));
    for (event, until, expected, forgotten_on, kept) in [
        (AckEvent::Displayed, 2, Acknowledged::First, 2, 1),
        (AckEvent::Displayed, 5, Acknowledged::Again, 5, 1),
        // The former token.
        (AckEvent::Clicked, 2, Acknowledged::First, 5, 2),
        (AckEvent::Clicked, 2, Acknowledged::Again, 5, 2),
    ] {
        assert_eq!(it.acks.acknowledge(&key, event, after(until), it.now).await, Ok(expected), "{until}");
        let last = it.acks.acknowledged(&key, after(forgotten_on - 1)).await.expect("the table answers");
        assert_eq!(last.map(|last| last.len()), Some(kept), "{event:?} {until}");
        assert_eq!(
            it.acks.acknowledged(&key, after(forgotten_on)).await,
            Ok(Some(Vec::new())),
            "{event:?} {until}"
        );
    }
}

#[tokio::test]
async fn a_claim_overwrites_an_expired_entry() {
    let it = Acknowledging::up().await;
    let once = it.now.minus(Duration::from_secs(40 * DAY));
    it.attempt("d1", 0, State::Retrying, once).await;
    it.attempt("d1", 1, State::Sent, once).await;
    assert_eq!(it.acknowledge("d1", AckEvent::Displayed, once).await, Acknowledged::First);
    assert_eq!(it.expiry("d1").await, once.plus(Duration::from_secs(35 * DAY)), "five days ago");
    it.status("d1").ends_with(1);
    assert_eq!(it.ledger.get(&key(&it.stack, "d1")).await, Ok(None));

    it.attempt("d1", 0, State::Sent, it.now).await;
    let shown = it.status("d1").json();
    assert_fields(&shown, json!({"state": "sent", "displayed_at": null, "created_at": it.now.to_rfc3339()}));
    assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "{shown}");
    let entry = it.ledger.get(&key(&it.stack, "d1")).await.expect("the table answers").expect("it is stored");
    assert_eq!((entry.status, entry.reason, entry.in_doubt), (None, None, false));
}
