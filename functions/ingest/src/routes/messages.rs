//! `POST /v1/messages`, and `GET` and `DELETE /v1/messages/{id}`.
//!
//! The order of effects is [`redial_engine::http_api::enter`]'s: entries first, then the queues, then the response.

use axum::extract::{Request, State};
use http::StatusCode;
use rand::rngs::StdRng;
use redial_core::access::Scope;
use redial_core::ack::AckEvent;
use redial_core::channel::Channel;
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, Tenant};
use redial_core::ledger::cancel::Cancelled;
use redial_core::ledger::{self, Cancellation, PastAttempt};
use redial_core::reason::Reason;
use redial_core::time::{Timestamp, Ttl};
use redial_core::traceparent::Traceparent;
use redial_engine::cancel;
use redial_engine::http_api::{self, Accepted, Answer};
use redial_engine::known::{self, Known};
use redial_engine::ports::{Clock, DeliveryRecord, HttpApi, OnPage, Randomness};
use serde_json::{Value, json};

use super::{Answered, Id, Worker, parsed, random_text};
use crate::app::App;
use crate::authorize::Need;
use crate::limits::{MESSAGES, MOST_MESSAGES};
use crate::problem::{Kind, Numbers, Problem};
use crate::respond::{self, Load};

type Done = Result<(StatusCode, Value), Problem>;

pub async fn send<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Send)).await?;
    let text = respond::read_json(&parts.headers, body, MESSAGES).await?;
    let traceparent = parts.headers.get(Traceparent::NAME).and_then(|value| value.to_str().ok());
    let traceparent = traceparent.and_then(Traceparent::from_header);
    match text.load(MOST_MESSAGES)? {
        Load::One(message) => {
            app.admit(&grant, 1).await?;
            let mut done = take(&app, &grant.tenant, traceparent, vec![message]).await;
            let (status, answer) = done.pop().unwrap_or_else(|| Err(Problem::panicked()))?;
            Ok(respond::json(status, &answer))
        }
        Load::Several(messages) => {
            app.admit(&grant, messages.len()).await?;
            let texts = messages.iter().map(|raw| raw.get()).collect();
            Ok(respond::items(take(&app, &grant.tenant, traceparent, texts).await))
        }
    }
}

/// Accepts these messages, which came with a request of that trace; one result each.
async fn take<E: HttpApi>(
    app: &App<E>,
    tenant: &Tenant,
    traceparent: Option<Traceparent>,
    texts: Vec<&str>,
) -> Vec<Done> {
    let (now, keys) = (app.env.clock().now(), &app.settings.hash_keys);
    let mut rng = app.env.randomness().rng();
    let mut accepted = Vec::with_capacity(texts.len());
    let mut refused = Vec::with_capacity(texts.len());
    for text in texts {
        let read = http_api::accept(text, tenant, &made(&mut rng), traceparent, keys, now);
        refused.push(read.map(|message| accepted.push(message)).err().map(Problem::invalid));
    }
    let mut entered = enter(app, accepted).await.into_iter();
    let mut next = || entered.next().unwrap_or_else(|| Err(Problem::panicked()));
    refused.into_iter().map(|refused| refused.map_or_else(&mut next, Err)).collect()
}

/// Enters messages into the ledger, and puts them on their queues, but for those that would be parked over their tenant's quota.
async fn enter<E: HttpApi>(app: &App<E>, accepted: Vec<Accepted>) -> Vec<Done> {
    let (ledger, outbox, now) = (app.env.ledger(), app.env.outbox(), app.env.clock().now());
    let (quotas, telemetry) = (app.env.quotas(), app.env.telemetry());
    let over = http_api::over_quota(ledger, quotas, telemetry, &app.quota_guard, &accepted, now).await;
    let within = accepted.into_iter().zip(&over).filter(|(_, over)| over.is_none());
    let within: Vec<Accepted> = within.map(|(message, _)| message).collect();
    let answers = http_api::enter(ledger, outbox, &within, now).await;
    let mut entered = within.iter().zip(answers).map(|(message, answer)| answered(app, message.id(), answer));
    let mut next = || entered.next().unwrap_or_else(|| Err(Problem::panicked()));
    let refused = |exceeded| Err(Problem::quota_exceeded(exceeded, Numbers::Named));
    over.into_iter().map(|over| over.map_or_else(&mut next, refused)).collect()
}

fn answered<E: HttpApi>(app: &App<E>, id: &DeliveryId, answer: Answer) -> Done {
    match answer {
        Answer::Taken { state, duplicate, send: _ } => {
            let result = json!({"id": id.as_str(), "state": state.label(), "duplicate": duplicate});
            Ok((StatusCode::ACCEPTED, result))
        }
        Answer::Conflict => Err(Kind::IdConflict.into()),
        Answer::Failed(error) => Err(app.failed(&error)),
    }
}

/// A new id: 32 letters and digits, of which none two look alike (Crockford's base 32).
fn made(rng: &mut StdRng) -> DeliveryId {
    let id = random_text(rng, b"0123456789abcdefghjkmnpqrstvwxyz", 32);
    DeliveryId::parse(&id).expect("invariant: letters and digits are an id")
}

