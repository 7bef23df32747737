//! Cross-origin requests (WHATWG Fetch, 3.2). They are handled here and not by the function URL or HTTP API, so that both, and tests,
//! behave alike.
//!
//! The API uses no cookies, so credentials are never allowed; a page authenticates with its token. A site that is not listed gets the same
//! response as a caller that is no browser: its browser then withholds the response from the page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderValue, Method, StatusCode};

use crate::app::App;

/// Answers preflights of listed sites, and lets their pages read responses.
pub async fn layer<E: Send + Sync + 'static>(
    State(app): State<Arc<App<E>>>,
    request: Request,
    next: Next,
) -> Response {
    if app.settings.cors_origins.is_empty() {
        return next.run(request).await;
    }
    let origin = request.headers().get(ORIGIN).filter(|origin| is_listed(&app, origin)).cloned();
    let asks = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let is_preflight = *request.method() == Method::OPTIONS && asks && origin.is_some();
    let mut response = if is_preflight {
        let headers = [
            (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
            (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type"),
            // Two hours: only Firefox caches a preflight for longer.
            (ACCESS_CONTROL_MAX_AGE, "7200"),
        ];
        (StatusCode::NO_CONTENT, headers).into_response()
    } else {
        next.run(request).await
    };
    // Responses depend on the origin, so caches must vary on it.
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
    }
    response
}

fn is_listed<E>(app: &App<E>, origin: &HeaderValue) -> bool {
    app.settings.cors_origins.iter().any(|listed| listed.as_str().as_bytes() == origin.as_bytes())
}
