//! The handlers, one file for each group of routes.
//!
//! Every handler checks in the same order: the credential and its scope, the body's type and length, the rate, the fields, and only then
//! come the effects. So a rejected request has changed nothing.

pub mod acks;
pub mod keys;
pub mod messages;
pub mod subscriptions;
pub mod tokens;

use std::sync::Arc;

use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use crate::app::App;
use crate::respond;

type Worker<E> = State<Arc<App<E>>>;

/// The path's one parameter, unless it is not UTF-8.
type Id = Result<Path<String>, PathRejection>;

fn parsed<T>(id: Id, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    parse(&id.ok()?.0)
}

/// `GET /v1/health`: the function is running, and its release. It checks no dependency: those have alarms of their own.
pub async fn health() -> Response {
    respond::json(StatusCode::OK, &json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}
