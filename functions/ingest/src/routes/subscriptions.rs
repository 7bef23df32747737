//! `/v1/subscriptions`: browsers' subscriptions, stored, read and erased.
//!
//! A response never contains an endpoint or a key: the sender that stored them has them, and no other caller should get them.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http::request::Parts;
use rand::rngs::StdRng;
use redial_core::access::{Grant, Scope};
use redial_core::identity::{SubscriptionId, SubscriptionKey, VapidKeyId};
use redial_core::metric::Metric;
use redial_core::provider::Provider;
use redial_core::quota::Quota;
use redial_core::recipient::Recipient;
use redial_core::subscription::document::{self, Rules};
use redial_core::subscription::{Consent, Permit, Renewal, Subscription};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;
use redial_core::zone::Zone;
use redial_engine::ports::{
    Clock, Erased, Found, HttpApi, Kept, Randomness, Renewed, SubscriptionBook, Telemetry,
};
use serde_json::{Value, json};

use super::{Answered, Id, Worker, parsed, random_text};
use crate::app::App;
use crate::authorize::Need;
use crate::limits::OTHERS;
use crate::problem::{Kind, Numbers, Problem};
use crate::respond;

/// A right to store and erase a subscription.
const KEEPS: &[Scope] = &[Scope::Subscribe];

pub async fn create<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Subscribe)).await?;
    keep(&app, grant, None, &parts, body).await
}

pub async fn put<E: HttpApi + 'static>(State(app): Worker<E>, id: Id, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let Some(id) = parsed(id, SubscriptionId::parse) else {
        app.grant(&parts).await?;
        return Err(Problem::field("id", "^[A-Za-z0-9_-]{1,64}$ in the path", "an invalid id"));
    };
    let grant = app.grant_for(&parts, Need::Subscription(KEEPS, &id)).await?;
    keep(&app, grant, Some(id), &parts, body).await
}

pub async fn get<E: HttpApi + 'static>(State(app): Worker<E>, id: Id, request: Request) -> Answered {
    let (key, permit) = named(&app, id, request, &[Scope::Read, Scope::Subscribe]).await?;
    match app.env.subscriptions().find(&key).await.map_err(|error| app.failed(&error))? {
        Found::Stored(stored) if permit.as_ref().is_some_and(|permit| !permit.is_for(&stored)) => {
            Err(Kind::Unauthorized.into())
        }
        Found::Stored(stored) => {
            Ok(respond::json(StatusCode::OK, &description(&app, &stored, app.env.clock().now())?))
        }
        Found::Deleted { at, endpoint_hash: _ } => Err(Problem::deleted(at)),
        Found::Unknown => Err(Kind::NotFound.into()),
    }
}

/// Erasing twice is no error.
pub async fn delete<E: HttpApi + 'static>(State(app): Worker<E>, id: Id, request: Request) -> Answered {
    let (key, permit) = named(&app, id, request, KEEPS).await?;
    let book = app.env.subscriptions();
    let erased = book.erase(&key, permit.as_ref(), &app.settings.hash_keys, app.env.clock().now()).await;
    match erased.map_err(|error| app.failed(&error))? {
        Erased::Yes => return Ok(StatusCode::NO_CONTENT.into_response()),
        Erased::TokenEnded => return Err(Kind::Unauthorized.into()),
        Erased::Nothing => {}
    }
    match book.find(&key).await.map_err(|error| app.failed(&error))? {
        Found::Deleted { .. } => Ok(StatusCode::NO_CONTENT.into_response()),
        Found::Stored(_) => Err(Kind::IsAWebhook.into()),
        Found::Unknown => Err(Kind::NotFound.into()),
    }
}

/// The subscription in the path, if the caller has one of these scopes on it; with what a browser's token permits.
async fn named<E: HttpApi>(
    app: &App<E>,
    id: Id,
    request: Request,
    scopes: &[Scope],
) -> Result<(SubscriptionKey, Option<Permit>), Problem> {
    let (parts, _) = request.into_parts();
    let Some(id) = parsed(id, SubscriptionId::parse) else {
        app.grant(&parts).await?;
        return Err(Kind::NotFound.into());
    };
    let grant = app.grant_for(&parts, Need::Subscription(scopes, &id)).await?;
    app.admit(&grant, 1).await?;
    Ok((SubscriptionKey { tenant: grant.tenant, id }, grant.permit))
}

