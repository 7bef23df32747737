//! What comes of a credential that was accepted: whose it is, and what it may do.

use std::collections::BTreeSet;

use super::{ApiKeyId, IamArn, Scope, SubscriptionToken};
use crate::identity::{SubscriptionId, Tenant};
use crate::tag::Tags;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Principal {
    Key(ApiKeyId),
    Iam(IamArn),
    SubscriptionToken,
}

/// What may be done, for one tenant. Ask [`Self::allows`] of what concerns the whole tenant, and [`Self::allows_on`] of what
/// concerns one subscription: a browser's grant never passes the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub tenant: Tenant,
    pub scopes: BTreeSet<Scope>,
    /// The only subscription that it is for; `None` for all of the tenant's.
    pub subscription: Option<SubscriptionId>,
    /// The only tags that may be set; `None` for any.
    pub tags: Option<Tags>,
    pub principal: Principal,
}

impl Grant {
    /// Whether it is for this, and for the whole tenant.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) && self.subscription.is_none()
    }

    pub fn allows_on(&self, scope: Scope, id: &SubscriptionId) -> bool {
        self.scopes.contains(&scope) && self.subscription.as_ref().is_none_or(|only| only == id)
    }

    pub fn allows_tags(&self, tags: &Tags) -> bool {
        self.tags.as_ref().is_none_or(|only| tags.are_within(only))
    }
}

impl From<SubscriptionToken> for Grant {
    /// A token's holder may subscribe, for that one subscription, and set no tag but those that the token carries.
    fn from(token: SubscriptionToken) -> Self {
        let SubscriptionToken { tenant, subscription, tags, expires_at: _ } = token;
        Self {
            tenant,
            scopes: [Scope::Subscribe].into(),
            subscription: Some(subscription),
            tags: Some(tags),
            principal: Principal::SubscriptionToken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::Tag;
    use crate::time::Timestamp;

    fn tags(texts: &[&str]) -> Tags {
        let tags = texts.iter().map(|text| Tag::parse(text).expect("a tag"));
        Tags::new(tags.collect()).expect("few, and each once")
    }

    fn id(text: &str) -> SubscriptionId {
        SubscriptionId::parse(text).expect("valid")
    }

    #[test]
    fn a_token_is_for_its_subscription_alone_and_never_for_the_tenant() {
        let tenant = Tenant::parse("acme").expect("valid");
        let expires_at = Timestamp::from_secs(100);
        let token = SubscriptionToken { tenant, subscription: id("s1"), tags: tags(&["news"]), expires_at };
        let grant = Grant::from(token);
        assert!(grant.allows_on(Scope::Subscribe, &id("s1")));
        assert!(!grant.allows_on(Scope::Subscribe, &id("s2")));
        for scope in Scope::ALL {
            assert!(!grant.allows(scope), "{scope}");
            assert_eq!(grant.allows_on(scope, &id("s1")), scope == Scope::Subscribe, "{scope}");
        }
        assert!(grant.allows_tags(&tags(&["news"])) && grant.allows_tags(&Tags::default()));
        assert!(!grant.allows_tags(&tags(&["news", "vip"])));
    }

    #[test]
    fn a_key_s_grant_is_for_its_scopes_on_all_of_the_tenant() {
        let grant = Grant {
            tenant: Tenant::parse("acme").expect("valid"),
            scopes: [Scope::Send, Scope::Subscribe].into(),
            subscription: None,
            tags: None,
            principal: Principal::Key(ApiKeyId::parse("0123456789ab").expect("an id")),
        };
        assert!(grant.allows(Scope::Send) && grant.allows(Scope::Subscribe) && !grant.allows(Scope::Read));
        assert!(grant.allows_on(Scope::Subscribe, &id("s1")) && !grant.allows_on(Scope::Read, &id("s1")));
        assert!(grant.allows_tags(&tags(&["vip"])));
    }
}
