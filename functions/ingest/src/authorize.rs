//! From a request's credential to a [`Grant`].
//!
//! `Authorization: Bearer` carries an API key or a subscription token. Where the function URL or HTTP API has checked an AWS signature,
//! the header contains that signature, and the principal comes as an [`IamCaller`]. Every invalid credential gets the same response.
//!
//! A token is valid for as long as the key with which its sender made it is not revoked: that key is looked up as if it had been sent, and
//! remembered as long. Whether the token's subscription is still there is decided where that is read.

use http::header::AUTHORIZATION;
use http::request::Parts;
use redial_core::access::{ApiKey, Grant, IamArn, Principal, Scope, SubscriptionToken};
use redial_core::identity::SubscriptionId;
use redial_engine::ports::{AccessKeys, Clock, HttpApi};

use crate::app::App;
use crate::journal;
use crate::limits::Caller;
use crate::problem::{Kind, Problem};

/// An AWS principal whose signature was checked before the request came here. No part of a request may become one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IamCaller(pub IamArn);

/// The right that a route requires.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// A scope of the whole tenant.
    Tenant(Scope),
    /// Any of these scopes on one subscription.
    Subscription(&'a [Scope], &'a SubscriptionId),
}

impl<E: HttpApi> App<E> {
    /// The caller's rights.
    pub async fn grant(&self, parts: &Parts) -> Result<Grant, Problem> {
        let now = self.env.clock().now();
        let grant = match bearer(parts) {
            Some(text) if text.starts_with("rds_") => {
                let token =
                    self.settings.token_keys.read_subscription(text, now).ok_or(Kind::Unauthorized)?;
                self.is_vouched_for(&token).await?.then(|| Grant::from(token))
            }
            Some(text) => {
                let key = ApiKey::parse(text).ok_or(Kind::Unauthorized)?;
                let stored = self.env.access_keys().find(key.id()).await;
                stored.map_err(|error| self.failed(&error))?.and_then(|stored| stored.grant_to(&key, now))
            }
            None => {
                let IamCaller(arn) = parts.extensions.get().ok_or(Kind::Unauthorized)?;
                let stored = self.env.access_keys().find_iam(arn).await;
                stored.map_err(|error| self.failed(&error))?.and_then(|stored| stored.grant_to_iam(arn, now))
            }
        };
        let grant = grant.ok_or(Kind::Unauthorized)?;
        journal::note(&parts.extensions, &grant);
        Ok(grant)
    }

    /// Whether the key that a token goes back to still stands for it. Tokens of release 0.1.0 name none.
    async fn is_vouched_for(&self, token: &SubscriptionToken) -> Result<bool, Problem> {
        let Some(issuer) = &token.issuer else { return Ok(true) };
        let stored = self.env.access_keys().find(issuer).await.map_err(|error| self.failed(&error))?;
        Ok(stored.is_some_and(|stored| stored.vouches_for(&token.tenant)))
    }

    /// The same, if they suffice.
    pub async fn grant_for(&self, parts: &Parts, need: Need<'_>) -> Result<Grant, Problem> {
        let grant = self.grant(parts).await?;
        let suffices = match need {
            Need::Tenant(scope) => grant.allows(scope),
            Need::Subscription(scopes, id) => scopes.iter().any(|scope| grant.allows_on(*scope, id)),
        };
        if suffices { Ok(grant) } else { Err(Kind::Forbidden.into()) }
    }

    /// Counts `units` against the caller's rate.
    pub async fn admit(&self, grant: &Grant, units: usize) -> Result<(), Problem> {
        let caller = match (&grant.principal, &grant.subscription) {
            (Principal::Key(id), _) => Caller::Sender(id.to_string()),
            (Principal::Iam(arn), _) => Caller::Sender(arn.to_string()),
            (Principal::SubscriptionToken, Some(id)) => Caller::Browser(format!("{}#{id}", grant.tenant)),
            (Principal::SubscriptionToken, None) => Caller::Browser(grant.tenant.to_string()),
        };
        self.limits.admit(&self.env, caller, units).await
    }
}

/// The bearer's credential, if there is exactly one header.
fn bearer(parts: &Parts) -> Option<&str> {
    let mut all = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| text.trim_start_matches(' '))
}
