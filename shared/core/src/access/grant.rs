//! What an accepted credential allows, and the stored rights of an API key or of an AWS principal.

use std::collections::BTreeSet;

use super::{ApiKey, ApiKeyId, IamArn, SecretDigest, SubscriptionToken};
use crate::identity::{SubscriptionId, Tenant};
use crate::label::labels;
use crate::subscription::{Permit, Subscription};
use crate::tag::Tags;
use crate::time::Timestamp;

labels! {
    /// What a key may be used for. No scope contains another.
    pub enum Scope {
        Send = "send",
        Subscribe = "subscribe",
        Read = "read",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Principal {
    Key(ApiKeyId),
    Iam(IamArn),
    SubscriptionToken,
}

/// Permissions for one tenant. [`Self::allows`] decides on the whole tenant, and [`Self::allows_on`] on one subscription: a browser's
/// grant never allows the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub tenant: Tenant,
    pub scopes: BTreeSet<Scope>,
    /// `None`: all of the tenant's.
    pub subscription: Option<SubscriptionId>,
    /// What a browser's token permits there; `None`: anything.
    pub permit: Option<Permit>,
    /// The end of renewal tokens that follow from a browser's token.
    pub renewable_until: Option<Timestamp>,
    /// The sender's key or right; a browser's token names the one that it goes back to. `None`: release 0.1.0 made the token.
    pub issuer: Option<ApiKeyId>,
    pub principal: Principal,
}

impl Grant {
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) && self.subscription.is_none()
    }

    pub fn allows_on(&self, scope: Scope, id: &SubscriptionId) -> bool {
        self.scopes.contains(&scope) && self.subscription.as_ref().is_none_or(|only| only == id)
    }

    pub fn allows_tags(&self, tags: &Tags) -> bool {
        self.permit.as_ref().is_none_or(|permit| tags.are_within(&permit.tags))
    }

    /// The token with which the browser renews what this grant has stored. It permits the tags that this grant does there, or those
    /// that a sender has set, and ends when the first token of its chain said.
    pub fn renewal(self, stored: &Subscription, now: Timestamp) -> SubscriptionToken {
        let tags = self.permit.as_ref().map_or_else(|| stored.tags.clone(), |permit| permit.tags_on(stored));
        SubscriptionToken {
            tenant: self.tenant,
            subscription: stored.key.id.clone(),
            tags,
            expires_at: self.renewable_until.unwrap_or_else(|| now.plus(SubscriptionToken::RENEWAL)),
            // Another worker's clock may be ahead, and it is for this subscription.
            issued_at: Some(stored.created_at.map_or(now, |created_at| created_at.max(now))),
            renewable_until: None,
            issuer: self.issuer,
        }
    }
}

