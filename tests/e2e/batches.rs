//! Successes that an invocation records together, on the real table: what is read of them, and what becomes of a worker that is late.

use redial_adapters::ledger_dynamo::DynamoLedger;
use redial_core::{
    channel::Channel,
    endpoint::HashKeys,
    identity::{DeliveryId, DeliveryKey, IdSource, Tenant, Turn},
    ledger::{Ask, Fence, Given, Record, State},
};
use redial_engine::ports::{Claim, ClaimAnswer, Ledger as _, LedgerReader as _};
use redial_tests::{prelude::*, resources::Resources};

const LEASE: Duration = Duration::from_secs(3600);

fn key(tenant: &str, n: u32) -> DeliveryKey {
    let parse = (Tenant::parse(tenant), DeliveryId::parse(&format!("m-{n}")));
    DeliveryKey { tenant: parse.0.expect("a tenant"), id: parse.1.expect("an id") }
}

fn claim(key: DeliveryKey, place: u32, token: &str, source: &str, now: Timestamp) -> Claim {
    let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
    let ask = Ask {
        key,
        turn: Turn::default(),
        lease_token: token.to_owned(),
        lease_until: now.plus(LEASE),
        source_message: source.to_owned(),
        fingerprint: keys.fingerprint(b"content"),
        id_source: IdSource::Producer,
        state: State::Sending,
    };
    Claim {
        ask,
        channel: Channel::WebPush,
        endpoint_hash: None,
        subscription: None,
        given: Given::default(),
        place: Some(place),
        kept_until: None,
        settlement: None,
    }
}

fn sent(claim: &Claim, now: Timestamp) -> Record {
    Record {
        key: claim.ask.key.clone(),
        turn: claim.ask.turn,
        lease_token: claim.ask.lease_token.clone(),
        place: claim.place,
        state: State::Sent,
        status: Some(201),
        verdict: Some("sent"),
        reason: None,
        not_sent: None,
        provider_word: None,
        headers: vec![("ttl".to_owned(), "60".to_owned())],
        not_before: None,
        in_doubt: false,
        kept_until: None,
        now,
    }
}

/// Ten claims of one invocation, all granted.
async fn ten(stack: &TestStack, ledger: &DynamoLedger, token: &str, now: Timestamp) -> Vec<Claim> {
    let claims: Vec<Claim> =
        (0..10).map(|n| claim(key(&stack.tenant, n), n, token, &format!("sqs-{n}"), now)).collect();
    let granted = Ok(ClaimAnswer::Granted { in_doubt: false, at: now });
    assert_eq!(ledger.claim(claims.clone(), now).await, vec![granted; 10]);
    claims
}

#[tokio::test]
async fn what_was_recorded_together_is_sent_for_everyone_who_reads_it() {
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "together").await;
    let table = resources.tables.deliveries.clone();
    let (ledger, now) = (DynamoLedger::new(stack.dynamodb.clone(), table.clone()), System.now());
    let claims = ten(&stack, &ledger, "one", now).await;
    // In two waves; the last place is still under way.
    for wave in [&claims[..6], &claims[6..9]] {
        let records = wave.iter().map(|claim| sent(claim, now)).collect::<Vec<_>>();
        assert_eq!(ledger.record(records).await, vec![Ok(Fence::Held); wave.len()]);
    }
    assert_eq!(stack.scan(&table).await.len(), 11, "ten entries and one batch");
    let entries = stack.entries(&table).await;
    let states: Vec<_> = (0..10)
        .map(|n| {
            let entry = entries.iter().find(|entry| text(entry, "id") == Some(&format!("m-{n}")));
            text(entry.expect("an entry"), "state").map(str::to_owned)
        })
        .collect();
    let mut expected = vec![Some("sent".to_owned()); 9];
    expected.push(Some("sending".to_owned()));
    assert_eq!(states, expected);
    let entry = ledger.get(&key(&stack.tenant, 7)).await.expect("it is read").expect("an entry");
    assert_eq!((entry.state, entry.status, entry.updated_at), (State::Sent, Some(201), now));

    // The same message repeats its hand-off, a copy of it is over, and what is under way is waited for.
    let answers = ledger
        .claim(
            vec![
                claim(key(&stack.tenant, 0), 0, "two", "sqs-0", now),
                claim(key(&stack.tenant, 8), 1, "two", "sqs-copy", now),
                claim(key(&stack.tenant, 9), 2, "two", "sqs-copy", now),
            ],
            now,
        )
        .await;
    let [Ok(ClaimAnswer::HandOffAgain(again)), Ok(ClaimAnswer::Done), Ok(ClaimAnswer::Leased { .. })] =
        answers.as_slice()
    else {
        panic!("{answers:?}")
    };
    assert_eq!((again.state, again.status), (State::Sent, Some(201)));
}

#[tokio::test]
async fn a_worker_whose_attempts_were_taken_over_adds_nothing_to_its_batch() {
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "late").await;
    let table = resources.tables.deliveries.clone();
    let (ledger, now) = (DynamoLedger::new(stack.dynamodb.clone(), table.clone()), System.now());
    let claims = ten(&stack, &ledger, "one", now).await;
    let records: Vec<Record> = claims.iter().map(|claim| sent(claim, now)).collect();
    assert_eq!(ledger.record(records[..3].to_vec()).await, vec![Ok(Fence::Held); 3]);

    // After its lease another worker has copies of what is listed, and of what is not.
    let later = now.plus(LEASE + Duration::from_secs(1));
    let copies = [0, 5].map(|n| claim(key(&stack.tenant, n), n, "two", "sqs-copy", later));
    let taken = Ok(ClaimAnswer::Granted { in_doubt: true, at: later });
    assert_eq!(ledger.claim(copies.to_vec(), later).await, [Ok(ClaimAnswer::Done), taken]);

    // The first one wakes up: only what was not taken over is its to record.
    let mut fences = vec![Ok(Fence::Held); 7];
    fences[2] = Ok(Fence::Lost);
    assert_eq!(ledger.record(records[3..].to_vec()).await, fences);
    let state = async |n| ledger.get(&key(&stack.tenant, n)).await.expect("it is read").expect("it").state;
    assert_eq!([state(0).await, state(4).await, state(5).await], [State::Sent, State::Sent, State::Sending]);
}
