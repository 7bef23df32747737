//! `POST /v1/acks`: a service worker reports that a message was displayed, clicked or closed.
//!
//! The message's token is the only credential here. `navigator.sendBeacon` and a `fetch` that outlives its page cannot set another
//! content type than `text/plain` without a preflight, so any type is accepted.

use axum::extract::{Request, State};
use http::StatusCode;
use redial_core::ack::AckEvent;
use redial_core::shape::{self, Errors, Object};
use redial_core::time::Timestamp;
use redial_engine::acks;
use redial_engine::ports::{Acknowledged, Clock, HttpApi};
use serde_json::{Value, json};

use super::{Answered, Worker};
use crate::app::App;
use crate::limits::{Caller, MOST_ACKS, OTHERS};
use crate::problem::{Kind, Problem};
use crate::respond::{self, Load};

pub async fn acknowledge<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let text = respond::read(&parts.headers, body, OTHERS).await?;
    match text.load(MOST_ACKS)? {
        Load::One(ack) => {
            let (status, answer) = take(&app, ack).await?;
            Ok(respond::json(status, &answer))
        }
        Load::Several(all) => {
            let mut done = Vec::with_capacity(all.len());
            for ack in all {
                done.push(take(&app, ack.get()).await);
            }
            Ok(respond::items(done))
        }
    }
}

async fn take<E: HttpApi>(app: &App<E>, text: &str) -> Result<(StatusCode, Value), Problem> {
    let (token, event) = read(text)?;
    let (env, now) = (&app.env, app.env.clock().now());
    let token = app.settings.token_keys.read_ack(&token, now).ok_or(Kind::Unauthorized)?;
    app.limits.admit(&app.env, Caller::Browser(format!("ack#{}", token.key())), 1).await?;
    let recorded = acks::take(env, &token, event, now).await.map_err(|error| app.failed(&error))?;
    let duplicate = recorded == Acknowledged::Again;
    let answer = json!({"id": token.delivery.as_str(), "event": event.label(), "duplicate": duplicate});
    Ok((StatusCode::ACCEPTED, answer))
}

fn read(text: &str) -> Result<(String, AckEvent), Problem> {
    let errors = Errors::default();
    let ack = Object::parse(text, "", &errors).and_then(|mut object| {
        let token = object.required("token", "the token that came with the message", shape::string);
        let events = "\"displayed\", \"clicked\" or \"closed\"";
        let event = object.required("event", events, shape::text(AckEvent::from_label));
        // The client's clock, which is not used.
        object.optional("at", "an RFC 3339 time", shape::text(Timestamp::parse_rfc3339));
        object.finish();
        token.zip(event)
    });
    errors.result(ack).map_err(Problem::invalid)
}
