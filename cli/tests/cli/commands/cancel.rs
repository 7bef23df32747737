//! `redial cancel`: what waits is cancelled once, what is attempted or over is not.

use redial_adapters::ledger_dynamo::DynamoLedger;
use redial_core::{ledger::State, reason::Reason};
use redial_engine::ports::Ledger as _;

use super::{claim, key, record};
use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_waits_is_cancelled_and_another_is_not() {
    let stack = TestStack::shared_idle().await;
    let (now, tenant) = (System.now(), stack.tenant.as_str());
    let ledger = DynamoLedger::new(stack.dynamodb.clone(), stack.tables().deliveries.clone());
    let claims = ["waits", "sent", "attempted"].map(|id| claim(key(&stack, id), 0, now));
    for claimed in ledger.claim(claims.into(), now).await {
        claimed.expect("no other claim exists");
    }
    let retrying = record(key(&stack, "waits"), 0, State::Retrying, Some(Reason::ServerError), now);
    for recorded in
        ledger.record(vec![retrying, record(key(&stack, "sent"), 0, State::Sent, None, now)]).await
    {
        recorded.expect("the claims are ours");
    }
    let cancel = |id: &str, options: &str| stack.redial(format!("cancel {id} --tenant {tenant} {options}"));

    let said = cancel("waits", "").ends_with(2);
    assert!(
        said.contains("not a terminal: pass --yes to cancel the delivery without confirmation"),
        "{said}"
    );
    let shown = cancel("waits", "--yes").succeeds();
    assert!(shown.starts_with(&format!("{tenant}#waits: cancelled 20")), "{shown}");
    assert_eq!(cancel("waits", "--yes").succeeds(), shown, "cancelling twice is no error");
    let status = stack.json(format!("status waits --tenant {tenant}"));
    assert_fields(
        &status,
        json!({"state": "cancelled", "reason": "cancelled", "final": true, "status": null}),
    );
    assert!(status["where"].as_str().is_some_and(|it| it.starts_with("cancelled 20")), "{status}");
    let attempts = status["attempts"].as_array().expect("a list").len();
    assert_eq!(attempts, 1, "what was tried before is kept");

    for (id, state, words) in [
        ("sent", "sent", "it has ended as sent"),
        ("attempted", "sending", "an attempt is being made; try again in"),
    ] {
        let said = cancel(id, "--yes").ends_with(1);
        assert!(said.contains(&format!("{tenant}#{id} was not cancelled: {words}")), "{said}");
        let refused = cancel(id, "--yes --json");
        let json = parsed(&refused.stdout);
        assert_fields(&json, json!({"cancelled": false, "state": state, "in_doubt": null, "known": null}));
        assert_eq!(refused.status, Some(1));
    }

    let unknown = parsed(&cancel("unseen", "--yes --json").succeeds());
    assert_fields(&unknown, json!({"tenant": tenant, "id": "unseen", "cancelled": true, "known": false}));
    let shown = cancel("unseen", "--yes").succeeds();
    assert!(shown.contains("no message with this id was seen yet"), "{shown}");
}
