//! Errors as RFC 9457 defines them: `application/problem+json`.
//!
//! A problem names fields, what was expected and the type that was found. It never repeats the request's values, and every unauthorized
//! caller gets the same problem, whatever the reason.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use redial_core::ledger::State;
use redial_core::quota::Exceeded;
use redial_core::shape::ShapeError;
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;
use serde_json::{Value, json};

/// The kind of a problem. Slugs and statuses are part of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Invalid,
    Unauthorized,
    Forbidden,
    NotFound,
    NoRoute,
    MethodNotAllowed,
    IdConflict,
    BeingAttempted,
    AlreadyEnded,
    OfAnAudience,
    IsAWebhook,
    EndpointTaken,
    SubscriptionDeleted,
    QuotaExceeded,
    TooLarge,
    UnsupportedMediaType,
    RateLimited,
    Unavailable,
}

impl Kind {
    pub const ALL: [Self; 18] = [
        Self::Invalid,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::NoRoute,
        Self::MethodNotAllowed,
        Self::IdConflict,
        Self::BeingAttempted,
        Self::AlreadyEnded,
        Self::OfAnAudience,
        Self::IsAWebhook,
        Self::EndpointTaken,
        Self::SubscriptionDeleted,
        Self::QuotaExceeded,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::Unavailable,
    ];

    /// Slug, status, title and detail.
    const fn row(self) -> (&'static str, StatusCode, &'static str, &'static str) {
        match self {
            Self::Invalid => (
                "invalid",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The request body is invalid",
                "Each of `errors` names a field, what was expected and what was found.",
            ),
            Self::Unauthorized => (
                "unauthorized",
                StatusCode::UNAUTHORIZED,
                "A valid credential is required",
                "Send `Authorization: Bearer` with an API key or a subscription token that has not expired or been revoked. A token ends with its subscription, and with the key that made it.",
            ),
            Self::Forbidden => (
                "forbidden",
                StatusCode::FORBIDDEN,
                "The credential does not permit this request",
                "The key lacks the required scope, or the token is for another subscription or does not include these tags.",
            ),
            Self::NotFound => (
                "not_found",
                StatusCode::NOT_FOUND,
                "Not found",
                "The id is unknown, or its record has expired.",
            ),
            Self::NoRoute => {
                ("no_route", StatusCode::NOT_FOUND, "No such route", "`redial openapi` prints the routes.")
            }
            Self::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "Method not allowed",
                "`Allow` lists the methods of this route.",
            ),
            Self::IdConflict => (
                "id_conflict",
                StatusCode::CONFLICT,
                "The id was used for different content",
                "A message with another recipient or payload has this id. This one was not sent. Use a new id for new content.",
            ),
            Self::BeingAttempted => (
                "being_attempted",
                StatusCode::CONFLICT,
                "An attempt is being made",
                "The delivery was not cancelled. Retry after the number of seconds in `Retry-After`: it has ended then, or waits for a retry.",
            ),
            Self::AlreadyEnded => (
                "already_ended",
                StatusCode::CONFLICT,
                "The delivery has ended",
                "`state` says how. Nothing was changed.",
            ),
            Self::OfAnAudience => (
                "of_an_audience",
                StatusCode::CONFLICT,
                "The delivery is sent with others of its audience",
                "Nothing was changed. Cancel the message to the audience with `redial audience cancel`.",
            ),
            Self::IsAWebhook => (
                "is_a_webhook",
                StatusCode::CONFLICT,
                "The id belongs to a webhook",
                "Manage webhooks with `redial subscriptions`.",
            ),
            Self::EndpointTaken => (
                "endpoint_taken",
                StatusCode::CONFLICT,
                "Another subscription has this endpoint",
                "The endpoint is stored under another id of the tenant. Nothing was changed. Delete that subscription, or submit the endpoint under its id.",
            ),
            Self::SubscriptionDeleted => (
                "subscription_deleted",
                StatusCode::GONE,
                "The subscription was deleted",
                "Send it again with `consent` to create a new subscription.",
            ),
            Self::QuotaExceeded => (
                "quota_exceeded",
                StatusCode::FORBIDDEN,
                "The tenant's quota is used up",
                "`quota` names it. Nothing was stored or sent.",
            ),
            Self::TooLarge => (
                "too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The request body is too large",
                "The limit is 1 MiB for messages and 16 KiB for all other requests.",
            ),
            Self::UnsupportedMediaType => (
                "unsupported_media_type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Content-Type must be application/json",
                "Send the header `Content-Type: application/json`.",
            ),
            Self::RateLimited => (
                "rate_limited",
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests",
                "Retry after the number of seconds in `Retry-After`.",
            ),
            Self::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                "Service temporarily unavailable",
                "The request is valid: retry with the same id after the number of seconds in `Retry-After`.",
            ),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    kind: Kind,
    errors: Vec<ShapeError>,
    retry_after: Option<u64>,
    deleted_at: Option<Timestamp>,
    quota: Option<(Exceeded, Numbers)>,
    state: Option<State>,
}

/// Whether a problem names a tenant's numbers: a browser's user must not learn how many subscribers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    Named,
    Withheld,
}

impl Problem {
    pub fn new(kind: Kind) -> Self {
        Self { kind, errors: Vec::new(), retry_after: None, deleted_at: None, quota: None, state: None }
    }

