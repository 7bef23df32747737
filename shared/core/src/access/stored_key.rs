//! A stored API key, or the stored rights of an AWS principal.

use std::collections::BTreeSet;

use super::{ApiKey, ApiKeyId, Grant, IamArn, Principal, Scope, SecretDigest};
use crate::identity::Tenant;
use crate::label::labels;
use crate::time::Timestamp;

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
    /// Whether a key is valid.
    pub enum Standing {
        Active = "active",
        Expired = "expired",
        /// By an operator.
        Revoked = "revoked",
    }
}

impl StoredKey {
    /// The longest label, in bytes.
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
        let is_its = match &self.credential {
            Credential::Key(digest) => digest.is_of(key),
            Credential::Iam(_) => false,
        };
        is_its & (self.standing(now) == Standing::Active)
    }

    /// What this key allows at `now`; `None` unless [`Self::admits`].
    pub fn grant_to(&self, key: &ApiKey, now: Timestamp) -> Option<Grant> {
        self.admits(key, now).then(|| self.grant(Principal::Key(self.id.clone())))
    }

    /// What this principal, which AWS has authenticated, may do at `now`; `None` if the row is another's, or no longer valid.
    pub fn grant_to_iam(&self, caller: &IamArn, now: Timestamp) -> Option<Grant> {
        let is_its = match &self.credential {
            Credential::Key(_) => false,
            Credential::Iam(arn) => arn == caller,
        };
        let admitted = is_its && self.standing(now) == Standing::Active;
        admitted.then(|| self.grant(Principal::Iam(caller.clone())))
    }

    fn grant(&self, principal: Principal) -> Grant {
        let (tenant, scopes) = (self.tenant.clone(), self.scopes.clone());
        Grant { tenant, scopes, subscription: None, tags: None, principal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> ApiKey {
        ApiKey::generate(&[byte; 64])
    }

    fn stored(credential: Credential) -> StoredKey {
        StoredKey {
            id: key(7).id().clone(),
            tenant: Tenant::parse("acme").expect("valid"),
            scopes: [Scope::Send].into(),
            credential,
            label: None,
            created_at: Timestamp::from_secs(100),
            expires_at: None,
            revoked_at: None,
        }
    }

    fn of_key() -> StoredKey {
        stored(Credential::Key(SecretDigest::of(&key(7))))
    }

    fn arn(name: &str) -> IamArn {
        IamArn::parse(&format!("arn:aws:iam::111122223333:role/{name}")).expect("a role")
    }

    #[test]
    fn only_the_key_itself_gets_the_stored_grant() {
        let now = Timestamp::from_secs(200);
        let grant = of_key().grant_to(&key(7), now).expect("it is the key");
        assert_eq!(grant.principal, Principal::Key(key(7).id().clone()));
        assert_eq!((grant.tenant.as_str(), grant.scopes), ("acme", [Scope::Send].into()));
        assert_eq!((grant.subscription, grant.tags), (None, None));
        assert!(of_key().admits(&key(7), now));
        assert_eq!(of_key().grant_to(&key(8), now), None);
        assert_eq!(of_key().grant_to_iam(&arn("Sender"), now), None);
    }

    #[test]
    fn another_secret_under_the_same_id_is_not_admitted() {
        let mut random = [7; ApiKey::RANDOM_BYTES];
        random[63] = 8;
        let forged = ApiKey::generate(&random);
        assert_eq!(forged.id(), key(7).id());
        assert!(!of_key().admits(&forged, Timestamp::from_secs(200)));
    }

    #[test]
    fn a_key_is_valid_until_the_millisecond_before_it_expires() {
        let end = Timestamp::from_secs(300);
        let stored = StoredKey { expires_at: Some(end), ..of_key() };
        let before = Timestamp::from_ms(end.as_ms() - 1);
        assert!(stored.admits(&key(7), before) && !stored.admits(&key(7), end));
        assert_eq!((stored.standing(before), stored.standing(end)), (Standing::Active, Standing::Expired));
        let principal = StoredKey { expires_at: Some(end), ..self::stored(Credential::Iam(arn("Sender"))) };
        assert!(principal.grant_to_iam(&arn("Sender"), before).is_some());
        assert_eq!(principal.grant_to_iam(&arn("Sender"), end), None);
    }

    #[test]
    fn a_revoked_key_is_refused_even_by_a_slow_clock() {
        let stored = StoredKey { revoked_at: Some(Timestamp::from_secs(300)), ..of_key() };
        for secs in [200, 300, 400] {
            assert_eq!(stored.grant_to(&key(7), Timestamp::from_secs(secs)), None);
        }
        assert_eq!(stored.standing(Timestamp::from_secs(200)).label(), "revoked");
    }

    #[test]
    fn a_principal_gets_its_stored_grant_and_a_key_does_not() {
        let now = Timestamp::from_secs(200);
        let stored = stored(Credential::Iam(arn("Sender")));
        let grant = stored.grant_to_iam(&arn("Sender"), now).expect("its right");
        assert_eq!(grant.principal, Principal::Iam(arn("Sender")));
        assert_eq!(stored.grant_to_iam(&arn("Other"), now), None);
        assert!(!stored.admits(&key(7), now), "a key of the same id");
    }

    #[test]
    fn debug_shows_neither_secret_nor_digest() {
        let shown = format!("{:?}", of_key());
        assert!(shown.contains("SecretDigest(redacted)"), "{shown}");
        assert!(!shown.contains(&SecretDigest::of(&key(7)).to_text()), "{shown}");
    }
}
