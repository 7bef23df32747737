//! `GET /v1/keys`: the VAPID public keys, which every page that subscribes browsers needs.

use axum::extract::State;
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use redial_engine::ports::{Clock, HttpApi, PublicKeys};
use serde_json::{Value, json};

use super::Worker;
use crate::problem::Problem;
use crate::respond;

/// Five minutes: a rotation adds a key long before browsers get it.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=300");

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
