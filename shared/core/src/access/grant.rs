//! What an accepted credential allows.

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

/// Permissions for one tenant. [`Self::allows`] decides on the whole tenant, and [`Self::allows_on`] on one subscription: a browser's
/// grant never allows the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    pub tenant: Tenant,
    pub scopes: BTreeSet<Scope>,
    /// `None`: all of the tenant's.
    pub subscription: Option<SubscriptionId>,
    /// The tags that may be set; `None`: any.
    pub tags: Option<Tags>,
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
        self.tags.as_ref().is_none_or(|only| tags.are_within(only))
    }
}

impl From<SubscriptionToken> for Grant {
    /// A token allows to manage its one subscription, and to set the tags that it carries.
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
    use crate::fixtures::{subscription, tags, tenant};
    use crate::time::Timestamp;

    fn id(text: &str) -> SubscriptionId {
        subscription(text).id
    }

    #[test]
    fn a_token_is_for_its_subscription_alone() {
        let expires_at = Timestamp::from_secs(100);
        let token =
            SubscriptionToken { tenant: tenant(), subscription: id("s1"), tags: tags(&["news"]), expires_at };
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
    fn a_key_s_grant_is_for_its_scopes_on_the_whole_tenant() {
        let grant = Grant {
            tenant: tenant(),
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
