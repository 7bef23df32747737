//! `POST /v1/subscription-tokens`: a sender's server gets a token for its page, with which the page stores its own subscription and no
//! other.

use std::time::Duration;

use axum::extract::{Request, State};
use http::StatusCode;
use redial_core::access::{Scope, SubscriptionToken};
use redial_core::identity::SubscriptionId;
use redial_core::shape::{self, Errors, Object};
use redial_core::tag::{self, Tag, Tags};
use redial_engine::ports::{Clock, HttpApi, Randomness};
use serde_json::json;

use super::{Answered, Worker, subscriptions};
use crate::authorize::Need;
use crate::limits::OTHERS;
use crate::problem::Problem;
use crate::respond;

/// A token's lifetime in seconds, unless the request has another.
const EXPIRES_IN: u64 = 600;

/// For how long the browser renews what it stored with the token.
const RENEWABLE_FOR: &str = "whole seconds from 60 to 15552000";

/// What a sender asks for.
struct Wish {
    subscription: Option<SubscriptionId>,
    tags: Tags,
    expires_in: Duration,
    renewable_for: Duration,
}

pub async fn create<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Subscribe)).await?;
    let text = respond::read_json(&parts.headers, body, OTHERS).await?;
    app.admit(&grant, 1).await?;
    let Wish { subscription, tags, expires_in, renewable_for } = read(&text.0)?;
    let now = app.env.clock().now();
    let made = || subscriptions::made(&mut app.env.randomness().rng());
    let token = SubscriptionToken {
        tenant: grant.tenant,
        subscription: subscription.unwrap_or_else(made),
        tags,
        expires_at: now.plus(expires_in),
        issued_at: Some(now),
        renewable_until: Some(now.plus(renewable_for)),
        issuer: grant.issuer,
    };
    let answer = json!({
        "token": app.settings.token_keys.subscription(&token),
        "subscription": token.subscription.as_str(),
        "expires_at": token.expires_at.to_rfc3339(),
    });
    Ok(respond::json(StatusCode::CREATED, &answer))
}

fn read(text: &str) -> Result<Wish, Problem> {
    let errors = Errors::default();
    let wanted = Object::parse(text, "", &errors).map(|mut object| {
        let id = shape::text(SubscriptionId::parse);
        let subscription = object.optional("subscription", "^[A-Za-z0-9_-]{1,64}$", id);
        let tags = object.list("tags", Tag::FORM, tag::MOST, shape::text(Tag::parse));
        let tags = Tags::new(tags.unwrap_or_default()).unwrap_or_else(|_| {
            errors.add("tags", "every tag once", "one twice");
            Tags::default()
        });
        let secs = object.optional("expires_in", "whole seconds from 60 to 3600", shape::integer(60..=3600));
        let most = SubscriptionToken::RENEWAL.as_secs();
        let renewable_for = object.optional("renewable_for", RENEWABLE_FOR, shape::integer(60..=most));
        object.finish();
        Wish {
            subscription,
            tags,
            expires_in: Duration::from_secs(secs.unwrap_or(EXPIRES_IN)),
            renewable_for: Duration::from_secs(renewable_for.unwrap_or(most)),
        }
    });
    errors.result(wanted).map_err(Problem::invalid)
}
