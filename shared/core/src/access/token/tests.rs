use proptest::prelude::*;

use super::*;
use crate::fixtures::{delivery, subscription, tags, token_keys};
use crate::identity::{DeliveryId, Tenant};
use crate::tag::{Tag, Tags};
use crate::time::Timestamp;

fn old() -> TokenKeys {
    token_keys()
}

fn new_and_old() -> TokenKeys {
    TokenKeys::new([("k2".to_owned(), [2; 32]), ("k1".to_owned(), [1; 32])]).expect("keys")
}

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn of_subscription(tenant: &str, id: &str, tags: Tags, expires_at: Timestamp) -> SubscriptionToken {
    let tenant = Tenant::parse(tenant).expect("valid");
    SubscriptionToken { tenant, subscription: subscription(id).id, tags, expires_at }
}

fn of_ack(tenant: &str, id: &str, expires_at: Timestamp) -> AckToken {
    let tenant = Tenant::parse(tenant).expect("valid");
    AckToken { tenant, delivery: delivery(id).id, expires_at }
}

fn later() -> Timestamp {
    now().plus(AckToken::GRACE)
}

/// The longest that names can be.
fn longest() -> (String, String, Tags) {
    let tags = (0..10).map(|n| Tag::parse(&format!("{n}{}", "t".repeat(31))).expect("a tag"));
    ("t".repeat(63), "i".repeat(64), Tags::new(tags.collect()).expect("ten"))
}

proptest! {
    #[test]
    fn a_token_reads_back(
        tenant in "[a-z0-9][a-z0-9_-]{0,62}",
        id in "[A-Za-z0-9_-]{1,64}",
        tag in prop::collection::btree_set("[a-z0-9][a-z0-9_-]{0,31}", 0..=10),
        left in 1..10_000_000_000_000i64,
    ) {
        let end = Timestamp::from_ms(now().as_ms() + left);
        let tag: Vec<&str> = tag.iter().map(String::as_str).collect();
        let token = of_subscription(&tenant, &id, tags(&tag), end);
        prop_assert_eq!(old().read_subscription(&old().subscription(&token), now()), Some(token));
        let token = of_ack(&tenant, &id, end);
        let text = old().ack(&token);
        prop_assert!(text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'), "no JSON escapes");
        prop_assert_eq!(old().read_ack(&text, now()), Some(token));
    }

    #[test]
    fn a_token_with_one_changed_byte_is_refused(place: prop::sample::Index, with: char) {
        let subscription = old().subscription(&of_subscription("acme", "s1", tags(&["news"]), later()));
        let ack = old().ack(&of_ack("acme", "order-17", later()));
        for token in [subscription, ack] {
            let at = place.index(token.len());
            let mut changed = token.clone();
            changed.replace_range(at..=at, &with.to_string());
            if changed != token {
                prop_assert_eq!(new_and_old().read_subscription(&changed, now()), None, "{}", &changed);
                prop_assert_eq!(new_and_old().read_ack(&changed, now()), None, "{}", &changed);
            }
        }
    }

    #[test]
    fn any_other_text_is_refused(text in ".{0,300}", parts in prop::collection::vec("(rds_|k1|[A-Za-z0-9_-]{0,30})", 0..7)) {
        for text in [text, parts.join("."), format!("rds_k1.{}", parts.join("."))] {
            prop_assert_eq!(old().read_subscription(&text, now()), None);
            prop_assert_eq!(old().read_ack(&text, now()), None);
        }
    }
}

/// Every position and every base64url character: no spare bit is ignored.
#[test]
fn no_other_text_is_the_same_token() {
    let tokens = [
        old().subscription(&of_subscription("acme", "s1", Tags::default(), later())),
        old().ack(&of_ack("acme", "order-17", later())),
    ];
    let characters = ('0'..='9').chain('A'..='Z').chain('a'..='z').chain("-_.=".chars());
    for (token, with) in tokens.iter().flat_map(|token| characters.clone().map(move |with| (token, with))) {
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed.replace_range(at..=at, &with.to_string());
            let is_it = old().read_subscription(&changed, now()).is_some()
                || old().read_ack(&changed, now()).is_some();
            assert_eq!(is_it, changed == *token, "{changed}");
        }
        for longer in [format!("{token}{with}"), format!("{with}{token}"), token[1..].to_owned()] {
            assert_eq!(old().read_subscription(&longer, now()), None, "{longer}");
            assert_eq!(old().read_ack(&longer, now()), None, "{longer}");
        }
    }
}

