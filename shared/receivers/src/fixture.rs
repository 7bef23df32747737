//! What push services answer: the one place where the kit knows a service's words. Mozilla's were seen from its own program,
//! autopush 1.83.1; the others are reported by the services' users and manuals.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Bytes;
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fixture {
    /// TTL missing or not a whole number.
    MozillaTtlMissing,
    /// TTL below 0.
    MozillaTtlNegative,
    /// A Topic that is too long, empty or of other characters.
    MozillaTopic,
    /// Content-Encoding missing, or headers that do not belong to it.
    MozillaEncryptionHeaders,
    /// A Content-Encoding that it does not know.
    MozillaEncodingUnknown,
    /// Anything wrong with the token or its key.
    MozillaUnauthorized,
    /// A garbled endpoint, or an unknown path.
    MozillaNotFound,
    /// Another method than POST.
    MozillaMethodNotAllowed,
    /// The browser has unsubscribed.
    MozillaGone,
    /// More than 5,630 bytes, or 2,744 for a bridged device.
    MozillaTooLarge,
    /// A bridge is throttled; the seconds are jittered on purpose.
    MozillaThrottled,
    /// A bad request, with a page for a body.
    FcmBadRequest,
    /// A token that was dropped after 270 idle days; these come in masses.
    FcmNotFound,
    /// Too large.
    AppleTooLarge,
}

enum Body {
    Empty,
    /// Mozilla's JSON: `{code, errno, error, message, more_info}`.
    Errno(Option<u16>, &'static str),
    /// Apple's JSON: `{"reason": …}`.
    Reason(&'static str),
    /// A page of HTML with this title, which a sender must not try to parse.
    Html(&'static str),
}

impl Fixture {
    /// Its status, a header besides those of the body, and the body.
    fn row(self) -> (u16, Option<(&'static str, &'static str)>, Body) {
        use Body::{Empty, Errno, Html, Reason};
        match self {
            Self::MozillaTtlMissing => (400, None, Errno(Some(111), "Missing TTL value")),
            Self::MozillaTtlNegative => (400, None, Errno(Some(114), "TTL must be greater than 0")),
            Self::MozillaTopic => (400, None, Errno(Some(113), "Topic must be URL and filename safe")),
            Self::MozillaEncryptionHeaders => {
                (400, None, Errno(Some(110), "Missing Content-Encoding header"))
            }
            Self::MozillaEncodingUnknown => (400, None, Errno(None, "Unknown Content-Encoding header")),
            Self::MozillaUnauthorized => (401, None, Errno(Some(109), "Invalid authentication")),
            Self::MozillaNotFound => (404, None, Empty),
            Self::MozillaMethodNotAllowed => (405, Some(("allow", "POST")), Empty),
            Self::MozillaGone => {
                (410, Some(("cache-control", "max-age=86400")), Errno(Some(106), "No such subscription"))
            }
            Self::MozillaTooLarge => (413, None, Errno(Some(104), "Payload too large")),
            Self::MozillaThrottled => {
                (429, Some(("retry-after", "127")), Errno(Some(201), "Too many requests to the bridge"))
            }
            Self::FcmBadRequest => (400, None, Html("Bad Request")),
            Self::FcmNotFound => (404, None, Html("Not Found")),
            Self::AppleTooLarge => (413, None, Reason("PayloadTooLarge")),
        }
    }

    pub(crate) fn response(self) -> Response<Bytes> {
        let (code, header, body) = self.row();
        let status = StatusCode::from_u16(code).expect("a row's status is one");
        let (media_type, body) = match body {
            Body::Empty => (None, String::new()),
            Body::Errno(errno, message) => {
                let more_info = "http://autopush.readthedocs.io/en/latest/http.html#error-codes";
                let error = status.canonical_reason();
                let body = json!({
                    "code": code, "errno": errno, "error": error, "message": message, "more_info": more_info,
                });
                (Some("application/json"), body.to_string())
            }
            Body::Reason(reason) => (Some("application/json"), json!({"reason": reason}).to_string()),
            Body::Html(title) => {
                let page = format!("<HTML><HEAD><TITLE>{title}</TITLE></HEAD><BODY>{title}</BODY></HTML>");
                (Some("text/html; charset=utf-8"), page)
            }
        };
        let mut response = empty(status).map(|_| body.into());
        for (name, value) in header.into_iter().chain(media_type.map(|it| (CONTENT_TYPE.as_str(), it))) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a row's header is one");
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

pub(crate) fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_answer_has_the_form_of_its_service() {
        for (fixture, status, media_type, errno) in [
            (Fixture::MozillaGone, 410, Some("application/json"), json!(106)),
            (Fixture::MozillaEncodingUnknown, 400, Some("application/json"), json!(null)),
            (Fixture::AppleTooLarge, 413, Some("application/json"), json!(null)),
            (Fixture::FcmBadRequest, 400, Some("text/html; charset=utf-8"), json!(null)),
            (Fixture::MozillaMethodNotAllowed, 405, None, json!(null)),
        ] {
            let response = fixture.response();
            let kind = response.headers().get(CONTENT_TYPE).map(|value| value.to_str().expect("text"));
            assert_eq!((response.status().as_u16(), kind), (status, media_type), "{fixture:?}");
            let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
            assert_eq!(body["errno"], errno, "{fixture:?}");
            let is_mozillas = body.get("errno").is_some();
            let texts = ["error", "message", "more_info"];
            assert!(!is_mozillas || texts.iter().all(|name| body[name].is_string()), "{body}");
            assert!(!is_mozillas || body["code"] == status, "{body}");
        }
    }
}
