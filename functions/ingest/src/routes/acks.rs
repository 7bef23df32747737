//! `POST /v1/acks`: a service worker reports that a message was displayed, clicked or closed.
//!
//! The message's token is the only credential here. `navigator.sendBeacon` and a `fetch` that outlives its page cannot set another
//! content type than `text/plain` without a preflight, so any type is accepted.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use redial_core::access::AckToken;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::shape::{self, Errors, Object};
use redial_core::time::Timestamp;
use redial_engine::acks;
use redial_engine::ports::{Acknowledged, Clock, HttpApi};
use serde_json::{Value, json};

use super::Worker;
use crate::app::App;
use crate::limits::{Caller, MOST_ACKS, OTHERS};
use crate::problem::{Kind, Problem};
use crate::respond::{self, Load};

struct Ack {
    token: String,
    event: AckEvent,
}

pub async fn acknowledge<E: HttpApi + 'static>(
    State(app): Worker<E>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let text = respond::read(&parts.headers, body, OTHERS).await?;
    match text.load(MOST_ACKS)? {
        Load::One(ack) => {
            let (status, answer) = take(&app, ack).await?;
            Ok(respond::json(status, &answer))
        }
        Load::Several(all) => {
            let mut items = Vec::with_capacity(all.len());
            for ack in all {
                items.push(respond::item(take(&app, ack.get()).await));
            }
            Ok(respond::json(StatusCode::MULTI_STATUS, &json!({"items": items})))
        }
    }
}

async fn take<E: HttpApi>(app: &App<E>, text: &str) -> Result<(StatusCode, Value), Problem> {
    let ack = read(text)?;
    let now = app.env().clock().now();
    let token = app.settings().token_keys.read_ack(&ack.token, now).ok_or(Kind::Unauthorized)?;
    let AckToken { tenant, delivery, expires_at: _ } = token;
    let key = DeliveryKey { tenant, id: delivery };
    app.limits().admit(app.env(), Caller::Browser(format!("ack#{key}")), 1).await?;
    let (env, event) = (app.env(), ack.event);
    let noted = acks::take(env.acks(), env.ledger(), env.outbox(), env.telemetry(), &key, event, now);
    let noted = noted.await.map_err(|error| app.failed(&error))?;
    let duplicate = match noted {
        Acknowledged::First | Acknowledged::Unknown => false,
        Acknowledged::Again => true,
    };
    let answer = json!({"id": key.id.as_str(), "event": ack.event.label(), "duplicate": duplicate});
    Ok((StatusCode::ACCEPTED, answer))
}

fn read(text: &str) -> Result<Ack, Problem> {
    let errors = Errors::default();
    let ack = Object::parse(text, "", &errors).and_then(|mut object| {
        let token = object.required("token", "the token that came with the message", shape::string);
        let event = object.required("event", "\"displayed\", \"clicked\" or \"closed\"", |raw| {
            AckEvent::from_label(&shape::string(raw)?)
        });
        // The client's clock, which is not used.
        object.optional("at", "an RFC 3339 time", |raw| Timestamp::parse_rfc3339(&shape::string(raw)?));
        object.finish();
        Some(Ack { token: token?, event: event? })
    });
    match ack {
        Some(ack) if errors.is_empty() => Ok(ack),
        Some(_) | None => Err(Problem::invalid(errors.into_vec())),
    }
}
