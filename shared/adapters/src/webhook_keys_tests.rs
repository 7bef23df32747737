use hkdf::Hkdf;
use proptest::prelude::*;
use redial_core::access::AckToken;
use redial_core::identity::{DeliveryId, SubscriptionId};
use sha2::Sha256;

use super::*;

const OLD: &str = "k1:0123456789abcdef0123456789abcdef";
const NEW_AND_OLD: &str = "k2:fedcba9876543210fedcba9876543210, k1:0123456789abcdef0123456789abcdef";

fn keys(text: &str) -> WebhookKeys {
    WebhookKeys::parse(text).expect("valid")
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

fn subscription(name: &str, id: &str) -> SubscriptionKey {
    SubscriptionKey { tenant: tenant(name), id: SubscriptionId::parse(id).expect("valid") }
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint::parse(url).expect("valid")
}

fn here() -> Endpoint {
    endpoint("https://shop.example/hooks")
}

fn target(secrets: SigningSecrets, headers: CustomHeaders) -> WebhookTarget {
    WebhookTarget { endpoint: here(), secrets, headers }
}

fn one() -> WebhookTarget {
    target(one_secret(), one_header())
}

fn one_secret() -> SigningSecrets {
    let secret = WebhookSecret::new(vec![7; 32]).expect("valid");
    SigningSecrets::new(vec![(secret, None)]).expect("one")
}

fn one_header() -> CustomHeaders {
    CustomHeaders::new(vec![("authorization".to_owned(), "Bearer s3cret".to_owned())]).expect("valid")
}

prop_compose! {
    fn secrets()(
        all in prop::collection::vec((prop::collection::vec(any::<u8>(), 24..=64), any::<Option<i64>>()), 0..=5),
    ) -> SigningSecrets {
        let secret = |bytes| WebhookSecret::new(bytes).expect("24 to 64 bytes");
        let all = all.into_iter().map(|(bytes, end)| (secret(bytes), end.map(Timestamp::from_ms))).collect();
        SigningSecrets::new(all).expect("at most five")
    }
}

prop_compose! {
    fn headers()(all in prop::collection::btree_map("x-[a-z0-9]{1,20}", "[!-~]{1,40}", 0..=20)) -> CustomHeaders {
        CustomHeaders::new(all.into_iter().collect()).expect("valid")
    }
}

proptest! {
    #[test]
    fn sealed_text_opens_for_its_subscription_only(
        secrets in secrets(), headers in headers(), id in "[A-Za-z0-9_-]{1,63}"
    ) {
        let key = subscription("acme", &id);
        let target = target(secrets, headers);
        let sealed = keys(OLD).seal(&key, &target);
        prop_assert_eq!(keys(OLD).open(&key, here(), &sealed), Ok(target));
        let longer = format!("{id}-");
        for other in [subscription("globex", &id), subscription("acme", &longer)] {
            prop_assert_eq!(keys(OLD).open(&other, here(), &sealed), Err(NotOpened::UnknownKey));
        }
    }

    #[test]
    fn a_changed_text_does_not_open(place in any::<prop::sample::Index>(), with in "[A-Za-z0-9+/:]") {
        let key = subscription("acme", "s1");
        let sealed = keys(OLD).seal(&key, &one());
        let place = place.index(sealed.len());
        let mut changed = sealed.clone();
        changed.replace_range(place..=place, &with);
        prop_assume!(changed != sealed);
        prop_assert_eq!(keys(NEW_AND_OLD).open(&key, here(), &changed), Err(NotOpened::UnknownKey));
    }
}

#[test]
fn an_older_key_opens_and_no_longer_seals() {
    let key = subscription("acme", "s1");
    let old = keys(OLD).seal(&key, &one());
    assert_eq!(keys(NEW_AND_OLD).open(&key, here(), &old), Ok(one()));
    let new = keys(NEW_AND_OLD).seal(&key, &one());
    assert!(old.starts_with("k1:") && new.starts_with("k2:"));
    assert_eq!(keys(OLD).open(&key, here(), &new), Err(NotOpened::UnknownKey), "the key is not known");
    let other = keys("k1:another0another0another0another0");
    assert_eq!(other.open(&key, here(), &old), Err(NotOpened::UnknownKey), "another key of the same id");
}

#[test]
fn sealing_twice_makes_two_texts_without_plaintext_and_invalid_text_does_not_open() {
    let key = subscription("acme", "s1");
    let seal = || keys(OLD).seal(&key, &one());
    assert_ne!(seal(), seal());
    assert!(!seal().contains("s3cret") && !seal().contains("whsec_"));
    for text in ["", "k1", "k1:", "k1:!", "k1:AAAA", "k9:AAAA", ":", &format!("k1:{}", "A".repeat(400))] {
        assert_eq!(keys(OLD).open(&key, here(), text), Err(NotOpened::UnknownKey), "{text}");
    }
}

#[test]
fn sealed_text_opens_at_its_endpoint_only() {
    let key = subscription("acme", "s1");
    let sealed = keys(OLD).seal(&key, &one());
    for other in [
        "https://attacker.example/hooks",
        "https://shop.example/hooks/",
        "https://shop.example/hooks?to=attacker",
        "https://shop.example:8443/hooks",
        "https://hooks.shop.example/hooks",
    ] {
        assert_eq!(keys(OLD).open(&key, endpoint(other), &sealed), Err(NotOpened::OtherEndpoint), "{other}");
    }
    let again = endpoint(here().expose().as_str());
    assert_eq!(keys(OLD).open(&key, again, &sealed), Ok(one()), "as it is stored");
}

/// Seals a JSON text as every release has, whatever it holds.
fn sealed_json(key: &SubscriptionKey, json: &str) -> String {
    let (mut text, nonce) = (json.as_bytes().to_vec(), [9; NONCE_LEN]);
    let seal = &keys(OLD).0[0].seal;
    seal.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(key), &mut text).expect("sealed");
    format!("k1:{}", STANDARD.encode([nonce.as_slice(), &text].concat()))
}

