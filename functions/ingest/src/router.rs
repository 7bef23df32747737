//! The routes: one table, from which the router is built and against which the API's description is checked.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use redial_engine::ports::HttpApi;

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::routes::{acks, health, keys, messages, subscriptions, tokens};
use crate::{cors, journal};

/// Something that the API does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Takes messages.
    SendMessages,
    /// Tells where a delivery stands.
    GetMessage,
    /// Stores a subscription under an id that it makes.
    CreateSubscription,
    /// Stores or renews a subscription.
    PutSubscription,
    /// Tells of a subscription.
    GetSubscription,
    /// Erases a subscription.
    DeleteSubscription,
    /// Makes a token for a browser.
    CreateToken,
    /// Lists what browsers subscribe with.
    ListKeys,
    /// Takes acknowledgements.
    Acknowledge,
    /// Tells that it is up.
    Health,
}

/// A method of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Operation {
    /// All of them: the table.
    pub const ALL: [Self; 10] = [
        Self::SendMessages,
        Self::GetMessage,
        Self::CreateSubscription,
        Self::PutSubscription,
        Self::GetSubscription,
        Self::DeleteSubscription,
        Self::CreateToken,
        Self::ListKeys,
        Self::Acknowledge,
        Self::Health,
    ];

    const fn row(self) -> (Verb, &'static str) {
        match self {
            Self::SendMessages => (Verb::Post, "/v1/messages"),
            Self::GetMessage => (Verb::Get, "/v1/messages/{id}"),
            Self::CreateSubscription => (Verb::Put, "/v1/subscriptions"),
            Self::PutSubscription => (Verb::Put, "/v1/subscriptions/{id}"),
            Self::GetSubscription => (Verb::Get, "/v1/subscriptions/{id}"),
            Self::DeleteSubscription => (Verb::Delete, "/v1/subscriptions/{id}"),
            Self::CreateToken => (Verb::Post, "/v1/subscription-tokens"),
            Self::ListKeys => (Verb::Get, "/v1/keys"),
            Self::Acknowledge => (Verb::Post, "/v1/acks"),
            Self::Health => (Verb::Get, "/v1/health"),
        }
    }

    /// Its path, with names of parameters in braces.
    pub const fn path(self) -> &'static str {
        self.row().1
    }

    /// Its method.
    pub const fn method(self) -> Method {
        match self.row().0 {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Delete => Method::DELETE,
        }
    }

    fn handler<E: HttpApi + 'static>(self) -> MethodRouter<Arc<App<E>>> {
        let method = match self.row().0 {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Put => MethodFilter::PUT,
            Verb::Delete => MethodFilter::DELETE,
        };
        match self {
            Self::SendMessages => on(method, messages::send::<E>),
            Self::GetMessage => on(method, messages::get::<E>),
            Self::CreateSubscription => on(method, subscriptions::create::<E>),
            Self::PutSubscription => on(method, subscriptions::put::<E>),
            Self::GetSubscription => on(method, subscriptions::get::<E>),
            Self::DeleteSubscription => on(method, subscriptions::delete::<E>),
            Self::CreateToken => on(method, tokens::create::<E>),
            Self::ListKeys => on(method, keys::list::<E>),
            Self::Acknowledge => on(method, acks::acknowledge::<E>),
            Self::Health => on(method, health::health),
        }
    }
}

/// The API over this world.
pub fn router<E: HttpApi + 'static>(app: Arc<App<E>>) -> Router {
    let routes = Operation::ALL
        .into_iter()
        .fold(Router::new(), |router, operation| router.route(operation.path(), operation.handler::<E>()));
    routes
        .method_not_allowed_fallback(async || Problem::new(Kind::MethodNotAllowed))
        .fallback(async || Problem::new(Kind::NoRoute))
        .layer(from_fn_with_state(app.clone(), cors::layer::<E>))
        .layer(from_fn_with_state(app.clone(), journal::layer::<E>))
        .with_state(app)
}
