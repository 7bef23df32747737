//! `GET /v1/health`: this function is up, and of which release. It asks nothing else: what it depends on has alarms of its own.

use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use crate::respond;

/// Tells that it is up.
pub async fn health() -> Response {
    respond::json(StatusCode::OK, &json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}
