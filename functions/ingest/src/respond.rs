//! Request and response bodies.

use std::fmt;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use redial_core::metric::Metric;
use redial_engine::ports::{HttpApi, PortError, Telemetry};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::App;
use crate::problem::{Kind, Problem};

pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, body.to_string()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// How many items of a batch were answered 503, for the request's log line.
#[derive(Clone, Copy)]
pub(crate) struct FailedItems(pub(crate) u64);

/// The items of a batch: each is `{"status", …}` with its result, or with its problem.
pub(crate) fn items(done: Vec<Result<(StatusCode, Value), Problem>>) -> Response {
    let item = |done: Result<(StatusCode, Value), Problem>| match done {
        Ok((status, mut result)) => {
            result["status"] = status.as_u16().into();
            result
        }
        Err(problem) => json!({"status": problem.status().as_u16(), "problem": problem.to_json()}),
    };
    let is_failed = |done: &&Result<_, Problem>| {
        done.as_ref().is_err_and(|problem| problem.status() == StatusCode::SERVICE_UNAVAILABLE)
    };
    let failed = done.iter().filter(is_failed).count() as u64;
    let items: Value = done.into_iter().map(item).collect();
    let mut response = json(StatusCode::MULTI_STATUS, &json!({"items": items}));
    response.extensions_mut().insert(FailedItems(failed));
    response
}

/// The body's text, if its type is JSON and it has at most `most` bytes.
pub(crate) async fn read_json(headers: &HeaderMap, body: Body, most: usize) -> Result<Text, Problem> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next().map(HeaderValue::as_bytes), types.next()) {
        (Some(media), None) if is_json(media) => read(headers, body, most).await,
        (_, _) => Err(Kind::UnsupportedMediaType.into()),
    }
}

/// The body's text, whatever its type, if it has at most `most` bytes.
pub(crate) async fn read(headers: &HeaderMap, body: Body, most: usize) -> Result<Text, Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > most) {
        return Err(Kind::TooLarge.into());
    }
    let bytes = match Limited::new(body, most).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(Kind::TooLarge.into()),
        Err(_) => {
            return Err(Problem::field("", "a body of the length in Content-Length", "a shorter body"));
        }
    };
    match String::from_utf8(bytes.into()) {
        Ok(text) => Ok(Text(text)),
        Err(_) => Err(Problem::field("", "JSON in UTF-8", "invalid UTF-8")),
    }
}

/// `application/json`, with or without parameters.
fn is_json(media: &[u8]) -> bool {
    let essence = media.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// A body, which must not be logged.
pub(crate) struct Text(pub(crate) String);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text(redacted, {} bytes)", self.0.len())
    }
}

pub(crate) enum Load<'a> {
    One(&'a str),
    Several(Vec<&'a RawValue>),
}

impl Text {
    /// Reads an array of 1 to `most` elements; anything else is one.
    pub(crate) fn load(&self, most: usize) -> Result<Load<'_>, Problem> {
        if !self.0.trim_ascii_start().starts_with('[') {
            return Ok(Load::One(&self.0));
        }
        let Ok(several) = serde_json::from_str::<Vec<&RawValue>>(&self.0) else {
            return Err(Problem::field("", "a JSON object or an array of objects", "invalid JSON"));
        };
        if (1..=most).contains(&several.len()) {
            return Ok(Load::Several(several));
        }
        Err(Problem::invalid(vec![redial_core::shape::ShapeError {
            path: String::new(),
            expected: format!("an array of 1 to {most} elements").into(),
            found: format!("{} elements", several.len()).into(),
        }]))
    }
}

impl<E: HttpApi> App<E> {
    /// Logs and counts a failure of our infrastructure, and returns the problem for the caller.
    pub(crate) fn failed(&self, error: &PortError) -> Problem {
        self.env.telemetry().infrastructure(error);
        self.env.telemetry().count(Metric::RequestsFailed, 1);
        Problem::unavailable(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_recognised_by_its_media_type() {
        for good in ["application/json", "Application/JSON; charset=utf-8", " application/json ;x"] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
        for bad in ["", "text/plain", "application/jsonp", "text/json", "application/json, text/plain"] {
            assert!(!is_json(bad.as_bytes()), "{bad}");
        }
    }
}
