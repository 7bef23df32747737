//! One endpoint, one subscription of a tenant: replaced, refused, in any interleaving, and after a release that did not know it.

use futures_util::future::join_all;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::{Renewal, SameEndpoint, State, Subscription};
use redial_engine::ports::{
    Endowed, Found, Removals as _, Removed, Renewed, SubscriptionBook as _, SubscriptionHealth as _,
    SubscriptionUpdate, SubscriptionWalk as _, Walked,
};

use super::Harness;
use super::store::{endpoint, key, later, now, renewal};
use crate::prelude::*;

async fn ask(harness: &Harness, renewal: Renewal, same_endpoint: SameEndpoint) -> Renewed {
    harness.store.renew(renewal, same_endpoint, later()).await.expect("it is answered")
}

/// Which of these ids are stored with this endpoint.
async fn holders(harness: &Harness, ids: &[String], path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for id in ids {
        if let Found::Stored(it) = harness.find(id).await
            && *it.recipient.endpoint() == endpoint(path)
        {
            found.push(id.clone());
        }
    }
    found
}

async fn walked(harness: &Harness, id: &str) -> Walked {
    let mut from = None;
    loop {
        let page = harness.store.walk_page(from).await.expect("it is answered");
        if let Some(found) = page.found.into_iter().find(|it| it.subscription.key == key(id)) {
            return found;
        }
        from = Some(page.next.unwrap_or_else(|| panic!("{id} is walked to")));
    }
}

pub(super) async fn an_endpoint_goes_to_the_id_that_submits_it_last(harness: &Harness) {
    let count = harness.count("book").await;
    harness.renew(renewal("e1", "same", true, Some(&["news", "sport"]))).await;
    let Renewed::New(new) = harness.renew(renewal("e2", "same", true, Some(&["news"]))).await else {
        panic!("it is new")
    };
    assert_eq!((new.subscription.took_over_at, new.replaced), (Some(later()), true));
    assert_eq!(harness.find("e1").await, Found::Deleted { endpoint_hash: None, at: later() });
    assert_eq!(harness.counted("e1").await, (count + 1, vec![]));
    assert_eq!(harness.counted("e2").await, (count + 1, vec!["news".to_owned()]));

    // A browser that has another endpoint already moves to it.
    harness.renew(renewal("e3", "other", true, Some(&["news"]))).await;
    let moved = harness.renewed(renewal("e3", "same", false, None)).await;
    assert_eq!((moved.took_over_at, moved.created_at), (Some(later()), Some(later())));
    assert_eq!(harness.counted("e3").await, (count + 1, vec!["news".to_owned()]));
    // Whose endpoint it was is remembered, and what an operator stores takes it over, too.
    assert!(harness.erase("e3").await);
    let recipient = Recipient::WebPush(renewal("e4", "same", true, None).document.target);
    harness.store.put(&Subscription::new(key("e4"), recipient), later()).await.expect("it is stored");
    assert_eq!(harness.stored("e4").await.took_over_at, Some(later()));
    // Each that was replaced is noted until it is announced.
    let mut noted = harness.store.removed().await.expect("it is answered");
    noted.retain(|it| ["e1", "e2", "e3"].contains(&it.key.id.as_str()));
    assert_eq!(
        noted,
        ["e1", "e2"].map(|id| Removed { key: key(id), at: later(), reason: Reason::EndpointReplaced })
    );
    for replaced in &noted {
        harness.store.announced(replaced).await.expect("it is answered");
        assert!(!harness.store.removed().await.expect("it is answered").contains(replaced));
    }
    // What e3 had before is free.
    let Renewed::New(free) = ask(harness, renewal("e5", "other", true, None), SameEndpoint::Refuse).await
    else {
        panic!("it is new")
    };
    let took_over = (free.subscription.took_over_at, free.replaced);
    assert_eq!(took_over, (Some(later()), false), "e3 had it a moment ago");
    // An endpoint of another tenant is another tenant's.
    let mut foreign = renewal("e1", "same", true, None);
    foreign.key = subscription_key("globex", "e1");
    assert!(matches!(ask(harness, foreign, SameEndpoint::Refuse).await, Renewed::New(_)));
    for id in ["e4", "e5"] {
        assert!(harness.erase(id).await);
    }
}

pub(super) async fn an_endpoint_that_is_taken_is_refused_if_the_stack_says_so(harness: &Harness) {
    let count = harness.count("book").await;
    harness.renew(renewal("f1", "taken", true, Some(&["news"]))).await;
    let refused = ask(harness, renewal("f2", "taken", true, Some(&["news"])), SameEndpoint::Refuse).await;
    let taken = Renewed::EndpointTaken { same: Some(key("f1").id) };
    assert_eq!((refused, harness.find("f2").await), (taken, Found::Unknown));
    let again = ask(harness, renewal("f1", "taken", false, None), SameEndpoint::Refuse).await;
    assert!(matches!(again, Renewed::Renewed(_)), "its own is not taken: {again:?}");
    // Nothing is sent to one that is gone, so it keeps no endpoint.
    let update = SubscriptionUpdate { key: key("f1"), endpoint: endpoint("taken"), at: now() };
    harness.store.mark_gone(update).await.expect("it is answered");
    let given = ask(harness, renewal("f2", "taken", true, None), SameEndpoint::Refuse).await;
    assert!(matches!(given, Renewed::New(_)), "{given:?}");
    assert_eq!(harness.count("book").await, count + 1);
    assert!(harness.erase("f2").await);
}