    pub fn invalid(errors: Vec<ShapeError>) -> Self {
        Self { errors, ..Self::new(Kind::Invalid) }
    }

    pub fn field(path: &str, expected: &'static str, found: &'static str) -> Self {
        Self::invalid(vec![ShapeError {
            path: path.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }])
    }

    pub fn rate_limited(secs: u64) -> Self {
        Self { retry_after: Some(secs.max(1)), ..Self::new(Kind::RateLimited) }
    }

    pub fn unavailable(error: &PortError) -> Self {
        Self { retry_after: Some(if error.throttled { 5 } else { 1 }), ..Self::new(Kind::Unavailable) }
    }

    pub fn panicked() -> Self {
        Self { retry_after: Some(1), ..Self::new(Kind::Unavailable) }
    }

    pub fn deleted(at: Timestamp) -> Self {
        Self { deleted_at: Some(at), ..Self::new(Kind::SubscriptionDeleted) }
    }

    pub fn quota_exceeded(exceeded: Exceeded, numbers: Numbers) -> Self {
        Self { quota: Some((exceeded, numbers)), ..Self::new(Kind::QuotaExceeded) }
    }

    /// The delivery is being attempted, until then at the latest.
    pub fn being_attempted(until: Option<Timestamp>, now: Timestamp) -> Self {
        let secs = until.map_or(1, |until| until.since(now).as_secs() + 1);
        Self { retry_after: Some(secs), ..Self::new(Kind::BeingAttempted) }
    }

    pub fn already_ended(state: State) -> Self {
        Self { state: Some(state), ..Self::new(Kind::AlreadyEnded) }
    }

    pub fn status(&self) -> StatusCode {
        self.kind.row().1
    }

    pub fn to_json(&self) -> Value {
        let (slug, status, title, detail) = self.kind.row();
        let kind = format!("urn:redial:problem:{slug}");
        let mut problem = json!({"type": kind, "title": title, "status": status.as_u16(), "detail": detail});
        if !self.errors.is_empty() {
            let errors = self.errors.iter();
            problem["errors"] = errors
                .map(|error| json!({"field": error.path, "expected": error.expected, "found": error.found}))
                .collect();
        }
        if let Some(at) = self.deleted_at {
            problem["deleted_at"] = at.to_rfc3339().into();
        }
        if let Some(state) = self.state {
            problem["state"] = state.label().into();
        }
        if let Some((exceeded, numbers)) = self.quota {
            problem["quota"] = exceeded.quota.label().into();
            if numbers == Numbers::Named {
                problem["detail"] = format!("Nothing was stored or sent: {exceeded}.").into();
                problem["limit"] = exceeded.limit.into();
                problem["used"] = exceeded.used.into();
            }
        }
        problem
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
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(secs) = self.retry_after {
            headers.insert(RETRY_AFTER, secs.into());
        }
        if self.kind == Kind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use redial_core::quota::Quota;

    use super::*;

    #[test]
    fn a_problem_has_the_form_of_rfc_9457() {
        let problem = Problem::field("to", "a recipient", "nothing");
        assert_eq!(
            problem.to_json(),
            json!({
                "type": "urn:redial:problem:invalid",
                "title": "The request body is invalid",
                "status": 422,
                "detail": "Each of `errors` names a field, what was expected and what was found.",
                "errors": [{"field": "to", "expected": "a recipient", "found": "nothing"}],
            })
        );
        let response = problem.into_response();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers().get_all(CONTENT_TYPE).iter().count(), 1);
    }

    #[test]
    fn an_exceeded_quota_is_named_and_its_numbers_only_to_a_sender() {
        let exceeded = Exceeded { quota: Quota::Subscriptions, limit: 10, used: 12 };
        let named = Problem::quota_exceeded(exceeded, Numbers::Named).to_json();
        let withheld = Problem::quota_exceeded(exceeded, Numbers::Withheld).to_json();
        for (problem, limit, used) in [(&named, json!(10), json!(12)), (&withheld, json!(null), json!(null))]
        {
            assert_eq!(problem["type"], "urn:redial:problem:quota_exceeded");
            assert_eq!((&problem["status"], &problem["quota"]), (&json!(403), &json!("subscriptions")));
            assert_eq!((&problem["limit"], &problem["used"]), (&limit, &used));
        }
        assert_eq!(
            named["detail"],
            "Nothing was stored or sent: the tenant has 12 subscriptions, and its quota is 10: delete subscriptions that \
             are not needed, or ask the operator for a higher quota."
        );
        assert_eq!(withheld["detail"], "`quota` names it. Nothing was stored or sent.");
    }

    #[test]
    fn a_problem_that_may_pass_has_a_retry_after() {
        let throttled = PortError { operation: "x", code: "y".to_owned(), throttled: true };
        for (problem, secs) in [
            (Problem::rate_limited(0), "1"),
            (Problem::rate_limited(7), "7"),
            (Problem::unavailable(&throttled), "5"),
            (Problem::panicked(), "1"),
            (Problem::being_attempted(None, Timestamp::from_secs(5)), "1"),
            (Problem::being_attempted(Some(Timestamp::from_secs(47)), Timestamp::from_secs(5)), "43"),
        ] {
            assert_eq!(problem.into_response().headers()[RETRY_AFTER], secs);
        }
    }
}