#[test]
fn two_releases_open_what_the_other_sealed() {
    let key = subscription("acme", "s1");
    let secret = one_secret().all()[0].0.expose();
    let before =
        format!(r#"{{"secrets":[{{"secret":"{secret}"}}],"headers":[["authorization","Bearer s3cret"]]}}"#);
    assert_eq!(keys(OLD).open(&key, here(), &sealed_json(&key, &before)), Ok(one()));

    // What 0.1.0 reads: these two fields, and no error for another.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Before {
        secrets: Vec<serde_json::Value>,
        headers: Vec<(String, String)>,
    }
    let sealed = keys(OLD).seal(&key, &one());
    let (_, text) = sealed.split_once(':').expect("it names its key");
    let mut bytes = STANDARD.decode(text).expect("base64");
    let (nonce, text) = bytes.split_at_mut(NONCE_LEN);
    let nonce = Nonce::try_assume_unique_for_key(nonce).expect("twelve bytes");
    let text =
        keys(OLD).0[0].seal.open_in_place(nonce, aad(&key), text).expect("the associated data of 0.1.0");
    let expected: Before = serde_json::from_str(&before).expect("JSON");
    assert_eq!(serde_json::from_slice::<Before>(text).expect("JSON"), expected);
}

/// HKDF-SHA256 (RFC 5869) of the old key without salt, by RustCrypto.
fn derived(info: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let hkdf = Hkdf::<Sha256>::new(None, b"0123456789abcdef0123456789abcdef");
    hkdf.expand(info, &mut bytes).expect("32 bytes");
    bytes
}

#[test]
fn each_tenant_and_key_has_its_own_hkdf_secret() {
    let expected = WebhookSecret::new(derived(b"redial webhook signacme").to_vec()).expect("valid");
    let of = |text: &str, name: &str| keys(text).secrets_of(&tenant(name));
    assert_eq!(of(OLD, "acme"), [expected]);

    let both = of(NEW_AND_OLD, "acme");
    assert_eq!((both.len(), &both[1..]), (2, of(OLD, "acme").as_slice()));
    assert_ne!(both[0], both[1]);
    assert_ne!(of(OLD, "acme"), of(OLD, "globex"));
}

/// With a label of its own: no tenant's signing secret is a token's key.
#[test]
fn tokens_are_made_with_the_current_key_and_read_with_each() {
    let expected = TokenKeys::new([("k1".to_owned(), derived(b"redial access token"))]).expect("a key");

    let expires_at = Timestamp::from_secs(200);
    let delivery = DeliveryId::parse("order-17").expect("valid");
    let token = AckToken { tenant: tenant("acme"), delivery, expires_at };
    let text = token_keys(OLD).expect("keys").ack(&token);
    assert_eq!(text, expected.ack(&token));
    let now = Timestamp::from_secs(100);
    assert_eq!(keys(NEW_AND_OLD).token_keys().read_ack(&text, now), Some(token.clone()));
    let newer = keys(NEW_AND_OLD).token_keys().ack(&token);
    assert!(newer.starts_with("k2."), "{newer}");
    assert_eq!(keys(OLD).token_keys().read_ack(&newer, now), None);
}

#[test]
fn a_secret_that_secrets_manager_generated_is_read_and_short_or_duplicate_keys_are_refused() {
    let generated = keys(r#"{"id":"k1","key":"0123456789abcdef0123456789abcdef"}"#);
    assert_eq!(generated.secrets_of(&tenant("acme")), keys(OLD).secrets_of(&tenant("acme")));
    assert!(WebhookKeys::parse(r#"{"id":"k1","key":"punctuation: all, of it!"}"#).is_ok());
    let long = format!("{}:0123456789abcdef", "k".repeat(33));
    let twice = "k1:0123456789abcdef,k1:0123456789abcdef";
    for bad in ["", "k1", "k1:short", "k 1:0123456789abcdef", twice, "{}", &long] {
        assert_eq!(WebhookKeys::parse(bad).err(), Some(WebhookKeysError), "{bad}");
    }
    assert_eq!(format!("{:?}", keys(NEW_AND_OLD)), r#"["k2", "k1"]"#, "the ids alone");
}

#[test]
fn a_new_secret_is_long_enough_and_distinct() {
    let (one, other) = (new_secret().expect("random"), new_secret().expect("random"));
    assert_eq!(one.expose_bytes().len(), SECRET_BYTES);
    assert_ne!(one, other);
}
