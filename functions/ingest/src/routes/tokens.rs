//! `POST /v1/subscription-tokens`: a sender's server gets a token for its page, with which the page stores its own subscription and no
//! other.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use redial_core::access::{Scope, SubscriptionToken};
use redial_core::identity::SubscriptionId;
use redial_core::shape::{self, Errors, Object};
use redial_core::tag::{Tag, Tags};
use redial_engine::ports::{Clock, HttpApi, Randomness};
use serde_json::json;

use super::{Worker, subscriptions};
use crate::authorize::Need;
use crate::limits::OTHERS;
use crate::problem::Problem;
use crate::respond;

/// The lifetime of a token in seconds: least, most and default.
const EXPIRES_IN: (u64, u64, u64) = (60, 3600, 600);

struct TokenRequest {
    subscription: Option<SubscriptionId>,
    tags: Tags,
    expires_in: u64,
}

pub async fn create<E: HttpApi + 'static>(
    State(app): Worker<E>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Subscribe)).await?;
    let text = respond::read_json(&parts.headers, body, OTHERS).await?;
    app.admit(&grant, 1).await?;
    let wanted = read(&text.0)?;
    let made = || subscriptions::made(&mut app.env().randomness().rng());
    let token = SubscriptionToken {
        tenant: grant.tenant,
        subscription: wanted.subscription.unwrap_or_else(made),
        tags: wanted.tags,
        expires_at: app.env().clock().now().plus(Duration::from_secs(wanted.expires_in)),
    };
    let answer = json!({
        "token": app.settings().token_keys.subscription(&token),
        "subscription": token.subscription.as_str(),
        "expires_at": token.expires_at.to_rfc3339(),
    });
    Ok(respond::json(StatusCode::CREATED, &answer))
}

fn read(text: &str) -> Result<TokenRequest, Problem> {
    let (least, most, usual) = EXPIRES_IN;
    let errors = Errors::default();
    let wanted = Object::parse(text, "", &errors).map(|mut object| {
        let subscription = object.optional("subscription", "^[A-Za-z0-9_-]{1,64}$", |raw| {
            SubscriptionId::parse(&shape::string(raw)?)
        });
        let tags = object.list("tags", Tag::FORM, Tags::MOST, |raw| Tag::parse(&shape::string(raw)?));
        let tags = Tags::new(tags.unwrap_or_default()).unwrap_or_else(|_| {
            errors.add("tags", "every tag once", "one twice");
            Tags::default()
        });
        let expires_in = object.optional("expires_in", "whole seconds from 60 to 3600", |raw| {
            shape::unsigned(raw).filter(|secs| (least..=most).contains(secs))
        });
        object.finish();
        TokenRequest { subscription, tags, expires_in: expires_in.unwrap_or(usual) }
    });
    match wanted {
        Some(wanted) if errors.is_empty() => Ok(wanted),
        Some(_) | None => Err(Problem::invalid(errors.into_vec())),
    }
}
