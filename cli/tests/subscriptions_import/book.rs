//! The book of the front door on DynamoDB: what is stored, counted and listed after every step, and after steps that meet.

use std::time::Duration;

use futures_util::future::join_all;
use redial_core::{
    endpoint::{Endpoint, HashKeys, Origin},
    push_target::{PushKeys, PushTarget},
    recipient::Recipient,
    subscription::{Consent, Document, Renewal, State, Subscription},
    tag::{Tag, Tags},
    time::Timestamp,
    webhook::WebhookTarget,
};
use redial_engine::ports::{
    Found, Renewed, SubscriptionBook as _, SubscriptionHealth as _, SubscriptionUpdate, Subscriptions as _,
};

use super::{AUTH, P256DH, World, key};

const TENANT: &str = "book";

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn later() -> Timestamp {
    now().plus(Duration::from_secs(60))
}

fn hash_keys() -> HashKeys {
    HashKeys::parse("k1:0123456789abcdef").expect("valid")
}

fn tags(texts: &[&str]) -> Tags {
    Tags::new(texts.iter().map(|text| Tag::parse(text).expect("valid")).collect()).expect("valid")
}

fn endpoint(path: &str) -> Endpoint {
    Endpoint::parse(&format!("https://push.example/s3cret-{path}")).expect("valid")
}

/// The subscription `id` handed in, by its browser.
fn renewal(id: &str, path: &str, with_consent: bool, of: Option<&[&str]>) -> Renewal {
    let consent = with_consent.then(|| Consent {
        at: now(),
        prompt_version: "v1".to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("valid"),
    });
    let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
    let target = PushTarget { endpoint: endpoint(path), keys, vapid_key_id: None };
    Renewal {
        key: key(TENANT, id),
        document: Document { target, tags: of.map(tags), consent },
        seen_at: Some(later()),
    }
}

impl World {
    async fn renew(&self, renewal: Renewal) -> Renewed {
        self.store.renew(renewal, later()).await.expect("it is answered")
    }

    async fn find(&self, id: &str) -> Found {
        self.store.find(&key(TENANT, id)).await.expect("it is answered")
    }

    async fn stored(&self, id: &str) -> Subscription {
        let Found::Stored(it) = self.find(id).await else { panic!("{id} is stored") };
        *it
    }

    async fn erase(&self, id: &str) -> bool {
        self.store.erase(&key(TENANT, id), &hash_keys(), later()).await.expect("it is answered")
    }

    /// The tags that audiences have it under.
    async fn listed(&self, id: &str) -> Vec<String> {
        let rows = self.rows(&format!(" {id}")).await;
        rows.iter()
            .filter_map(|row| row.strip_prefix("book#")?.split('#').next().map(str::to_owned))
            .collect()
    }
}

pub(super) async fn all(world: &World) {
    handed_in(world).await;
    erased(world).await;
    pruned(world).await;
    a_webhook_s(world).await;
    meeting(world).await;
}

async fn handed_in(world: &World) {
    assert_eq!(world.renew(renewal("a", "1", false, Some(&["news"]))).await, Renewed::NeedsConsent);
    assert_eq!((world.find("a").await, world.count(TENANT).await), (Found::Unknown, 0));
    assert_eq!(world.listed("a").await, [""; 0]);

    let Renewed::New(new) = world.renew(renewal("a", "1", true, Some(&["news", "sport"]))).await else {
        panic!("it is new")
    };
    assert_eq!(*new, world.stored("a").await);
    assert_eq!((new.state, new.created_at, new.last_seen_at), (State::Active, Some(later()), Some(later())));
    assert_eq!(
        (world.count(TENANT).await, world.listed("a").await),
        (1, vec!["news".to_owned(), "sport".to_owned()])
    );

    // What the push service has said of the endpoint stays with the endpoint.
    let update = SubscriptionUpdate { key: key(TENANT, "a"), endpoint: endpoint("1"), at: now() };
    world.store.flag(update).await.expect("it is flagged");
    let Renewed::Renewed(_) = world.renew(renewal("a", "1", false, Some(&["sport", "shop"]))).await else {
        panic!("it is renewed")
    };
    let same = world.stored("a").await;
    assert_eq!(
        (same.flagged_at, same.consent.is_some(), &same.tags),
        (Some(now()), true, &tags(&["shop", "sport"]))
    );
    assert_eq!(world.listed("a").await, ["shop", "sport"]);

    let Renewed::Renewed(_) = world.renew(renewal("a", "2", false, None)).await else {
        panic!("it is renewed")
    };
    let moved = world.stored("a").await;
    assert_eq!((moved.flagged_at, moved.state, &moved.tags), (None, State::Active, &same.tags));
    assert_eq!((moved.recipient.endpoint(), moved.consent), (&endpoint("2"), same.consent));
    assert_eq!(
        (world.count(TENANT).await, world.listed("a").await),
        (1, vec!["shop".to_owned(), "sport".to_owned()])
    );

    // Stored by an operator, it is what he wrote, and no more.
    world
        .store
        .put(&Subscription::new(key(TENANT, "a"), moved.recipient), now())
        .await
        .expect("it is stored");
    assert_eq!((world.stored("a").await.created_at, world.count(TENANT).await), (Some(later()), 1));
    assert_eq!(world.listed("a").await, [""; 0]);
}

