//! What push services answer, as data: one row per answer.
//!
//! The rows are the one place where the kit knows a service's words. Scripts answer with them, and so do
//! the strict checks. Each row says how it is known, because a measured answer and a
//! reported one deserve different trust.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Bytes;
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Mozilla's autopush, for Firefox.
    Mozilla,
    /// Google's FCM, for Chrome.
    Fcm,
    /// Apple's push service, for Safari.
    Apple,
    /// Microsoft's WNS, for Edge.
    Wns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Seen from the service's own program, autopush 1.83.1.
    Measured,
    /// Read in the service's public source.
    Source,
    /// Reported by the service's users or its manual.
    Reported,
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub provider: Provider,
    pub basis: Basis,
    pub status: u16,
    /// Headers besides those of the body.
    pub headers: &'static [(&'static str, &'static str)],
    pub body: Body,
}

#[derive(Clone, Copy, Debug)]
pub enum Body {
    Empty,
    /// Mozilla's JSON: `{code, errno, error, message, more_info}`.
    Errno(Option<u16>, &'static str),
    /// Apple's JSON: `{"reason": …}`.
    Reason(&'static str),
    /// A page of HTML with this title, which a sender must not try to parse.
    Html(&'static str),
}

const MORE_INFO: &str = "http://autopush.readthedocs.io/en/latest/http.html#error-codes";

impl Row {
    pub fn body(&self) -> Option<(&'static str, Vec<u8>)> {
        let json = "application/json";
        match self.body {
            Body::Empty => None,
            Body::Errno(errno, message) => {
                let error = StatusCode::from_u16(self.status).ok();
                let body = json!({
                    "code": self.status,
                    "errno": errno,
                    "error": error.and_then(|status| status.canonical_reason()),
                    "message": message,
                    "more_info": MORE_INFO,
                });
                Some((json, body.to_string().into_bytes()))
            }
            Body::Reason(reason) => Some((json, json!({"reason": reason}).to_string().into_bytes())),
            Body::Html(title) => {
                let page = format!("<HTML><HEAD><TITLE>{title}</TITLE></HEAD><BODY>{title}</BODY></HTML>");
                Some(("text/html; charset=utf-8", page.into_bytes()))
            }
        }
    }
}

impl Fixture {
    /// The row as a response.
    pub(crate) fn response(self) -> Response<Bytes> {
        let row = self.row();
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::from_u16(row.status).expect("a row's status is one");
        for (name, value) in row.headers {
            let name = HeaderName::from_static(name);
            response.headers_mut().append(name, HeaderValue::from_static(value));
        }
        if let Some((media_type, body)) = row.body() {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            *response.body_mut() = body.into();
        }
        response
    }
}

macro_rules! fixtures {
    ($($(#[$doc:meta])+ $name:ident: $provider:ident $basis:ident $status:literal
        [$($header:literal: $value:literal),*] $body:expr;)+) => {
        /// The name of a row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fixture { $($(#[$doc])+ $name,)+ }

        impl Fixture {
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            pub fn row(self) -> Row {
                match self {
                    $(Self::$name => Row {
                        provider: Provider::$provider,
                        basis: Basis::$basis,
                        status: $status,
                        headers: &[$(($header, $value)),*],
                        body: $body,
                    },)+
                }
            }
        }
    };
}

fixtures! {
    /// TTL missing or not a whole number.
    MozillaTtlMissing: Mozilla Measured 400 [] Body::Errno(Some(111), "Missing TTL value");
    /// TTL below 0.
    MozillaTtlNegative: Mozilla Measured 400 [] Body::Errno(Some(114), "TTL must be greater than 0");
    /// A Topic that is too long, empty or of other characters.
    MozillaTopic: Mozilla Measured 400 [] Body::Errno(Some(113), "Topic must be URL and filename safe");
    /// Content-Encoding missing, or headers that do not belong to it.
    MozillaEncryptionHeaders: Mozilla Measured 400 []
        Body::Errno(Some(110), "Missing Content-Encoding header");
    /// A Content-Encoding that it does not know.
    MozillaEncodingUnknown: Mozilla Measured 400 [] Body::Errno(None, "Unknown Content-Encoding header");
    /// Anything wrong with the token or its key.
    MozillaUnauthorized: Mozilla Measured 401 [] Body::Errno(Some(109), "Invalid authentication");
    /// A garbled endpoint, or an unknown path.
    MozillaNotFound: Mozilla Measured 404 [] Body::Empty;
    /// Another method than POST.
    MozillaMethodNotAllowed: Mozilla Measured 405 ["allow": "POST"] Body::Empty;
    /// The browser has unsubscribed.
    MozillaGone: Mozilla Measured 410 ["cache-control": "max-age=86400"]
        Body::Errno(Some(106), "No such subscription");
    /// The user was removed while the message was on its way.
    MozillaUserRemoved: Mozilla Source 410 ["cache-control": "max-age=86400"]
        Body::Errno(Some(105), "User was deleted during routing");
    /// The profile is gone.
    MozillaNoUser: Mozilla Source 410 ["cache-control": "max-age=86400"]
        Body::Errno(Some(103), "UAID not found");
    /// More than 5,630 bytes, or 2,744 for a bridged device.
    MozillaTooLarge: Mozilla Measured 413 [] Body::Errno(Some(104), "Payload too large");
    /// A bridge is throttled; the seconds are jittered on purpose.
    MozillaThrottled: Mozilla Source 429 ["retry-after": "127"]
        Body::Errno(Some(201), "Too many requests to the bridge");
    /// Its storage is down.
    MozillaStorageDown: Mozilla Measured 500 [] Body::Errno(None, "Database error");
    /// A bridge refuses the service's own credentials.
    MozillaBridgeAuthentication: Mozilla Source 502 [] Body::Errno(Some(901), "Bridge authentication error");
    /// A bridge cannot be reached.
    MozillaBridgeConnect: Mozilla Source 502 []
        Body::Errno(Some(902), "Error while connecting to bridge service");
    /// A bridge is too slow.
    MozillaBridgeTimeout: Mozilla Source 502 [] Body::Errno(Some(903), "Bridge request timeout");
    /// Overloaded: come back with growing delays.
    MozillaBackOff: Mozilla Source 503 ["retry-after": "120"]
        Body::Errno(Some(201), "Database error while saving notification");
    /// A passing fault: an immediate retry may work.
    MozillaRetryNow: Mozilla Source 503 ["retry-after": "120"]
        Body::Errno(Some(202), "Please retry immediately");

    /// Accepted.
    FcmCreated: Fcm Reported 201
        ["location": "https://fcm.googleapis.com/fcm/send/m/0:1", "link": "<https://fcm.googleapis.com>; rel=\"urn:ietf:params:push\""]
        Body::Empty;
    /// A bad request, with a page for a body.
    FcmBadRequest: Fcm Reported 400 [] Body::Html("Bad Request");
    /// Signed by another key than the subscription's: 403 where Mozilla says 401.
    FcmKeyMismatch: Fcm Reported 403 [] Body::Html(
        "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions."
    );
    /// A token that was dropped after 270 idle days; these come in masses.
    FcmNotFound: Fcm Reported 404 [] Body::Html("Not Found");
    /// Unsubscribed.
    FcmGone: Fcm Reported 410 [] Body::Html("push subscription has unsubscribed or expired.");
    /// Too large.
    FcmTooLarge: Fcm Reported 413 [] Body::Html("Request Entity Too Large");
    /// Throttled.
    FcmThrottled: Fcm Reported 429 ["retry-after": "60"] Body::Html("Too Many Requests");
    /// Out of order.
    FcmUnavailable: Fcm Reported 503 ["retry-after": "10"] Body::Html("Service Unavailable");

    /// Accepted.
    AppleCreated: Apple Reported 201 ["apns-id": "8d2f9c3a-1b7e-4c5d-9a6f-0e1d2c3b4a59"] Body::Empty;
    /// The token is bad, also for a `sub` at localhost or without `mailto:`.
    AppleBadJwtToken: Apple Reported 403 [] Body::Reason("BadJwtToken");
    /// Signed by another key, with status 400.
    AppleKeyMismatch400: Apple Reported 400 [] Body::Reason("VapidPkHashMismatch");
    /// Signed by another key, with status 403.
    AppleKeyMismatch403: Apple Reported 403 [] Body::Reason("VapidPkHashMismatch");
    /// A Topic whose length mod 4 is 1.
    AppleBadTopic: Apple Reported 400 [] Body::Reason("BadWebPushTopic");
    /// A TTL that it does not take.
    AppleBadTtl: Apple Reported 400 [] Body::Reason("BadTtl");
    /// An Urgency that it does not take.
    AppleBadUrgency: Apple Reported 400 [] Body::Reason("BadUrgency");
    /// Unsubscribed; delayed and fuzzy on purpose.
    AppleGone: Apple Reported 410 [] Body::Reason("Unregistered");
    /// Too large.
    AppleTooLarge: Apple Reported 413 [] Body::Reason("PayloadTooLarge");
    /// Throttled.
    AppleThrottled: Apple Reported 429 [] Body::Reason("TooManyRequests");

    /// Accepted.
    WnsCreated: Wns Reported 201 ["x-wns-status": "received", "x-wns-msg-id": "7C5A1D9E2B3F4A60"] Body::Empty;
    /// TTL and X-WNS-Cache-Policy disagree.
    WnsBadRequest: Wns Reported 400
        ["x-wns-error-description": "Ttl value conflicts with X-WNS-Cache-Policy"] Body::Empty;
    /// The channel has expired.
    WnsGone: Wns Reported 410 ["x-wns-error-description": "Channel expired."] Body::Empty;
    /// Throttled, in the words of its manual.
    WnsThrottled: Wns Reported 406 ["retry-after": "900", "x-wns-status": "appthrottled"] Body::Empty;
    /// Throttled, as some see it.
    WnsThrottled429: Wns Reported 429 ["retry-after": "900", "x-wns-status": "channelthrottled"] Body::Empty;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_row_can_be_sent() {
        for fixture in Fixture::ALL {
            assert_eq!(fixture.response().status(), fixture.row().status, "{fixture:?}");
        }
    }

    #[test]
    fn mozillas_error_has_its_five_fields_and_null_for_no_number() {
        for (fixture, errno) in
            [(Fixture::MozillaGone, json!(106)), (Fixture::MozillaEncodingUnknown, json!(null))]
        {
            let (media_type, body) = fixture.row().body().expect("a body");
            assert_eq!(media_type, "application/json");
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!((&body["code"], body.get("errno")), (&json!(fixture.row().status), Some(&errno)));
            assert!(["error", "message", "more_info"].iter().all(|name| body[name].is_string()), "{body}");
        }
    }
}
