//! Origins' states and counters.

use redial_core::protection::spread::{Concerned, Trouble};
use redial_core::protection::{AtOrigin, Place, Whose};
use redial_engine::protection::{Guard, Seen, Settings};

use super::*;
use crate::stub_dynamo::{StubDynamo, error};
use crate::write_units::{MeteredClient, WriteUnits};

const STATE: &str = "origin#https://push.example";

#[tokio::test]
async fn the_items_of_an_origin_are_as_documented() {
    let harness = Harness::new();
    let (push, state) = (circuit("push"), open());
    assert_eq!(harness.worker.exchange(&push, 0, state.clone(), at(0)).await, Ok(true));
    let count = Count { attempts: 9, failures: 3, limited: 2, retries: 1, held: 4, older: 5, refused: 6 };
    let mut counted = Counted::from(count);
    for (name, number) in counted.spread.named() {
        match name.as_str() {
            "t3a" | "r5a" => *number = 9,
            "t3f" | "r5f" => *number = 3,
            "t3l" | "r5l" => *number = 2,
            _ => {}
        }
    }
    assert_eq!(harness.worker.add(7, vec![(push.clone(), counted.clone())], at(1)).await, [Ok(())]);
    let text = serde_json::to_string(&state).expect("JSON");
    let own = harness.table.item(STATE, "state").expect("a state")["own"].clone();
    let counts = json!({
        "attempts": n(9), "failures": n(3), "limited": n(2), "retries": n(1), "held": n(4), "older": n(5), "refused": n(6),
        "t3a": n(9), "t3f": n(3), "t3l": n(2), "r5a": n(9), "r5f": n(3), "r5l": n(2),
        "expires_at": n(1_800_086_400),
    });
    for (pk, sk, item) in [
        (
            STATE,
            "state",
            json!({
                "version": n(1), "state": {"S": text}, "expires_at": n(1_800_604_800), "own": own,
                "listed_at": n(1_800_000_000_000_u64),
            }),
        ),
        ("origins", "https://push.example", json!({"expires_at": n(1_800_680_400)})),
        ("origin#https://push.example#7", "counts", counts),
    ] {
        assert_eq!(harness.table.item(pk, sk), Some(item), "{pk}");
    }
    assert_eq!(harness.table.state().items.len(), 3);
    let stored = StoredOrigin { state, version: 1 };
    assert_eq!(harness.worker.look(&push).await, Ok((stored.clone(), counted)));
    assert_eq!(harness.worker.stored(&push).await, Ok(stored.clone()));
    assert_eq!(harness.worker.origins().await, Ok(vec![(origin("push"), stored)]));
}

#[tokio::test]
async fn of_concurrent_exchanges_of_a_version_one_wins() {
    let harness = Harness::new();
    let push = circuit("push");
    for version in 0..20 {
        let exchanges = (0..8).map(|_| harness.worker.exchange(&push, version, open(), at(0)));
        let won = join_all(exchanges).await.into_iter().filter(|won| *won == Ok(true)).count();
        assert_eq!(won, 1, "version {version}");
        assert_eq!(harness.worker.stored(&push).await.map(|it| it.version), Ok(version + 1));
    }
    // No version, or an older one, is too late.
    for version in [0, 19, 21] {
        assert_eq!(harness.worker.exchange(&push, version, open(), at(0)).await, Ok(false), "{version}");
    }
}