async fn erased(world: &World) {
    world.renew(renewal("a", "2", true, Some(&["news"]))).await;
    assert!(world.erase("a").await);
    assert!(!world.erase("a").await, "it is erased already");
    assert!(!world.erase("nobody").await);
    let endpoint_hash = hash_keys().endpoint(&endpoint("2"));
    assert_eq!(world.find("a").await, Found::Deleted { endpoint_hash, at: later() });
    let item = world.item(&key(TENANT, "a")).await.expect("a tombstone");
    let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["deleted_at", "endpoint_hash", "id", "pk", "state", "tenant"]);
    assert!(!format!("{item:?}").contains("s3cret"));
    assert_eq!((world.count(TENANT).await, world.listed("a").await), (0, vec![]));

    // To dispatch and to operators there is none.
    let loaded = world.store.load(vec![key(TENANT, "a")]).await;
    assert_eq!(loaded, [Ok(None)]);
    assert!(!world.store.enable(&key(TENANT, "a"), now()).await.expect("it is answered"));
    let update = SubscriptionUpdate { key: key(TENANT, "a"), endpoint: endpoint("2"), at: now() };
    world.store.mark_gone(update.clone()).await.expect("it is answered");
    assert!(!world.store.remove(update).await.expect("it is answered"), "there is nothing to prune");
    assert!(matches!(world.find("a").await, Found::Deleted { .. }));
    let failing = world.store.failing(&key(TENANT, "a").tenant).await.expect("it is answered");
    assert_eq!(failing, []);

    assert_eq!(world.renew(renewal("a", "2", false, None)).await, Renewed::NeedsConsent);
    assert!(matches!(world.renew(renewal("a", "2", true, None)).await, Renewed::New(_)));
    assert_eq!(world.count(TENANT).await, 1);
    assert!(world.erase("a").await);
}

async fn pruned(world: &World) {
    world.renew(renewal("b", "1", true, Some(&["news"]))).await;
    let update = SubscriptionUpdate { key: key(TENANT, "b"), endpoint: endpoint("1"), at: now() };
    assert!(!world.store.remove(update.clone()).await.expect("it is answered"), "it is not off");
    world.store.mark_gone(update.clone()).await.expect("it is answered");
    let Renewed::Renewed(same) = world.renew(renewal("b", "1", false, None)).await else {
        panic!("it is renewed")
    };
    assert_eq!(same.state, State::Gone, "the same endpoint does not come back");
    assert!(world.store.remove(update).await.expect("it is answered"));
    assert_eq!((world.find("b").await, world.count(TENANT).await), (Found::Unknown, 0));
    assert_eq!(world.listed("b").await, [""; 0]);
}

async fn a_webhook_s(world: &World) {
    let webhook = Recipient::Webhook(WebhookTarget::at(endpoint("hook")));
    world.store.put(&Subscription::new(key(TENANT, "h"), webhook), now()).await.expect("it is stored");
    assert_eq!(world.renew(renewal("h", "1", true, None)).await, Renewed::IsAWebhook);
    assert!(!world.erase("h").await);
    assert!(matches!(world.find("h").await, Found::Stored(_)));
    assert_eq!(world.count(TENANT).await, 1);
}

/// Whatever order they come in: what is stored, counted and listed agree.
async fn meeting(world: &World) {
    let before = world.count(TENANT).await;
    for round in 0..6 {
        let id = format!("m{round}");
        let tag = |n: usize| ["one", "two", "three", "four"][n % 4];
        let puts = (0..4).map(|n| world.renew(renewal(&id, &n.to_string(), true, Some(&[tag(n), "all"]))));
        let put = join_all(puts).await;
        assert_eq!(put.iter().filter(|it| matches!(it, Renewed::New(_))).count(), 1, "{put:?}");
        let stored = world.stored(&id).await;
        let listed: Vec<String> = stored.tags.iter().map(ToString::to_string).collect();
        assert_eq!((world.listed(&id).await, world.count(TENANT).await), (listed, before + 1));

        let put = world.renew(renewal(&id, "new", true, Some(&["news"])));
        let (erased, _) = futures_util::join!(world.erase(&id), put);
        assert!(erased, "there was one all the time");
        let (listed, count) = match world.find(&id).await {
            Found::Stored(_) => (vec!["news".to_owned()], before + 1),
            Found::Deleted { .. } => (vec![], before),
            Found::Unknown => panic!("a tombstone stays"),
        };
        assert_eq!((world.listed(&id).await, world.count(TENANT).await), (listed, count));
        world.erase(&id).await;
    }
}
