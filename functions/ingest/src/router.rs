//! The routes: one table that the router is built from and the API's description is checked against.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use redial_engine::ports::HttpApi;

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::routes::{acks, keys, messages, subscriptions, tokens};
use crate::{cors, journal};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    SendMessages,
    GetMessage,
    CreateSubscription,
    PutSubscription,
    GetSubscription,
    DeleteSubscription,
    CreateToken,
    ListKeys,
    Acknowledge,
    Health,
}

impl Operation {
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

    fn row(self) -> (Method, &'static str) {
        match self {
            Self::SendMessages => (Method::POST, "/v1/messages"),
            Self::GetMessage => (Method::GET, "/v1/messages/{id}"),
            Self::CreateSubscription => (Method::PUT, "/v1/subscriptions"),
            Self::PutSubscription => (Method::PUT, "/v1/subscriptions/{id}"),
            Self::GetSubscription => (Method::GET, "/v1/subscriptions/{id}"),
            Self::DeleteSubscription => (Method::DELETE, "/v1/subscriptions/{id}"),
            Self::CreateToken => (Method::POST, "/v1/subscription-tokens"),
            Self::ListKeys => (Method::GET, "/v1/keys"),
            Self::Acknowledge => (Method::POST, "/v1/acks"),
            Self::Health => (Method::GET, "/v1/health"),
        }
    }

    /// With the names of parameters in braces.
    pub fn path(self) -> &'static str {
        self.row().1
    }

    pub fn method(self) -> Method {
        self.row().0
    }

    fn handler<E: HttpApi + 'static>(self) -> MethodRouter<Arc<App<E>>> {
        let method =
            MethodFilter::try_from(self.method()).expect("invariant: axum routes the table's methods");
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
            Self::Health => on(method, crate::routes::health),
        }
    }
}

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