#[test]
fn a_token_is_valid_until_the_millisecond_before_it_ends() {
    let end = later();
    let before = Timestamp::from_ms(end.as_ms() - 1);
    let token = old().subscription(&of_subscription("acme", "s1", Tags::default(), end));
    assert!(old().read_subscription(&token, before).is_some());
    assert_eq!(old().read_subscription(&token, end), None);
    let token = old().ack(&of_ack("acme", "d1", end));
    assert!(old().read_ack(&token, before).is_some());
    assert_eq!(old().read_ack(&token, end), None);
    let never = old().ack(&of_ack("acme", "d1", Timestamp::from_ms(i64::MAX)));
    assert!(old().read_ack(&never, now()).is_some(), "the last millisecond that there is");
}

#[test]
fn one_kind_of_token_is_never_accepted_as_another() {
    let subscription = old().subscription(&of_subscription("acme", "s1", Tags::default(), later()));
    let ack = old().ack(&of_ack("acme", "s1", later()));
    assert_eq!(old().read_ack(&subscription, now()), None);
    assert_eq!(old().read_subscription(&ack, now()), None);
    // Also in the other's form: the same text and the same key give another MAC.
    let (text, _) = ack.rsplit_once('.').expect("it has a MAC");
    let key = &old().0[0];
    let other = Kind { name: "redial subscription token", mac_bytes: 16 };
    assert_eq!(old().read_ack(&key.signed(&other, text.to_owned()), now()), None);
    let (text, _) = subscription.rsplit_once('.').expect("it has a MAC");
    let other = Kind { name: "redial ack token", mac_bytes: 32 };
    assert_eq!(old().read_subscription(&key.signed(&other, text.to_owned()), now()), None);
}

#[test]
fn tokens_of_a_former_key_are_read_and_new_ones_use_the_current() {
    let subscription = of_subscription("acme", "s1", tags(&["news"]), later());
    let ack = of_ack("acme", "d1", later());
    let (first, second) = (old().subscription(&subscription), new_and_old().subscription(&subscription));
    assert!(first.starts_with("rds_k1.") && second.starts_with("rds_k2."));
    assert_eq!(new_and_old().read_subscription(&first, now()), Some(subscription));
    assert_eq!(old().read_subscription(&second, now()), None, "the key is not known");
    let (first, second) = (old().ack(&ack), new_and_old().ack(&ack));
    assert_eq!(new_and_old().read_ack(&first, now()), Some(ack));
    assert_eq!(old().read_ack(&second, now()), None);
    let other = TokenKeys::new([("k1".to_owned(), [9; 32])]).expect("a key");
    assert_eq!(other.read_ack(&first, now()), None, "another key of the same id");
}

#[test]
fn an_ack_token_is_short() {
    let id = DeliveryId::from_idempotency_key("order-17");
    assert_eq!(id.as_str().len(), 43);
    assert_eq!(old().ack(&of_ack("acme", id.as_str(), later())).len(), 82);
    let (tenant, id, tags) = longest();
    let id_of_key = "k".repeat(32);
    let keys = TokenKeys::new([(id_of_key, [1; 32])]).expect("a key");
    let token = of_ack(&tenant, &id, Timestamp::from_ms(i64::MAX));
    let text = keys.ack(&token);
    assert_eq!((text.len(), keys.read_ack(&text, now())), (194, Some(token)));
    let token = of_subscription(&tenant, &id, tags, Timestamp::from_ms(i64::MAX));
    let text = keys.subscription(&token);
    assert_eq!(
        (text.len() < 900, keys.read_subscription(&text, now())),
        (true, Some(token)),
        "{}",
        text.len()
    );
}

#[test]
fn keys_have_unique_ids_and_debug_shows_the_ids_alone() {
    let keys = |ids: &[&str]| TokenKeys::new(ids.iter().map(|id| ((*id).to_owned(), [1; 32])));
    for bad in [&[][..], &[""], &["a.b"], &["a", "a"], &["é"], &[&"k".repeat(33)]] {
        assert!(keys(bad).is_none(), "{bad:?}");
    }
    assert_eq!(format!("{:?}", new_and_old()), r#"["k2", "k1"]"#);
}
