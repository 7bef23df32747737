//! `/v1/erasures`: everything that is kept about a person is marked at once, searched for and removed later.
//!
//! The response is durable, and says how far the erasure has come: it never says `done` before the search has come to its end. A browser's
//! token erases no more than its subscription. A webhook is not a person: as on every other route, its id is refused.

use axum::extract::{Request, State};
use http::StatusCode;
use redial_core::access::{Grant, Scope};
use redial_core::erasure::{Erasure, ErasureId};
use redial_core::identity::SubscriptionId;
use redial_core::message::ProducerRef;
use redial_core::shape::{self, Errors, Object};
use redial_core::time::Timestamp;
use redial_engine::erase::{self, Requested};
use redial_engine::ports::{Clock, ErasureRequests, HttpApi};
use serde_json::{Map, Value, json};

use super::{Answered, Id, Worker, parsed};
use crate::authorize::Need;
use crate::limits::OTHERS;
use crate::problem::{Kind, Problem};
use crate::respond;

/// How soon a tenant with too many pending erasures may ask again: the search goes on every five minutes.
const AGAIN_AFTER: u64 = 300;

pub async fn create<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Subscribe)).await?;
    let text = respond::read_json(&parts.headers, body, OTHERS).await?;
    app.admit(&grant, 1).await?;
    let now = app.env.clock().now();
    let wanted = read(&text.0, &grant, now)?;
    // Messages end with it that `send` has accepted.
    if wanted.producer_ref.is_some() && !grant.allows(Scope::Send) {
        return Err(Kind::Forbidden.into());
    }
    let (requests, subscriptions) = (app.env.erasure_requests(), app.env.subscriptions());
    let keys = &app.settings.hash_keys;
    let requested = erase::request_of_a_person(requests, subscriptions, keys, wanted, now).await;
    match requested.map_err(|error| app.failed(&error))? {
        Requested::Pending(erasure) => Ok(respond::json(StatusCode::ACCEPTED, &description(&erasure))),
        Requested::TooMany => Err(Problem::rate_limited(AGAIN_AFTER)),
        Requested::IsAWebhook => Err(Kind::IsAWebhook.into()),
    }
}

pub async fn get<E: HttpApi + 'static>(State(app): Worker<E>, id: Id, request: Request) -> Answered {
    let (parts, _) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Read)).await?;
    app.admit(&grant, 1).await?;
    let Some(id) = parsed(id, ErasureId::parse) else { return Err(Kind::NotFound.into()) };
    let found = app.env.erasure_requests().find(&grant.tenant, &id).await;
    let found = found.map_err(|error| app.failed(&error))?.ok_or(Kind::NotFound)?;
    Ok(respond::json(StatusCode::OK, &description(&found)))
}

fn read(text: &str, grant: &Grant, now: Timestamp) -> Result<Erasure, Problem> {
    const REF: &str = "a text of 1 to 128 bytes";
    let errors = Errors::default();
    let wanted = Object::parse(text, "", &errors).map(|mut object| {
        let id = shape::text(SubscriptionId::parse);
        let subscription = object.optional("subscription", "^[A-Za-z0-9_-]{1,64}$", id);
        let text = shape::text(|text: &str| ProducerRef::parse(text).filter(|_| !text.is_empty()));
        let producer_ref = object.optional("ref", REF, text);
        object.finish();
        if errors.is_empty() && subscription.is_none() && producer_ref.is_none() {
            errors.add("", "an object with `subscription`, `ref` or both", "neither");
        }
        Erasure::new(grant.tenant.clone(), subscription, producer_ref, now)
    });
    errors.result(wanted).map_err(Problem::invalid)
}

/// Without whom it is about, and without how much was read: that is all tenants'.
fn description(erasure: &Erasure) -> Value {
    let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
    let found: Map<String, Value> =
        erasure.found.iter().map(|(kind, number)| (kind.to_owned(), number.into())).collect();
    json!({
        "id": erasure.id.as_str(),
        "state": erasure.state().label(),
        "requested_at": erasure.requested_at.to_rfc3339(),
        "done_at": time(erasure.done_at),
        "found": found,
    })
}