/// `id`: `None` makes a new one. The caller whose answer was lost does not know it, so the same endpoint and keys again are the same
/// subscription, also where a second id is refused.
async fn keep<E: HttpApi>(
    app: &App<E>,
    grant: Grant,
    id: Option<SubscriptionId>,
    parts: &Parts,
    body: Body,
) -> Answered {
    let text = respond::read_json(&parts.headers, body, OTHERS).await?;
    app.admit(&grant, 1).await?;
    let (settings, now) = (&app.settings, app.env.clock().now());
    let rules = Rules {
        push_hosts: &settings.push_hosts,
        egress_allow: &settings.egress_allow,
        is_on_curve: settings.is_on_curve,
        now,
    };
    let document = document::parse(&text.0, &rules).map_err(Problem::invalid)?;
    if document.tags.as_ref().is_some_and(|tags| !grant.allows_tags(tags)) {
        return Err(Kind::Forbidden.into());
    }
    let is_made = id.is_none();
    let id = id.unwrap_or_else(|| made(&mut app.env.randomness().rng()));
    let key = SubscriptionKey { tenant: grant.tenant.clone(), id };
    let numbers = if grant.permit.is_some() { Numbers::Withheld } else { Numbers::Named };
    let mut renewal = Renewal { key, document, seen_at: Some(now), permit: grant.permit.clone() };
    has_place(app, &renewal, is_made, numbers, now).await?;
    let renew = async |renewal| {
        let renewed = app.env.subscriptions().renew(renewal, settings.same_endpoint, now).await;
        renewed.map_err(|error| app.failed(&error))
    };
    let mut renewed = renew(renewal.clone()).await?;
    if is_made && let Renewed::EndpointTaken { same: Some(id) } = renewed {
        renewal.key.id = id;
        renewed = renew(renewal).await?;
    }
    let (status, kept) = match renewed {
        Renewed::New(kept) => {
            // One that replaces another adds none.
            if !kept.replaced {
                app.quota_guard.took(&grant.tenant, Quota::Subscriptions);
            }
            (StatusCode::CREATED, kept)
        }
        Renewed::Renewed(kept) => (StatusCode::OK, kept),
        Renewed::NeedsConsent => return Err(Problem::invalid(vec![document::consent_is_missing()])),
        Renewed::IsAWebhook => return Err(Kind::IsAWebhook.into()),
        Renewed::TokenEnded => return Err(Kind::Unauthorized.into()),
        Renewed::TagsNotPermitted => return Err(Kind::Forbidden.into()),
        Renewed::EndpointTaken { same: _ } => return Err(Kind::EndpointTaken.into()),
    };
    let Kept { subscription: stored, replaced } = *kept;
    app.env.telemetry().count(Metric::EndpointsReplaced, u64::from(replaced));
    let mut description = description(app, &stored, now)?;
    description["renewal"] = renewal_token(app, grant, &stored, now);
    Ok(respond::json(status, &description))
}

/// Whether the tenant may store one more, or has this one already: under its id, or, where the id is made, under the id that was made of
/// the request before.
async fn has_place<E: HttpApi>(
    app: &App<E>,
    renewal: &Renewal,
    is_made: bool,
    numbers: Numbers,
    now: Timestamp,
) -> Result<(), Problem> {
    let App { env, quota_guard, .. } = app;
    let key = &renewal.key;
    let asked = quota_guard.ask(env.quotas(), env.telemetry(), &key.tenant, Quota::Subscriptions, now);
    let Err(exceeded) = asked.await else { return Ok(()) };
    let is_stored = if is_made {
        env.subscriptions().same_as(renewal, now).await.map(|same| same.is_some())
    } else {
        env.subscriptions().find(key).await.map(|found| matches!(found, Found::Stored(_)))
    };
    if is_stored.map_err(|error| app.failed(&error))? {
        return Ok(());
    }
    quota_guard.report(env.telemetry(), &key.tenant, &exceeded, now);
    Err(Problem::quota_exceeded(exceeded, numbers))
}

fn renewal_token<E>(app: &App<E>, grant: Grant, stored: &Subscription, now: Timestamp) -> Value {
    let token = grant.renewal(stored, now);
    let text = app.settings.token_keys.subscription(&token);
    json!({"token": text, "expires_at": token.expires_at.to_rfc3339()})
}

fn description<E>(app: &App<E>, stored: &Subscription, now: Timestamp) -> Result<Value, Kind> {
    let Recipient::WebPush(target) = &stored.recipient else { return Err(Kind::IsAWebhook) };
    let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
    Ok(json!({
        "subscription": stored.key.id.as_str(),
        "state": stored.state_at(now).label(),
        "vapid_key_id": target.vapid_key_id.as_ref().map(VapidKeyId::as_str),
        "endpoint_hash": app.settings.hash_keys.endpoint(&target.endpoint).as_str(),
        "endpoint_origin_class": Provider::of(&target.endpoint).label(),
        "consent": stored.consent.as_ref().map(consent),
        "tags": stored.tags.iter().map(Tag::as_str).collect::<Vec<_>>(),
        "time_zone": stored.time_zone.map(Zone::name),
        "created_at": time(stored.created_at),
        "last_seen_at": time(stored.last_seen_at),
        "ends_at": time(stored.ends_at),
    }))
}

fn consent(consent: &Consent) -> Value {
    json!({
        "at": consent.at.to_rfc3339(),
        "prompt_version": consent.prompt_version,
        "action": consent.action,
        "origin": consent.origin.as_str(),
    })
}

/// A new id: 131 bits after its `s_`.
pub(super) fn made(rng: &mut StdRng) -> SubscriptionId {
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let id = format!("s_{}", random_text(rng, digits, 22));
    SubscriptionId::parse(&id).expect("invariant: letters, digits and an underline are an id")
}
