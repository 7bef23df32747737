use proptest::prelude::*;

use super::*;
use crate::fixtures::{delivery, subscription, tags, token_keys};

fn keys(keys: &[(&str, u8)]) -> Option<TokenKeys> {
    TokenKeys::new(keys.iter().map(|(id, byte)| ((*id).to_owned(), [*byte; 32])))
}

fn old() -> TokenKeys {
    token_keys()
}

fn new_and_old() -> TokenKeys {
    keys(&[("k2", 2), ("k1", 1)]).expect("two")
}

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn later() -> Timestamp {
    now().plus(AckToken::GRACE)
}

/// A token of each kind, for a subscription and a delivery of the same id.
fn tokens(tenant: &str, id: &str, tag: &[&str], expires_at: Timestamp) -> (SubscriptionToken, AckToken) {
    let tenant = Tenant::parse(tenant).expect("valid");
    let (subscription, delivery) = (subscription(id).id, delivery(id).id);
    let of_subscription = SubscriptionToken {
        tenant: tenant.clone(),
        subscription,
        tags: tags(tag),
        expires_at,
        issued_at: Some(expires_at),
        renewable_until: Some(expires_at),
        issuer: ApiKeyId::parse("4Xb0m2Qp9Lk7"),
    };
    (of_subscription, AckToken { tenant, delivery, expires_at })
}

/// The texts of both, made with these keys.
fn texts(keys: &TokenKeys, (subscription, ack): &(SubscriptionToken, AckToken)) -> [String; 2] {
    [keys.subscription(subscription), keys.ack(ack)]
}

/// Which kinds of token these keys read a text as.
fn kinds(keys: &TokenKeys, text: &str, now: Timestamp) -> [bool; 2] {
    [keys.read_subscription(text, now).is_some(), keys.read_ack(text, now).is_some()]
}

const NEITHER: [bool; 2] = [false, false];

proptest! {
    #[test]
    fn a_token_reads_back(
        tenant in "[a-z0-9][a-z0-9_-]{0,62}",
        id in "[A-Za-z0-9_-]{1,64}",
        tag in prop::collection::btree_set("[a-z0-9][a-z0-9_-]{0,31}", 0..=10),
        left in 1..10_000_000_000_000i64,
    ) {
        let tag: Vec<&str> = tag.iter().map(String::as_str).collect();
        let tokens = tokens(&tenant, &id, &tag, Timestamp::from_ms(now().as_ms() + left));
        let [subscription, ack] = texts(&old(), &tokens);
        prop_assert!(ack.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'), "no JSON escapes");
        prop_assert_eq!(old().read_subscription(&subscription, now()), Some(tokens.0));
        prop_assert_eq!(old().read_ack(&ack, now()), Some(tokens.1));
    }

    #[test]
    fn a_token_with_one_changed_byte_is_refused(place: prop::sample::Index, with: char) {
        for token in texts(&old(), &tokens("acme", "order-17", &["news"], later())) {
            let at = place.index(token.len());
            let mut changed = token.clone();
            changed.replace_range(at..=at, &with.to_string());
            if changed != token {
                prop_assert_eq!(kinds(&new_and_old(), &changed, now()), NEITHER, "{}", &changed);
            }
        }
    }

    #[test]
    fn any_other_text_is_refused(text in ".{0,300}", parts in prop::collection::vec("(rds_|k1|[A-Za-z0-9_-]{0,30})", 0..7)) {
        for text in [text, parts.join("."), format!("rds_k1.{}", parts.join("."))] {
            prop_assert_eq!(kinds(&old(), &text, now()), NEITHER);
        }
    }
}

/// Every position and every base64url character: no spare bit is ignored.
#[test]
fn no_other_text_is_the_same_token() {
    let tokens = texts(&old(), &tokens("acme", "order-17", &[], later()));
    let characters = ('0'..='9').chain('A'..='Z').chain('a'..='z').chain("-_.=".chars());
    for (token, with) in tokens.iter().flat_map(|token| characters.clone().map(move |with| (token, with))) {
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed.replace_range(at..=at, &with.to_string());
            assert_eq!(kinds(&old(), &changed, now()) != NEITHER, changed == *token, "{changed}");
        }
        for longer in [format!("{token}{with}"), format!("{with}{token}"), token[1..].to_owned()] {
            assert_eq!(kinds(&old(), &longer, now()), NEITHER, "{longer}");
        }
    }
}

