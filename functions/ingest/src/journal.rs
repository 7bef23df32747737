//! The log line of each request, and the response to a handler's panic.
//!
//! The line contains the route's pattern, never the path: a caller can put anything into a path. A batch is answered 207 even if all of its
//! items fail, so the line has their number (`failed_items`).

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::CACHE_CONTROL;
use http::{Extensions, HeaderValue};
use redial_core::access::{Grant, Principal};
use redial_core::metric::Metric;
use redial_engine::ports::{Clock, HttpApi, Telemetry};

use crate::app::App;
use crate::problem::Problem;
use crate::respond::FailedItems;

/// The methods whose names are logged.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

/// Tenant, kind of credential and key id, for the line.
#[derive(Clone, Default)]
struct Caller(Arc<OnceLock<(String, &'static str, Option<String>)>>);

/// Records the caller for the log line.
pub(crate) fn note(extensions: &Extensions, grant: &Grant) {
    let Some(Caller(caller)) = extensions.get() else { return };
    let (kind, key) = match &grant.principal {
        Principal::Key(id) => ("key", Some(id.to_string())),
        Principal::Iam(arn) => ("iam", Some(arn.to_string())),
        Principal::SubscriptionToken => ("token", None),
    };
    // A request has one caller.
    let _ = caller.set((grant.tenant.to_string(), kind, key));
}

/// Runs a request, and logs it.
pub(crate) async fn layer<E: HttpApi + 'static>(
    State(app): State<Arc<App<E>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = Caller::default();
    request.extensions_mut().insert(caller.clone());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // A caller can send any other text.
    let method = METHODS.into_iter().find(|known| *known == request.method()).unwrap_or("other");
    let began = app.env.clock().now();
    let run = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = run.unwrap_or_else(|_| {
        // The panic hook has logged the place.
        app.env.telemetry().count(Metric::RequestsFailed, 1);
        Problem::panicked().into_response()
    });
    // Responses contain tokens, and states that change.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let (tenant, credential, key) = match caller.0.get() {
        Some((tenant, kind, key)) => (Some(tenant.as_str()), Some(*kind), key.as_deref()),
        None => (None, None, None),
    };
    let failed_items = response.extensions().get().map(|FailedItems(number)| *number);
    let failed_items = failed_items.filter(|number| *number > 0);
    tracing::info!(
        event = "request",
        method,
        route,
        status = response.status().as_u16(),
        failed_items,
        tenant,
        credential,
        key,
        took_ms = u64::try_from(app.env.clock().now().since(began).as_millis()).unwrap_or(u64::MAX),
    );
    response
}