pub async fn get<E: HttpApi + 'static>(State(app): Worker<E>, id: Id, request: Request) -> Answered {
    let (parts, _) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Read)).await?;
    app.admit(&grant, 1).await?;
    let id = parsed(id, DeliveryId::parse).ok_or(Kind::NotFound)?;
    let key = DeliveryKey { tenant: grant.tenant, id };
    let found = known::find(&app.env, &key, app.env.clock().now()).await;
    let known = found.map_err(|error| app.failed(&error))?.ok_or(Kind::NotFound)?;
    Ok(respond::json(StatusCode::OK, &description(&key.id, &known)))
}

/// Cancels a delivery. It may be one whose message no worker has seen: a producer can send to the queue and cancel here.
pub async fn cancel<E: HttpApi + 'static>(State(app): Worker<E>, id: Id, request: Request) -> Answered {
    let (parts, _) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Send)).await?;
    app.admit(&grant, 1).await?;
    let id = parsed(id, DeliveryId::parse).ok_or(Kind::NotFound)?;
    let (key, now) = (DeliveryKey { tenant: grant.tenant, id }, app.env.clock().now());
    let answer = cancel::cancel(app.env.ledger(), app.env.pages(), &key, now).await;
    match answer.map_err(|error| app.failed(&error))? {
        Cancellation::Cancelled(Cancelled { at, in_doubt, is_known }) => {
            let result = json!({
                "id": key.id.as_str(), "state": ledger::State::Cancelled.label(), "cancelled_at": at.to_rfc3339(),
                "in_doubt": in_doubt, "known": is_known,
            });
            Ok(respond::json(StatusCode::OK, &result))
        }
        Cancellation::BeingAttempted { until } => Err(Problem::being_attempted(until, now)),
        Cancellation::Ended(state) => Err(Problem::already_ended(state)),
        Cancellation::OnPage => Err(Kind::OfAnAudience.into()),
    }
}

/// Every field is always present, and null without a value.
fn description(id: &DeliveryId, known: &Known) -> Value {
    let mut description = match known {
        Known::Entry(record) => of_entry(record),
        Known::OnPage { on_page, .. } => of_page(id, on_page),
    };
    acknowledged(&mut description, known.acknowledged());
    description
}

/// The time of the first acknowledgement of each kind.
fn acknowledged(description: &mut Value, acknowledged: &[(AckEvent, Timestamp)]) {
    for event in AckEvent::ALL {
        let first = acknowledged.iter().find(|(of, _)| *of == event);
        description[format!("{}_at", event.label())] = json!(first.map(|(_, at)| at.to_rfc3339()));
    }
}

/// A page knows only that its recipients are sent to, each at its first attempt.
fn of_page(id: &DeliveryId, on_page: &OnPage) -> Value {
    let state = on_page.state();
    json!({
        "id": id.as_str(),
        "state": state.label(),
        "final": state.is_terminal(),
        "channel": null,
        "subscription": on_page.subscription.as_str(),
        "attempt": 0,
        "replay": 0,
        "status": null,
        "reason": null,
        "not_before": null,
        "held_by": null,
        "in_doubt": false,
        "tags": on_page.given.tags,
        "ttl_seconds": on_page.given.ttl.map(Ttl::as_secs),
        "dispatched_at": null,
        "created_at": on_page.opened_at.to_rfc3339(),
        "updated_at": on_page.updated_at.to_rfc3339(),
        "attempts": [],
    })
}

pub(super) fn of_entry(record: &DeliveryRecord) -> Value {
    let DeliveryRecord { entry, channel, attempts, acknowledged: first } = record;
    let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
    let mut description = json!({
        "id": entry.key.id.as_str(),
        "state": entry.state.label(),
        "final": entry.state.is_terminal(),
        "channel": channel.map(Channel::label),
        "subscription": entry.subscription.as_ref().map(SubscriptionId::as_str),
        "attempt": entry.turn.attempt.0,
        "replay": entry.turn.lineage.0,
        "status": entry.status,
        "reason": entry.reason.map(Reason::label),
        "not_before": time(entry.not_before),
        "held_by": entry.held_by.map(|by| by.label()),
        "in_doubt": entry.in_doubt,
        "tags": entry.given.tags,
        "ttl_seconds": entry.given.ttl.map(Ttl::as_secs),
        "dispatched_at": time(entry.dispatched_at),
        "created_at": entry.created_at.to_rfc3339(),
        "updated_at": entry.updated_at.to_rfc3339(),
        "attempts": attempts.iter().map(attempt).collect::<Vec<_>>(),
    });
    acknowledged(&mut description, first);
    description
}

fn attempt(past: &PastAttempt) -> Value {
    json!({
        "attempt": past.turn().attempt.0,
        "replay": past.turn().lineage.0,
        "at": past.at.to_rfc3339(),
        "status": past.status,
        "verdict": past.verdict,
        "reason": past.reason,
        "next": past.next.map(Timestamp::to_rfc3339),
        "in_doubt": past.in_doubt,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn generated_ids_are_valid_and_distinct() {
        let mut rng = StdRng::seed_from_u64(7);
        let ids: BTreeSet<_> = (0..1000).map(|_| made(&mut rng)).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.as_str().len() == 32));
    }
}