/// The SDK makes a call again whose answer is lost.
#[tokio::test]
async fn an_exchange_that_meets_its_own_write_has_won() {
    for (is_own, won) in [(true, true), (false, false)] {
        let stub = StubDynamo::new(move |_, call| {
            let mut refused = error("ConditionalCheckFailedException");
            let own = call["ExpressionAttributeValues"][":own"].clone();
            assert_eq!(call["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
            let own = if is_own { own } else { json!({"S": "another's"}) };
            refused["Item"] = json!({"version": n(8), "own": own, "listed_at": n(at(0).as_ms())});
            Err(refused)
        });
        let worker = DynamoProtection::new(stub.client(), "control".to_owned());
        assert_eq!(worker.exchange(&circuit("push"), 7, OriginState::default(), at(0)).await, Ok(won));
    }
}

#[tokio::test]
async fn an_invalid_state_counts_as_new_and_can_be_replaced() {
    for (garbage, version) in [
        (json!({"version": {"N": "7"}, "state": {"S": "{broken"}}), 7),
        (json!({"version": {"N": "7"}, "state": {"S": "{\"phase\":\"ajar\"}"}}), 7),
        (json!({"version": {"N": "7"}, "state": {"N": "1"}}), 7),
        (json!({"version": {"N": "7"}}), 7),
        (json!({"version": {"S": "7"}, "state": {"S": "{}"}}), 0),
        (json!({"version": {"N": "-7"}, "state": {"S": "{}"}}), 0),
        (json!({"state": {"S": "{}"}}), 0),
        (json!({"updated_by": {"S": "someone"}}), 0),
    ] {
        let harness = Harness::new();
        let push = circuit("push");
        harness.table.write(STATE, "state", &garbage);
        let found = StoredOrigin { state: OriginState::default(), version };
        assert_eq!(harness.worker.look(&push).await.map(|it| it.0), Ok(found.clone()), "{garbage}");
        let (read, _) = harness.worker.read(vec![push.clone()], Vec::new()).await.expect("it is read");
        assert_eq!(read, [found], "{garbage}");
        assert_eq!(harness.worker.exchange(&push, version, open(), at(0)).await, Ok(true), "{garbage}");
        let new = StoredOrigin { state: open(), version: version + 1 };
        assert_eq!(harness.worker.stored(&push).await, Ok(new), "{garbage}");
    }
}

#[tokio::test]
async fn an_origin_is_listed_first_and_about_once_a_day_while_its_state_is_written() {
    const DAY: i64 = 86_400_000;
    let harness = Harness::new();
    let push = circuit("push");
    let partitions = || -> Vec<String> {
        harness.table.calls_with_partitions().into_iter().flat_map(|(_, partitions)| partitions).collect()
    };
    let listed_until = || {
        let listed = harness.table.item("origins", "https://push.example").expect("it is listed");
        listed["expires_at"]["N"].as_str().and_then(|secs| secs.parse().ok()).map(Timestamp::from_secs)
    };
    harness.worker.exchange(&push, 0, OriginState::default(), at(0)).await.expect("it is written");
    assert_eq!(partitions(), ["origins", STATE]);
    for (version, state) in [(1, OriginState::default()), (2, open())] {
        harness.worker.exchange(&push, version, state, at(5_000)).await.expect("it is written");
        assert_eq!(partitions(), [STATE], "it was listed a moment ago");
    }
    // Whatever its breaker's phase: it may have a pace, or fail.
    for day in 1..20 {
        let now = at(day * DAY);
        let version = 1 + 2 * u64::try_from(day).expect("positive");
        harness.worker.exchange(&push, version, OriginState::default(), now).await.expect("it is written");
        assert_eq!(partitions(), [STATE, "origins", STATE]);
        // The state itself lasts for a week, and none that is written until the next time outlasts its place on the list.
        assert!(listed_until() >= Some(now.plus(STATE_KEPT)));
        harness.worker.exchange(&push, version + 1, open(), now).await.expect("it is written");
        assert_eq!(partitions(), [STATE]);
    }
    harness.worker.exchange(&push, 2, open(), at(30 * DAY)).await.expect("it is answered");
    assert_eq!(partitions(), [STATE], "another came before");

    // A list that cannot be written prevents nothing.
    harness.table.state().refusing = Some(("UpdateItem", "origins"));
    assert_eq!(harness.worker.exchange(&push, 41, open(), at(30 * DAY)).await, Ok(true));
    assert_eq!(harness.worker.exchange(&circuit("other"), 0, open(), at(9_000)).await, Ok(true));
}

/// Another release wrote its state.
#[tokio::test]
async fn an_origin_that_is_not_known_to_be_listed_is_listed() {
    let harness = Harness::new();
    harness.table.write(STATE, "state", &json!({"version": n(7), "state": {"S": "{}"}}));
    assert_eq!(harness.worker.exchange(&circuit("push"), 7, OriginState::default(), at(0)).await, Ok(true));
    assert!(harness.table.item("origins", "https://push.example").is_some());
    assert_eq!(harness.table.item(STATE, "state").expect("a state")["listed_at"], n(at(0).as_ms()));
}

#[tokio::test]
async fn an_origin_on_the_list_without_a_state_is_left_out() {
    let harness = Harness::new();
    for name in ["b", "a", "c"] {
        harness.worker.exchange(&circuit(name), 0, open(), at(0)).await.expect("it is written");
    }
    harness.table.state().items.remove(&("origin#https://b.example".to_owned(), "state".to_owned()));
    harness.table.write("origins", "no origin", &json!({}));
    let origins = harness.worker.origins().await.expect("they are read");
    let names: Vec<&str> = origins.iter().map(|(origin, _)| origin.as_str()).collect();
    assert_eq!(names, ["https://a.example", "https://c.example"]);
    assert_eq!(harness.worker.stored(&circuit("b")).await, Ok(StoredOrigin::default()));
}

#[tokio::test]
async fn concurrent_counts_sum_up_by_origin() {
    let harness = Harness::new();
    let (a, b) = (circuit("a"), circuit("b"));
    let adds = (0..60).map(|n| {
        let count = Count { attempts: n, failures: 1, limited: 2, retries: 3, held: 4, older: 5, refused: 6 };
        let counts = vec![(a.clone(), Counted::from(count)), (b.clone(), attempts(1))];
        harness.worker.add(u16::try_from(n % 16).expect("small"), counts, at(0))
    });
    let added: Vec<_> = join_all(adds).await.into_iter().flatten().collect();
    assert_eq!(added, vec![Ok(()); 120]);
    let sum = Count {
        attempts: 1770,
        failures: 60,
        limited: 120,
        retries: 180,
        held: 240,
        older: 300,
        refused: 360,
    };
    assert_eq!(harness.worker.look(&a).await, Ok((StoredOrigin::default(), sum.into())));
    assert_eq!(harness.worker.look(&b).await.map(|it| it.1), Ok(attempts(60)));
    harness.table.write("origin#https://b.example#3", "counts", &json!({"attempts": {"S": "many"}}));
    assert_eq!(harness.worker.look(&b).await.map(|it| it.1), Ok(attempts(56)));
    let looks = harness.table.calls().into_iter().filter(|call| call == "BatchGetItem").count();
    assert_eq!(looks, 3, "a look is one call");
}

#[tokio::test]
async fn every_counter_that_a_worker_may_add_to_is_read() {
    let harness = Harness::new();
    let failed = Count { failures: 1, ..attempts(1).count };
    let push = origin("push");
    let place = Place::of(&push, &Tenant::parse("acme").expect("valid"));
    let whose = Whose::numbered(place, 0);
    for counter in 0..40 {
        let guard = Guard::new(Settings::default(), counter);
        let seen = Seen {
            origin: push.clone(),
            count: failed,
            whose,
            tenant: Tenant::parse("acme").expect("valid"),
            address: None,
            probe: None,
            retry_after: None,
            failed_again: None,
            posted: None,
        };
        let learned = guard.learn(&harness.worker, vec![seen], at(0), &mut StdRng::seed_from_u64(1)).await;
        assert_eq!(learned.errors, []);
    }
    let (_, sum) = harness.worker.look(&circuit("push")).await.expect("it is looked at");
    assert_eq!((sum.count.attempts, sum.count.failures), (40, 40));
    assert_eq!(sum.spread.concerned(Trouble::Failures, 20), Concerned::Tenant(place));
}

#[tokio::test]
async fn a_failed_addition_is_reported_for_its_origin_alone() {
    let harness = Harness::new();
    harness.table.write("origin#https://b.example#0", "counts", &json!({"attempts": {"S": "many"}}));
    let counts = ["a", "b", "c"].map(|name| (circuit(name), attempts(1))).to_vec();
    let added = harness.worker.add(0, counts, at(0)).await;
    assert!(matches!(added.as_slice(), [Ok(()), Err(error), Ok(())] if error.code == "ValidationException"));
    harness.table.state().refusing = Some(("BatchGetItem", ""));
    let failed = harness.worker.look(&circuit("a")).await;
    assert_eq!(failed.map_err(|error| error.operation), Err("BatchGetItem"));
}

#[tokio::test]
async fn write_units_are_metered() {
    let harness = Harness::new();
    let units = WriteUnits::default();
    let client = MeteredClient::new(harness.table.client(), units.clone());
    let worker = DynamoProtection::new(client, "control".to_owned());
    worker.exchange(&circuit("a"), 0, open(), at(0)).await.expect("it is written");
    worker.add(0, vec![(circuit("a"), attempts(1))], at(0)).await;
    assert_eq!(units.take(), 3);
}

#[tokio::test]
async fn a_recipient_has_items_beside_its_origin_s_that_expire_after_about_a_day() {
    let harness = Harness::new();
    let hash = format!("hmac:k1:{}", "0a".repeat(32));
    let recipient = Circuit::Recipient(AtOrigin {
        origin: origin("push"),
        tenant: Tenant::parse("acme").expect("valid"),
        endpoint: redial_core::endpoint::EndpointHash::parse(&hash).expect("valid"),
    });
    assert_eq!(harness.worker.exchange(&recipient, 0, open(), at(0)).await, Ok(true));
    assert_eq!(harness.worker.exchange(&circuit("push"), 0, open(), at(0)).await, Ok(true));
    assert_eq!(harness.worker.add(7, vec![(recipient.clone(), attempts(9))], at(0)).await, [Ok(())]);
    for (pk, sk, expires_at) in [
        (format!("{STATE}#acme#{hash}"), "state".to_owned(), 1_800_086_400),
        (format!("{STATE}#acme#{hash}#7"), "counts".to_owned(), 1_800_086_400),
        // A little longer than the state of which it is the place.
        ("origins".to_owned(), format!("https://push.example#acme#{hash}"), 1_800_097_200),
    ] {
        let item = harness.table.item(&pk, &sk).expect("it is written");
        assert_eq!(item["expires_at"], n(expires_at), "{pk}");
    }
    let stored = StoredOrigin { state: open(), version: 1 };
    assert_eq!(harness.worker.look(&recipient).await, Ok((stored.clone(), attempts(9))));
    assert_eq!(harness.worker.origins().await, Ok(vec![(origin("push"), stored.clone())]));
    let both = vec![(circuit("push"), stored.clone()), (recipient, stored)];
    assert_eq!(harness.worker.circuits().await, Ok(both));
}