impl From<SubscriptionToken> for Grant {
    /// A token allows to manage its one subscription, and to set the tags that it carries.
    fn from(token: SubscriptionToken) -> Self {
        let issued_at = token.issued_at();
        let permit = Permit { issued_at, begins: token.renewable_until.is_some(), tags: token.tags };
        Self {
            tenant: token.tenant,
            scopes: [Scope::Subscribe].into(),
            subscription: Some(token.subscription),
            permit: Some(permit),
            renewable_until: Some(token.renewable_until.unwrap_or(token.expires_at)),
            issuer: token.issuer,
            principal: Principal::SubscriptionToken,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credential {
    Key(SecretDigest),
    Iam(IamArn),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredKey {
    pub id: ApiKeyId,
    pub tenant: Tenant,
    pub scopes: BTreeSet<Scope>,
    pub credential: Credential,
    pub label: Option<String>,
    pub created_at: Timestamp,
    /// The first moment at which it is no longer valid; `None`: never.
    pub expires_at: Option<Timestamp>,
    /// A revoked key is invalid, whatever the clock.
    pub revoked_at: Option<Timestamp>,
}

labels! {
    pub enum Standing {
        Active = "active",
        Expired = "expired",
        Revoked = "revoked",
    }
}

impl StoredKey {
    pub const MAX_LABEL: usize = 64;

    pub fn standing(&self, now: Timestamp) -> Standing {
        if self.revoked_at.is_some() {
            Standing::Revoked
        } else if self.expires_at.is_some_and(|end| now >= end) {
            Standing::Expired
        } else {
            Standing::Active
        }
    }

    /// Whether it is valid at `now`, and this is its key. Takes as long for a wrong secret as for the right one.
    pub fn admits(&self, key: &ApiKey, now: Timestamp) -> bool {
        let is_its = matches!(&self.credential, Credential::Key(digest) if digest.is_of(key));
        is_its & (self.standing(now) == Standing::Active)
    }

    /// What this key allows at `now`; `None` unless [`Self::admits`].
    pub fn grant_to(&self, key: &ApiKey, now: Timestamp) -> Option<Grant> {
        self.admits(key, now).then(|| self.grant(Principal::Key(self.id.clone())))
    }

    /// What this principal, which AWS has authenticated, may do at `now`; `None` if the row is another's, or no longer valid.
    pub fn grant_to_iam(&self, caller: &IamArn, now: Timestamp) -> Option<Grant> {
        let is_its = matches!(&self.credential, Credential::Iam(arn) if arn == caller);
        (is_its && self.standing(now) == Standing::Active).then(|| self.grant(Principal::Iam(caller.clone())))
    }

    /// Whether tokens of this tenant's browsers that were made with this key are valid. They end with its revocation, and not when it
    /// expires: then it makes no more of them.
    pub fn vouches_for(&self, tenant: &Tenant) -> bool {
        self.tenant == *tenant && self.scopes.contains(&Scope::Subscribe) && self.revoked_at.is_none()
    }

    fn grant(&self, principal: Principal) -> Grant {
        Grant {
            tenant: self.tenant.clone(),
            scopes: self.scopes.clone(),
            subscription: None,
            permit: None,
            renewable_until: None,
            issuer: Some(self.id.clone()),
            principal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{browser, subscription, tags, tenant};
    use crate::recipient::Recipient;

    fn id(text: &str) -> SubscriptionId {
        subscription(text).id
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn key(byte: u8) -> ApiKey {
        ApiKey::generate(&[byte; ApiKey::RANDOM_BYTES])
    }

    fn arn(name: &str) -> IamArn {
        IamArn::parse(&format!("arn:aws:iam::111122223333:role/{name}")).expect("a role")
    }

    fn stored(credential: Credential) -> StoredKey {
        StoredKey {
            id: key(7).id().clone(),
            tenant: tenant(),
            scopes: [Scope::Send, Scope::Subscribe].into(),
            credential,
            label: None,
            created_at: at(100),
            expires_at: None,
            revoked_at: None,
        }
    }

    fn of_key() -> StoredKey {
        stored(Credential::Key(SecretDigest::of(&key(7))))
    }

    fn of_principal() -> StoredKey {
        stored(Credential::Iam(arn("Sender")))
    }

    /// As a sender makes it for `s1`, at 40.
    fn token() -> SubscriptionToken {
        SubscriptionToken {
            tenant: tenant(),
            subscription: id("s1"),
            tags: tags(&["news"]),
            expires_at: at(100),
            issued_at: Some(at(40)),
            renewable_until: Some(at(1000)),
            issuer: Some(key(7).id().clone()),
        }
    }

    #[test]
    fn a_token_is_for_its_subscription_alone() {
        let grant = Grant::from(token());
        assert!(!grant.allows_on(Scope::Subscribe, &id("s2")));
        for scope in Scope::ALL {
            assert!(!grant.allows(scope), "{scope}");
            assert_eq!(grant.allows_on(scope, &id("s1")), scope == Scope::Subscribe, "{scope}");
        }
        assert!(grant.allows_tags(&tags(&["news"])) && grant.allows_tags(&Tags::default()));
        assert!(!grant.allows_tags(&tags(&["news", "vip"])));
    }

    #[test]
    fn every_renewal_token_of_a_chain_has_its_first_end_and_issuer() {
        let recipient = Recipient::WebPush(browser("https://push.example/x"));
        let stored =
            Subscription { created_at: Some(at(50)), ..Subscription::new(subscription("s1"), recipient) };
        let first = Grant::from(token()).renewal(&stored, at(50));
        assert_eq!(
            (first.expires_at, first.issued_at, first.renewable_until),
            (at(1000), Some(at(50)), None)
        );
        let second = Grant::from(first).renewal(&stored, at(900));
        assert_eq!((second.expires_at, second.issuer.as_ref()), (at(1000), Some(key(7).id())));
        assert_eq!(second.issued_at, Some(at(900)));

        let grant = of_key().grant_to(&key(7), at(200)).expect("it is the key");
        let own = grant.renewal(&stored, at(49));
        assert_eq!(
            (own.expires_at, own.issuer.as_ref()),
            (at(49).plus(SubscriptionToken::RENEWAL), Some(key(7).id()))
        );
        assert_eq!(own.issued_at, Some(at(50)), "for what another worker's clock has stored a second later");
    }

    #[test]
    fn a_token_of_release_0_1_0_keeps_its_end_and_begins_nothing() {
        let end = at(200).plus(SubscriptionToken::RENEWAL);
        let old = SubscriptionToken {
            expires_at: end,
            issued_at: None,
            renewable_until: None,
            issuer: None,
            ..token()
        };
        let grant = Grant::from(old);
        let permit = grant.permit.clone().expect("a browser's");
        assert_eq!((permit.issued_at, permit.begins), (at(200), false));
        let recipient = Recipient::WebPush(browser("https://push.example/x"));
        let stored =
            Subscription { created_at: Some(at(50)), ..Subscription::new(subscription("s1"), recipient) };
        let next = grant.renewal(&stored, at(300));
        assert_eq!((next.expires_at, next.tags.is_empty(), next.issuer), (end, true, None));
    }

    #[test]
    fn a_key_vouches_for_its_browsers_tokens_until_it_is_revoked() {
        let expired = StoredKey { expires_at: Some(at(200)), ..of_key() };
        let revoked = StoredKey { revoked_at: Some(at(200)), ..of_key() };
        let sends = StoredKey { scopes: [Scope::Send].into(), ..of_key() };
        let others = StoredKey { tenant: Tenant::parse("other").expect("valid"), ..of_key() };
        for (name, stored, vouches) in [
            ("active", of_key(), true),
            ("a principal's", of_principal(), true),
            ("expired", expired, true),
            ("revoked", revoked, false),
            ("without the scope", sends, false),
            ("another tenant's", others, false),
        ] {
            assert_eq!(stored.vouches_for(&tenant()), vouches, "{name}");
        }
    }

    #[test]
    fn only_the_key_itself_gets_the_stored_grant_on_the_whole_tenant() {
        let grant = of_key().grant_to(&key(7), at(200)).expect("it is the key");
        assert_eq!((&grant.tenant, &grant.principal), (&tenant(), &Principal::Key(key(7).id().clone())));
        for scope in Scope::ALL {
            assert_eq!(grant.allows(scope), scope != Scope::Read, "{scope}");
            assert_eq!(grant.allows_on(scope, &id("s1")), scope != Scope::Read, "{scope}");
        }
        assert!(grant.allows_tags(&tags(&["vip"])));

        let mut random = [7; ApiKey::RANDOM_BYTES];
        random[63] = 8;
        let forged = ApiKey::generate(&random);
        assert_eq!(forged.id(), key(7).id());
        for (name, stored, key, admits) in [
            ("the key", of_key(), key(7), true),
            ("another key", of_key(), key(8), false),
            ("another secret under the same id", of_key(), forged, false),
            ("a key under a principal's id", of_principal(), key(7), false),
        ] {
            assert_eq!(stored.admits(&key, at(200)), admits, "{name}");
            assert_eq!(stored.grant_to(&key, at(200)).is_some(), admits, "{name}");
        }
    }

    #[test]
    fn only_the_principal_itself_gets_its_stored_grant() {
        let grant = of_principal().grant_to_iam(&arn("Sender"), at(200)).expect("its right");
        assert_eq!(grant.principal, Principal::Iam(arn("Sender")));
        assert_eq!(of_principal().grant_to_iam(&arn("Other"), at(200)), None);
        assert_eq!(of_key().grant_to_iam(&arn("Sender"), at(200)), None);
    }

    #[test]
    fn a_key_is_valid_until_the_millisecond_before_it_expires_unless_it_is_revoked() {
        let before = Timestamp::from_ms(at(300).as_ms() - 1);
        for (revoked_at, now, standing) in [
            (None, before, Standing::Active),
            (None, at(300), Standing::Expired),
            (Some(at(250)), at(200), Standing::Revoked),
            (Some(at(250)), at(250), Standing::Revoked),
            (Some(at(250)), at(400), Standing::Revoked),
        ] {
            let with = |stored| StoredKey { expires_at: Some(at(300)), revoked_at, ..stored };
            assert_eq!(with(of_key()).standing(now), standing, "{now:?}");
            let is_valid = standing == Standing::Active;
            assert_eq!(with(of_key()).grant_to(&key(7), now).is_some(), is_valid, "{now:?}");
            let grant = with(of_principal()).grant_to_iam(&arn("Sender"), now);
            assert_eq!(grant.is_some(), is_valid, "{now:?}");
        }
    }

    #[test]
    fn debug_shows_neither_secret_nor_digest() {
        let shown = format!("{:?}", of_key());
        assert!(shown.contains("SecretDigest(redacted)"), "{shown}");
        assert!(!shown.contains(&SecretDigest::of(&key(7)).to_text()), "{shown}");
    }
}
