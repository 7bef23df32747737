//! `GET /v1/keys`: what browsers subscribe with. Public: every page that subscribes has to show it.

use axum::extract::State;
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use redial_engine::ports::{Clock, HttpApi, PublicKeys};
use serde_json::{Value, json};

use super::Worker;
use crate::problem::Problem;
use crate::respond;

/// Five minutes: a rotation gives a new key to browsers long after it was added.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// Lists the public keys.
pub async fn list<E: HttpApi + 'static>(State(app): Worker<E>) -> Result<Response, Problem> {
    let keys = app.env().public_keys().all(app.env().clock().now()).await;
    let keys = keys.map_err(|error| app.failed(&error))?;
    let current = keys.iter().find(|key| key.is_current).map(|key| key.id.as_str());
    let listed = keys.iter().map(
        |key| json!({"id": key.id.as_str(), "public_key": key.public_base64url, "current": key.is_current}),
    );
    let listed: Vec<Value> = listed.collect();
    let mut response = respond::json(StatusCode::OK, &json!({"current": current, "keys": listed}));
    response.headers_mut().insert(CACHE_CONTROL, KEPT);
    Ok(response)
}