pub(super) async fn of_concurrent_ids_one_has_the_endpoint(harness: &Harness) {
    let count = harness.count("book").await;
    for round in 0..6 {
        let path = format!("crowd{round}");
        let ids: Vec<String> = (0..4).map(|n| format!("c{round}-{n}")).collect();
        let submit = |id: &String| renewal(id, &path, true, Some(&["news"]));
        let refuses = round % 2 == 1;
        let how = if refuses { SameEndpoint::Refuse } else { SameEndpoint::Replace };
        let answers = join_all(ids.iter().map(|id| ask(harness, submit(id), how))).await;
        let stored = answers.iter().filter(|it| matches!(it, Renewed::New(_))).count();
        assert_eq!(stored, if refuses { 1 } else { 4 }, "{answers:?}");
        let holders_now = holders(harness, &ids, &path).await;
        assert_eq!((holders_now.len(), harness.count("book").await), (1, count + 1), "{holders_now:?}");

        // While one is erased, one moves away, and two come.
        let one = &holders_now[0];
        let erased = harness.erase(one);
        let puts =
            ids.iter().filter(|id| *id != one).map(|id| ask(harness, submit(id), SameEndpoint::Replace));
        futures_util::join!(erased, join_all(puts));
        let holders_now = holders(harness, &ids, &path).await;
        assert_eq!((holders_now.len(), harness.count("book").await), (1, count + 1), "{holders_now:?}");
        assert!(harness.erase(&holders_now[0]).await);
    }
}

pub(super) async fn a_walk_decides_on_what_an_earlier_release_stored_twice(harness: &Harness) {
    let tables = harness.stack.tables();
    let submit = |id: &str| Renewal { seen_at: Some(now()), ..renewal(id, "twice", true, Some(&["news"])) };
    // As a release that knows no holders leaves them: two items without the mark, and perhaps a row.
    harness.renew(submit("w1")).await;
    let (pk, dynamodb) = (key("w1").to_string(), &harness.stack.dynamodb);
    let mut item = harness.stack.item(&tables.subscriptions, &[("pk", &pk)]).await.expect("it is stored");
    item.remove("holds");
    let seen_at = Some(later().plus(Duration::from_secs(60)));
    harness.renew(Renewal { seen_at, ..renewal("w2", "twice", true, Some(&["news"])) }).await;
    let put = dynamodb.put_item().table_name(&tables.subscriptions).set_item(Some(item));
    put.send().await.expect("it is stored");
    let ids = ["w1".to_owned(), "w2".to_owned()];
    assert_eq!(holders(harness, &ids, "twice").await.len(), 2);

    let found = walked(harness, "w1").await;
    assert!(!found.has_its_endpoint && walked(harness, "w2").await.has_its_endpoint);
    let endowed = harness.store.endow(&found.subscription, later()).await.expect("it is answered");
    let Endowed::Lost(lost) = endowed else { panic!("w2 was heard of later: {endowed:?}") };
    assert_eq!((&lost.key, lost.state), (&key("w1"), State::Stale));
    assert_eq!(harness.stored("w1").await.state, State::Stale, "nothing is sent to it from here on");
    let update = SubscriptionUpdate { key: key("w1"), endpoint: endpoint("twice"), at: later() };
    assert!(harness.store.remove(update, Reason::Gone).await.expect("it is answered"));
    assert_eq!(holders(harness, &ids, "twice").await, ["w2"]);
    let Renewed::Renewed(same) = harness.renew(renewal("w2", "twice", false, None)).await else {
        panic!("it is renewed")
    };
    assert_eq!(same.subscription.state, State::Active);
    assert!(harness.erase("w2").await);
}

pub(super) async fn a_renewal_costs_no_more_for_its_endpoint(harness: &Harness) {
    let count = harness.count("book").await;
    harness.renew(renewal("r1", "own", true, None)).await;
    let row = || async {
        let rows = harness.rows(" holder").await;
        let mut versions = Vec::new();
        for row in rows {
            let (pk, sk) = row.split_once(' ').expect("two");
            let keys = [("pk", pk), ("sk", sk)];
            let item = harness.stack.item(&harness.stack.tables().audiences, &keys).await.expect("a row");
            versions.push((text(&item, "id").map(str::to_owned), text(&item, "version").map(str::to_owned)));
        }
        versions
    };
    let before = row().await;
    harness.renewed(renewal("r1", "own", false, None)).await;
    assert_eq!(row().await, before, "no row is written");
    assert!(harness.erase("r1").await);
    assert_eq!(harness.count("book").await, count);
}
