//! `POST /v1/subscription-tokens`: a sender's server gets a token for its page, with which the page stores its own subscription and no
//! other.

use std::time::Duration;

use axum::extract::{Request, State};
use http::StatusCode;
use redial_core::access::{Scope, SubscriptionToken};
use redial_core::identity::SubscriptionId;
use redial_core::shape::{self, Errors, Object};
use redial_core::tag::{Tag, Tags};
use redial_engine::ports::{Clock, HttpApi, Randomness};
use serde_json::json;

use super::{Answered, Worker, subscriptions};
use crate::authorize::Need;
use crate::limits::OTHERS;
use crate::problem::Problem;
use crate::respond;

/// A token's lifetime in seconds, unless the request has another.
const EXPIRES_IN: u64 = 600;

pub async fn create<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Subscribe)).await?;
    let text = respond::read_json(&parts.headers, body, OTHERS).await?;
    app.admit(&grant, 1).await?;
    let (subscription, tags, expires_in) = read(&text.0)?;
    let made = || subscriptions::made(&mut app.env.randomness().rng());
    let token = SubscriptionToken {
        tenant: grant.tenant,
        subscription: subscription.unwrap_or_else(made),
        tags,
        expires_at: app.env.clock().now().plus(Duration::from_secs(expires_in)),
    };
    let answer = json!({
        "token": app.settings.token_keys.subscription(&token),
        "subscription": token.subscription.as_str(),
        "expires_at": token.expires_at.to_rfc3339(),
    });
    Ok(respond::json(StatusCode::CREATED, &answer))
}

/// Subscription, tags and lifetime in seconds.
fn read(text: &str) -> Result<(Option<SubscriptionId>, Tags, u64), Problem> {
    let errors = Errors::default();
    let wanted = Object::parse(text, "", &errors).map(|mut object| {
        let id = shape::text(SubscriptionId::parse);
        let subscription = object.optional("subscription", "^[A-Za-z0-9_-]{1,64}$", id);
        let tags = object.list("tags", Tag::FORM, Tags::MOST, shape::text(Tag::parse));
        let tags = Tags::new(tags.unwrap_or_default()).unwrap_or_else(|_| {
            errors.add("tags", "every tag once", "one twice");
            Tags::default()
        });
        let secs = object.optional("expires_in", "whole seconds from 60 to 3600", shape::integer(60..=3600));
        object.finish();
        (subscription, tags, secs.unwrap_or(EXPIRES_IN))
    });
    errors.result(wanted).map_err(Problem::invalid)
}
