//! What went wrong, as RFC 9457 writes it: `application/problem+json`.
//!
//! A problem names fields, what was expected and the type that was found. It never repeats what was sent, and a caller who has no
//! right is told the same whatever the reason.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use redial_core::shape::ShapeError;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;
use serde_json::{Value, json};

/// What kind of problem it is. Its slug and status are part of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The body is not what the route takes.
    Invalid,
    /// No credential, or none that is good.
    Unauthorized,
    /// The credential is good, and not for this.
    Forbidden,
    /// There is no such thing, for this caller.
    NotFound,
    /// There is no such route.
    NoRoute,
    /// The route has no such method.
    MethodNotAllowed,
    /// The id was used for another content.
    IdConflict,
    /// A webhook's receiver is stored under this id.
    IsAWebhook,
    /// The subscription was deleted.
    SubscriptionDeleted,
    /// The body is too long.
    TooLarge,
    /// The body is not said to be JSON.
    UnsupportedMediaType,
    /// Too many requests.
    RateLimited,
    /// Our own infrastructure failed.
    Unavailable,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::NoRoute,
        Self::MethodNotAllowed,
        Self::IdConflict,
        Self::IsAWebhook,
        Self::SubscriptionDeleted,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::Unavailable,
    ];

    /// The last part of its `type`.
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::NoRoute => "no_route",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::IdConflict => "id_conflict",
            Self::IsAWebhook => "is_a_webhook",
            Self::SubscriptionDeleted => "subscription_deleted",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
        }
    }

    /// Its status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound | Self::NoRoute => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::IdConflict | Self::IsAWebhook => StatusCode::CONFLICT,
            Self::SubscriptionDeleted => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What it is, in short.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Invalid => "The body is not what this route takes",
            Self::Unauthorized => "No credential that is good was shown",
            Self::Forbidden => "The credential is not for this",
            Self::NotFound => "There is no such thing",
            Self::NoRoute => "There is no such route",
            Self::MethodNotAllowed => "This route has no such method",
            Self::IdConflict => "The id was used for another content",
            Self::IsAWebhook => "A webhook's receiver has this id",
            Self::SubscriptionDeleted => "The subscription was deleted",
            Self::TooLarge => "The body is too long",
            Self::UnsupportedMediaType => "The body is not said to be JSON",
            Self::RateLimited => "Too many requests",
            Self::Unavailable => "Something that this depends on failed",
        }
    }

    /// What to do about it.
    const fn detail(self) -> &'static str {
        match self {
            Self::Invalid => "Each of `errors` names a field, what would do, and what was found there.",
            Self::Unauthorized => {
                "Send `Authorization: Bearer` with an API key or a subscription token that is neither expired nor revoked."
            }
            Self::Forbidden => {
                "The key lacks the scope, or the token is for another subscription or carries other tags."
            }
            Self::NotFound => "Nothing is known under this id, or no longer.",
            Self::NoRoute => "The routes are listed in the API's description: `redial openapi`.",
            Self::MethodNotAllowed => "`Allow` lists the methods that this route has.",
            Self::IdConflict => {
                "Another recipient or payload was sent under this id. Nothing was sent now. A new content needs a new id."
            }
            Self::IsAWebhook => "Webhooks' receivers are kept with `redial subscriptions`.",
            Self::SubscriptionDeleted => "It can be made anew with a consent.",
            Self::TooLarge => "Messages take 1 MiB a request, everything else 16 KiB.",
            Self::UnsupportedMediaType => "Send `Content-Type: application/json`.",
            Self::RateLimited => "Wait for the seconds that `Retry-After` names.",
            Self::Unavailable => {
                "Nothing is wrong with the request: send it again, under the same id, after the seconds that `Retry-After` names."
            }
        }
    }
}

/// A problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    kind: Kind,
    errors: Vec<ShapeError>,
    retry_after: Option<u64>,
    deleted_at: Option<Timestamp>,
}

impl Problem {
    /// Of this kind, and nothing more to say.
    pub fn new(kind: Kind) -> Self {
        Self { kind, errors: Vec::new(), retry_after: None, deleted_at: None }
    }

    /// These fields are not as they should be.
    pub fn invalid(errors: Vec<ShapeError>) -> Self {
        Self { errors, ..Self::new(Kind::Invalid) }
    }

    /// One field is not as it should be.
    pub fn field(path: &str, expected: &'static str, found: &'static str) -> Self {
        Self::invalid(vec![ShapeError {
            path: path.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }])
    }

    /// Too many requests: this many seconds are to be waited.
    pub fn rate_limited(secs: u64) -> Self {
        Self { retry_after: Some(secs.max(1)), ..Self::new(Kind::RateLimited) }
    }

    /// Our own infrastructure failed.
    pub fn unavailable(error: &PortError) -> Self {
        Self { retry_after: Some(if error.throttled { 5 } else { 1 }), ..Self::new(Kind::Unavailable) }
    }

    /// A handler of ours panicked.
    pub fn panicked() -> Self {
        Self { retry_after: Some(1), ..Self::new(Kind::Unavailable) }
    }

    /// The subscription was deleted then.
    pub fn deleted(at: Timestamp) -> Self {
        Self { deleted_at: Some(at), ..Self::new(Kind::SubscriptionDeleted) }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let mut problem = json!({
            "type": format!("urn:redial:problem:{}", self.kind.slug()),
            "title": self.kind.title(),
            "status": self.status().as_u16(),
            "detail": self.kind.detail(),
        });
        if !self.errors.is_empty() {
            let errors = self.errors.iter();
            problem["errors"] = errors
                .map(|error| json!({"field": error.path, "expected": error.expected, "found": error.found}))
                .collect();
        }
        if let Some(at) = self.deleted_at {
            problem["deleted_at"] = at.to_rfc3339().into();
        }
        problem
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        headers.extend(self.retry_after.map(|secs| (RETRY_AFTER, HeaderValue::from(secs))));
        if self.kind == Kind::Unauthorized {
            headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        headers
    }
}

impl From<Kind> for Problem {
    fn from(kind: Kind) -> Self {
        Self::new(kind)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.to_json().to_string()).into_response();
        for (name, value) in self.headers() {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_problem_is_written_as_the_rfc_has_it() {
        let problem = Problem::field("to", "a recipient", "nothing");
        assert_eq!(
            problem.to_json(),
            json!({
                "type": "urn:redial:problem:invalid",
                "title": "The body is not what this route takes",
                "status": 422,
                "detail": "Each of `errors` names a field, what would do, and what was found there.",
                "errors": [{"field": "to", "expected": "a recipient", "found": "nothing"}],
            })
        );
        let response = problem.into_response();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers().get_all(CONTENT_TYPE).iter().count(), 1);
    }

    #[test]
    fn slugs_are_distinct_and_all_statuses_are_errors() {
        let slugs: BTreeSet<_> = Kind::ALL.map(Kind::slug).into();
        assert_eq!(slugs.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| kind.status().as_u16() >= 400));
    }

    #[test]
    fn who_is_to_wait_is_told_how_long() {
        let throttled = PortError { operation: "x", code: "y".to_owned(), throttled: true };
        for (problem, secs) in [
            (Problem::rate_limited(0), "1"),
            (Problem::rate_limited(7), "7"),
            (Problem::unavailable(&throttled), "5"),
            (Problem::panicked(), "1"),
        ] {
            assert_eq!(problem.into_response().headers()[RETRY_AFTER], secs);
        }
    }
}
