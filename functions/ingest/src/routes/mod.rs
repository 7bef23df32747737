//! What the API does: a file a group of routes.
//!
//! Every handler has the same order: who asks, is it for them, the body's type and length, the rate, the fields, and only then
//! the effects. So a request that is refused has changed nothing.

pub mod acks;
pub mod health;
pub mod keys;
pub mod messages;
pub mod subscriptions;
pub mod tokens;

use std::sync::Arc;

use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;

use crate::app::App;

/// The worker that answers.
type Worker<E> = State<Arc<App<E>>>;

/// The path's one parameter, unless it is no text.
type Id = Result<Path<String>, PathRejection>;

/// It, read.
fn parsed<T>(id: Id, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    parse(&id.ok()?.0)
}
