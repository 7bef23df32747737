//! The store of subscriptions on DynamoDB: what is stored, counted and listed after every change, and after concurrent ones.

use futures_util::future::join_all;
use redial_core::{
    endpoint::{Endpoint, HashKeys, Origin},
    identity::SubscriptionKey,
    push_target::{PushKeys, PushTarget},
    reason::Reason,
    recipient::Recipient,
    subscription::{Consent, Document, Permit, Renewal, SameEndpoint, State, Subscription},
    tag::{Tag, Tags},
    webhook::WebhookTarget,
};
use redial_engine::ports::{
    Erased, Found, Renewed, SubscriptionBook as _, SubscriptionHealth as _, SubscriptionUpdate,
    Subscriptions as _,
};

use super::Harness;
use crate::prelude::*;

pub(super) const TENANT: &str = "book";

pub(super) fn key(id: &str) -> SubscriptionKey {
    subscription_key(TENANT, id)
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

pub(super) fn later() -> Timestamp {
    now().plus(Duration::from_secs(60))
}

pub(super) fn hash_keys() -> HashKeys {
    HashKeys::parse("k1:0123456789abcdef").expect("valid")
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub(super) fn tags(texts: &[&str]) -> Tags {
    Tags::new(texts.iter().map(|text| Tag::parse(text).expect("valid")).collect()).expect("valid")
}

pub(super) fn endpoint(path: &str) -> Endpoint {
    Endpoint::parse(&format!("https://push.example/s3cret-{path}")).expect("valid")
}

/// The subscription `id` as its browser hands it in.
pub(super) fn renewal(id: &str, path: &str, with_consent: bool, of: Option<&[&str]>) -> Renewal {
    let consent = with_consent.then(|| Consent {
        at: now(),
        prompt_version: "v1".to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("valid"),
    });
    let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
    let target = PushTarget { endpoint: endpoint(path), keys, vapid_key_id: None };
    Renewal {
        key: key(id),
        document: Document { target, tags: of.map(tags), time_zone: None, consent, ends_at: None },
        seen_at: Some(later()),
        permit: None,
    }
}

impl Harness {
    pub(super) async fn renew(&self, renewal: Renewal) -> Renewed {
        self.store.renew(renewal, SameEndpoint::Replace, later()).await.expect("it is answered")
    }

    pub(super) async fn renewed(&self, renewal: Renewal) -> Subscription {
        let Renewed::Renewed(it) = self.renew(renewal).await else { panic!("it is renewed") };
        it.subscription
    }

    /// How many are counted, and the tags under which audiences have one.
    pub(super) async fn counted(&self, id: &str) -> (u64, Vec<String>) {
        (self.count(TENANT).await, self.listed(id).await)
    }

    pub(super) async fn find(&self, id: &str) -> Found {
        self.store.find(&key(id)).await.expect("it is answered")
    }

    pub(super) async fn stored(&self, id: &str) -> Subscription {
        let Found::Stored(it) = self.find(id).await else { panic!("{id} is stored") };
        *it
    }

    pub(super) async fn erase(&self, id: &str) -> bool {
        self.store.erase(&key(id), None, &hash_keys(), later()).await.expect("it is answered") == Erased::Yes
    }

    async fn listed(&self, id: &str) -> Vec<String> {
        let rows = self.rows(&format!(" {id}")).await;
        let tag = |row: &String| row.strip_prefix("book#")?.split('#').next().map(str::to_owned);
        rows.iter().filter_map(tag).collect()
    }
}

pub(super) async fn a_subscription_is_renewed_by_its_browser(harness: &Harness) {
    assert_eq!(harness.renew(renewal("a", "1", false, Some(&["news"]))).await, Renewed::NeedsConsent);
    assert_eq!((harness.find("a").await, harness.counted("a").await), (Found::Unknown, (0, vec![])));

    let Renewed::New(new) = harness.renew(renewal("a", "1", true, Some(&["news", "sport"]))).await else {
        panic!("it is new")
    };
    let new = new.subscription;
    assert_eq!(new, harness.stored("a").await);
    assert_eq!((new.state, new.created_at, new.last_seen_at), (State::Active, Some(later()), Some(later())));
    assert_eq!(harness.counted("a").await, (1, owned(&["news", "sport"])));

    // A flag belongs to the endpoint.
    let update = SubscriptionUpdate { key: key("a"), endpoint: endpoint("1"), at: now() };
    harness.store.flag(update).await.expect("it is flagged");
    harness.renewed(renewal("a", "1", false, Some(&["sport", "shop"]))).await;
    let same = harness.stored("a").await;
    assert_eq!((same.flagged_at, same.consent.is_some()), (Some(now()), true));
    assert_eq!(
        (&same.tags, harness.listed("a").await),
        (&tags(&["shop", "sport"]), owned(&["shop", "sport"]))
    );

    harness.renewed(renewal("a", "2", false, None)).await;
    let moved = harness.stored("a").await;
    assert_eq!((moved.flagged_at, moved.state, &moved.tags), (None, State::Active, &same.tags));
    assert_eq!((moved.recipient.endpoint(), moved.consent), (&endpoint("2"), same.consent));
    assert_eq!(harness.counted("a").await, (1, owned(&["shop", "sport"])));

    // An operator's put replaces all of it.
    harness.store.put(&Subscription::new(key("a"), moved.recipient), now()).await.expect("it is stored");
    assert_eq!(harness.stored("a").await.created_at, Some(later()));
    assert_eq!(harness.counted("a").await, (1, vec![]));
}

pub(super) async fn an_erased_subscription_leaves_a_tombstone(harness: &Harness) {
    harness.renew(renewal("a", "2", true, Some(&["news"]))).await;
    assert!(harness.erase("a").await);
    assert!(!harness.erase("a").await, "it is erased already");
    assert!(!harness.erase("unknown").await);
    let endpoint_hash = hash_keys().endpoint(&endpoint("2"));
    assert_eq!(harness.find("a").await, Found::Deleted { endpoint_hash: Some(endpoint_hash), at: later() });
    let (table, pk) = (&harness.stack.tables().subscriptions, key("a").to_string());
    let item = harness.stack.item(table, &[("pk", &pk)]).await.expect("a tombstone");
    let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["deleted_at", "endpoint_hash", "expires_at", "id", "pk", "state", "tenant"]);
    assert!(!format!("{item:?}").contains("s3cret"));
    assert_eq!(harness.counted("a").await, (0, vec![]));

    // Dispatch and operators do not find it.
    let loaded = harness.store.load(vec![key("a")]).await;
    assert_eq!(loaded, [Ok(None)]);
    assert!(!harness.store.enable(&key("a"), now()).await.expect("it is answered"));
    let update = SubscriptionUpdate { key: key("a"), endpoint: endpoint("2"), at: now() };
    harness.store.mark_gone(update.clone()).await.expect("it is answered");
    assert!(
        !harness.store.remove(update, Reason::Gone).await.expect("it is answered"),
        "there is nothing to prune"
    );
    assert!(matches!(harness.find("a").await, Found::Deleted { .. }));
    let failing = harness.store.failing(&key("a").tenant).await.expect("it is answered");
    assert_eq!(failing, []);

    assert_eq!(harness.renew(renewal("a", "2", false, None)).await, Renewed::NeedsConsent);
    assert!(matches!(harness.renew(renewal("a", "2", true, None)).await, Renewed::New(_)));
    assert_eq!(harness.count(TENANT).await, 1);
    assert!(harness.erase("a").await);
}

pub(super) async fn a_token_holds_for_the_subscription_that_it_was_made_for(harness: &Harness) {
    let by_token = |path: &str, of: &[&str], issued_at: Timestamp, begins| Renewal {
        permit: Some(Permit { issued_at, begins, tags: tags(&["news", "sport"]) }),
        ..renewal("t", path, true, Some(of))
    };
    let after = |secs| later().plus(Duration::from_secs(secs));
    assert!(matches!(harness.renew(by_token("1", &["news"], now(), true)).await, Renewed::New(_)));
    assert_eq!(harness.stored("t").await.authorized_at, Some(now()));
    let renewed = harness.renew(by_token("2", &["news", "sport"], after(0), false)).await;
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    assert_eq!(harness.stored("t").await.authorized_at, Some(now()), "a move keeps it");
    harness.renewed(renewal("t", "2", false, Some(&["news"]))).await;
    assert_eq!(harness.stored("t").await.authorized_at, Some(later()), "the sender set tags");
    let older = by_token("2", &["sport"], now(), false);
    assert_eq!(harness.renew(older.clone()).await, Renewed::TokenEnded);

    assert!(harness.erase("t").await);
    for (issued_at, begins) in [(later(), true), (after(9), false)] {
        assert_eq!(harness.renew(by_token("3", &[], issued_at, begins)).await, Renewed::TokenEnded);
    }
    assert!(matches!(harness.renew(by_token("3", &[], after(1), true)).await, Renewed::New(_)));
    let erase = |permit: Permit| async move {
        harness.store.erase(&key("t"), Some(&permit), &hash_keys(), later()).await.expect("it is answered")
    };
    assert_eq!(erase(older.permit.expect("a token's")).await, Erased::TokenEnded);
    let own = by_token("3", &[], after(1), true).permit.expect("a token's");
    assert_eq!((erase(own.clone()).await, erase(own).await), (Erased::Yes, Erased::Nothing));
}

pub(super) async fn a_gone_subscription_is_pruned(harness: &Harness) {
    harness.renew(renewal("b", "1", true, Some(&["news"]))).await;
    let update = SubscriptionUpdate { key: key("b"), endpoint: endpoint("1"), at: now() };
    assert!(
        !harness.store.remove(update.clone(), Reason::Gone).await.expect("it is answered"),
        "it is not off"
    );
    harness.store.mark_gone(update.clone()).await.expect("it is answered");
    let same = harness.renewed(renewal("b", "1", false, None)).await;
    assert_eq!(same.state, State::Gone, "the same endpoint does not come back");
    assert!(harness.store.remove(update, Reason::Gone).await.expect("it is answered"));
    assert_eq!((harness.find("b").await, harness.counted("b").await), (Found::Unknown, (0, vec![])));
}

pub(super) async fn a_webhook_is_not_a_browser_s_to_renew(harness: &Harness) {
    let webhook = Recipient::Webhook(WebhookTarget::at(endpoint("hook")));
    harness.store.put(&Subscription::new(key("h"), webhook), now()).await.expect("it is stored");
    assert_eq!(harness.renew(renewal("h", "1", true, None)).await, Renewed::IsAWebhook);
    assert!(!harness.erase("h").await);
    assert!(matches!(harness.find("h").await, Found::Stored(_)));
    assert_eq!(harness.count(TENANT).await, 1);
}

pub(super) async fn concurrent_changes_leave_rows_that_agree(harness: &Harness) {
    let before = harness.count(TENANT).await;
    for round in 0..6 {
        let id = format!("m{round}");
        let tag = |n: usize| ["one", "two", "three", "four"][n % 4];
        let puts = (0..4).map(|n| harness.renew(renewal(&id, &n.to_string(), true, Some(&[tag(n), "all"]))));
        let put = join_all(puts).await;
        assert_eq!(put.iter().filter(|it| matches!(it, Renewed::New(_))).count(), 1, "{put:?}");
        let stored = harness.stored(&id).await;
        let listed: Vec<String> = stored.tags.iter().map(ToString::to_string).collect();
        assert_eq!(harness.counted(&id).await, (before + 1, listed));

        let put = harness.renew(renewal(&id, "new", true, Some(&["news"])));
        let (erased, _) = futures_util::join!(harness.erase(&id), put);
        assert!(erased, "one was stored before and after");
        let expected = match harness.find(&id).await {
            Found::Stored(_) => (before + 1, owned(&["news"])),
            Found::Deleted { .. } => (before, vec![]),
            Found::Unknown => panic!("a tombstone stays"),
        };
        assert_eq!(harness.counted(&id).await, expected);
        harness.erase(&id).await;
    }
}