#[test]
fn a_token_is_valid_before_its_end_and_only_as_its_kind() {
    let last = Timestamp::from_ms(i64::MAX);
    let before = Timestamp::from_ms(later().as_ms() - 1);
    for (end, now, is_valid) in [(later(), before, true), (later(), later(), false), (last, now(), true)] {
        let [subscription, ack] = texts(&old(), &tokens("acme", "d1", &[], end));
        assert_eq!(kinds(&old(), &subscription, now), [is_valid, false], "{end:?} at {now:?}");
        assert_eq!(kinds(&old(), &ack, now), [false, is_valid], "{end:?} at {now:?}");
    }
}

#[test]
fn the_mac_of_one_kind_is_not_accepted_in_the_form_of_the_other() {
    let [subscription, ack] = texts(&old(), &tokens("acme", "s1", &[], later()));
    for (token, kind, other) in [(subscription, SUBSCRIPTION, ACK), (ack, ACK, SUBSCRIPTION)] {
        let (text, _) = token.rsplit_once(SEPARATOR).expect("it has a MAC");
        let forged = signed(old().0.current(), &Kind { name: other.name, ..kind }, text.to_owned());
        assert_eq!(forged.len(), token.len());
        assert_eq!(kinds(&old(), &forged, now()), NEITHER, "{forged}");
    }
}

#[test]
fn tokens_of_a_former_key_are_read_and_new_ones_use_the_current() {
    let tokens = tokens("acme", "d1", &["news"], later());
    let (first, second) = (texts(&old(), &tokens), texts(&new_and_old(), &tokens));
    assert!(first[0].starts_with("rds_k1.") && second[0].starts_with("rds_k2."));
    assert_eq!(new_and_old().read_subscription(&first[0], now()), Some(tokens.0));
    assert_eq!(new_and_old().read_ack(&first[1], now()), Some(tokens.1));
    let other = keys(&[("k1", 9)]).expect("a key");
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(kinds(&old(), second, now()), NEITHER, "the key is not known");
        assert_eq!(kinds(&other, first, now()), NEITHER, "another key of the same id");
    }
}

#[test]
fn an_ack_token_is_short_and_the_longest_names_are_read_back() {
    let id = DeliveryId::from_idempotency_key("order-17");
    assert_eq!(id.as_str().len(), 43);
    assert_eq!(old().ack(&tokens("acme", id.as_str(), &[], later()).1).len(), 82);

    let tags: Vec<String> = (0..10).map(|n| format!("{n}{}", "t".repeat(31))).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let longest = tokens(&"t".repeat(63), &"i".repeat(64), &tags, Timestamp::from_ms(i64::MAX));
    let keys = keys(&[(&"k".repeat(32), 1)]).expect("a key");
    let [subscription, ack] = texts(&keys, &longest);
    assert!(subscription.len() < 1000, "{}", subscription.len());
    assert_eq!(keys.read_subscription(&subscription, now()), Some(longest.0));
    assert_eq!((ack.len(), keys.read_ack(&ack, now())), (194, Some(longest.1)));
}

#[test]
fn keys_have_unique_ids_and_debug_shows_the_ids_alone() {
    let long = "k".repeat(33);
    for bad in [&[][..], &[""], &["a.b"], &["a", "a"], &["é"], &[long.as_str()]] {
        let of = bad.iter().map(|id| (*id, 1)).collect::<Vec<_>>();
        assert!(keys(&of).is_none(), "{bad:?}");
    }
    assert_eq!(format!("{:?}", new_and_old()), r#"TokenKeys(["k2", "k1"])"#);
}

/// What 0.1.0 wrote, byte for byte.
#[test]
fn a_token_of_the_previous_release_is_read_without_times_and_issuer() {
    let end = now().plus(SubscriptionToken::RENEWAL);
    let payload = format!(r#"{{"t":"acme","s":"s1","g":["news"],"e":{}}}"#, end.as_ms());
    let text = format!("rds_k1.{}", URL_SAFE_NO_PAD.encode(payload));
    let text = signed(old().0.current(), &SUBSCRIPTION, text);
    let token = old().read_subscription(&text, now()).expect("it is valid");
    assert_eq!((&token.issued_at, &token.renewable_until, &token.issuer), (&None, &None, &None));
    assert_eq!((token.issued_at(), token.expires_at), (now(), end), "it was a renewal token");
}
