//! The handlers, one file for each group of routes; those that need no credential and no body are here.
//!
//! Every handler checks in the same order: the credential and its scope, the body's type and length, the rate, the fields, and only then
//! come the effects. So a rejected request has changed nothing.

pub mod acks;
pub mod erasures;
pub mod listing;
pub mod messages;
pub mod subscriptions;
pub mod tokens;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use rand::RngExt;
use rand::rngs::StdRng;
use redial_engine::ports::{Clock, HttpApi, PublicKeys};
use serde_json::{Value, json};

use crate::app::App;
use crate::problem::Problem;
use crate::respond;

type Worker<E> = State<Arc<App<E>>>;

/// The path's one parameter, unless it is not UTF-8.
type Id = Result<Path<String>, PathRejection>;

type Answered = Result<Response, Problem>;

/// An id's random characters.
fn random_text(rng: &mut StdRng, digits: &[u8], length: usize) -> String {
    (0..length).map(|_| char::from(digits[rng.random_range(0..digits.len())])).collect()
}

fn parsed<T>(id: Id, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    parse(&id.ok()?.0)
}

/// `GET /v1/health`: the function is running, and its release. It checks no dependency: those have alarms of their own.
pub async fn health() -> Response {
    respond::json(StatusCode::OK, &json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /v1/keys`: the VAPID public keys, which every page that subscribes browsers needs. They may be cached for five minutes: a
/// rotation adds a key long before browsers get it.
pub async fn list_keys<E: HttpApi + 'static>(State(app): Worker<E>) -> Answered {
    let keys = app.env.public_keys().all(app.env.clock().now()).await;
    let keys = keys.map_err(|error| app.failed(&error))?;
    let current = keys.iter().find(|key| key.is_current).map(|key| key.id.as_str());
    let listed: Value = keys
        .iter()
        .map(|key| json!({"id": key.id.as_str(), "public_key": key.public_base64url, "current": key.is_current}))
        .collect();
    let mut response = respond::json(StatusCode::OK, &json!({"current": current, "keys": listed}));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    Ok(response)
}
