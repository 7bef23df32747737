//! Who asks: from a request's credential to a [`Grant`].
//!
//! `Authorization: Bearer` shows an API key or a subscription token. Where whatever stands before Lambda has checked AWS's own
//! signature, the header is that signature's, and the principal that it belongs to comes as an [`IamCaller`]. Every reason
//! for which a credential is no good ends in the same answer.

use http::header::AUTHORIZATION;
use http::request::Parts;
use redial_core::access::{ApiKey, Grant, IamArn, Principal, Scope};
use redial_core::identity::SubscriptionId;
use redial_engine::ports::{AccessKeys, Clock, HttpApi};

use crate::app::App;
use crate::journal;
use crate::limits::Who;
use crate::problem::{Kind, Problem};

/// An AWS principal whose signature was checked before the request came here. Nothing that a caller sends may become one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IamCaller(pub IamArn);

/// What a grant is needed for.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// Something of the whole tenant's.
    Tenant(Scope),
    /// Any of these, on one subscription.
    Subscription(&'a [Scope], &'a SubscriptionId),
}

impl<E: HttpApi> App<E> {
    /// What whoever sent this may do.
    pub async fn grant(&self, parts: &Parts) -> Result<Grant, Problem> {
        let now = self.env().clock().now();
        let grant = match bearer(parts) {
            Some(shown) if shown.starts_with("rds_") => {
                self.settings().token_keys.read_subscription(shown, now).map(Grant::from)
            }
            Some(shown) => match ApiKey::parse(shown) {
                Some(key) => {
                    let stored = self.env().access_keys().find(key.id()).await;
                    stored.map_err(|error| self.failed(&error))?.and_then(|it| it.grant_to(&key, now))
                }
                None => None,
            },
            None => match parts.extensions.get::<IamCaller>() {
                Some(IamCaller(arn)) => {
                    let stored = self.env().access_keys().find_iam(arn).await;
                    stored.map_err(|error| self.failed(&error))?.and_then(|it| it.grant_to_iam(arn, now))
                }
                None => None,
            },
        };
        let grant = grant.ok_or(Kind::Unauthorized)?;
        journal::note(&parts.extensions, &grant);
        Ok(grant)
    }

    /// The same, if it suffices.
    pub async fn grant_for(&self, parts: &Parts, need: Need<'_>) -> Result<Grant, Problem> {
        let grant = self.grant(parts).await?;
        let suffices = match need {
            Need::Tenant(scope) => grant.allows(scope),
            Need::Subscription(scopes, id) => scopes.iter().any(|scope| grant.allows_on(*scope, id)),
        };
        if suffices { Ok(grant) } else { Err(Kind::Forbidden.into()) }
    }

    /// Lets in so many of them, or says when to come back.
    pub async fn admit(&self, grant: &Grant, units: usize) -> Result<(), Problem> {
        let who = match (&grant.principal, &grant.subscription) {
            (Principal::Key(id), _) => Who::Sender(id.to_string()),
            (Principal::Iam(arn), _) => Who::Sender(arn.to_string()),
            (Principal::SubscriptionToken, Some(id)) => Who::Browser(format!("{}#{id}", grant.tenant)),
            (Principal::SubscriptionToken, None) => Who::Browser(grant.tenant.to_string()),
        };
        self.limits().admit(self.env(), who, units).await
    }
}

/// What is shown as a bearer's; one header of the name alone.
fn bearer(parts: &Parts) -> Option<&str> {
    let mut all = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let (scheme, shown) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| shown.trim_start_matches(' '))
}
