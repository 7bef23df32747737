//! The routes: one table that the router is built from and the API's description is checked against.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};
use redial_engine::ports::HttpApi;

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::routes::{acks, erasures, health, list_keys, listing, messages, subscriptions, tokens};
use crate::{cors, journal};

/// Method, path with the names of parameters in braces, and handler.
pub type Route<E> = (&'static str, &'static str, MethodRouter<Arc<App<E>>>);

pub fn routes<E: HttpApi + 'static>() -> [Route<E>; 14] {
    [
        ("POST", "/v1/messages", post(messages::send)),
        ("GET", "/v1/messages", get(listing::list)),
        ("GET", "/v1/messages/{id}", get(messages::get)),
        ("DELETE", "/v1/messages/{id}", delete(messages::cancel)),
        ("PUT", "/v1/subscriptions", put(subscriptions::create)),
        ("PUT", "/v1/subscriptions/{id}", put(subscriptions::put)),
        ("GET", "/v1/subscriptions/{id}", get(subscriptions::get)),
        ("DELETE", "/v1/subscriptions/{id}", delete(subscriptions::delete)),
        ("POST", "/v1/subscription-tokens", post(tokens::create)),
        ("POST", "/v1/erasures", post(erasures::create)),
        ("GET", "/v1/erasures/{id}", get(erasures::get)),
        ("GET", "/v1/keys", get(list_keys)),
        ("POST", "/v1/acks", post(acks::acknowledge)),
        ("GET", "/v1/health", get(health)),
    ]
}

pub fn router<E: HttpApi + 'static>(app: Arc<App<E>>) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (_, path, handler)| router.route(path, handler))
        .method_not_allowed_fallback(async || Problem::new(Kind::MethodNotAllowed))
        .fallback(async || Problem::new(Kind::NoRoute))
        .layer(from_fn_with_state(app.clone(), cors::layer))
        .layer(from_fn_with_state(app.clone(), journal::layer))
        .with_state(app)
}
