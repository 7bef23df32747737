//! From Lambda's event to a request of the router, and back.
//!
//! Function URLs and HTTP APIs send the same event. Both can check AWS's signature of a request; then the request context contains the
//! caller. Lambda writes the context, and no caller can change it.
//!
//! Callers control everything else, and lambda_http expects some of it to be well-formed: it panics on an invalid `Host` or query. So a
//! clean event is built first, from the parts that the API reads: method, path, a plain query, valid headers, body, and the caller's ARN.

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method};
use ingest::authorize::IamCaller;
use ingest::problem::Problem;
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};
use redial_core::access::IamArn;
use serde_json::{Map, Value, json};
use tower::ServiceExt;

/// No path of the API is longer.
const LONGEST_PATH: usize = 2048;

/// Headers about the transport, which the API does not read.
const TRANSPORT: [&str; 5] =
    ["host", "forwarded", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"];

pub(crate) async fn answer(router: &Router, mut request: Request) -> Response {
    if let Some(caller) = iam_caller(&request) {
        request.extensions_mut().insert(caller);
    }
    let answered = router.clone().oneshot(request.map(Body::new)).await;
    answered.unwrap_or_else(|_| Problem::panicked().into_response())
}

/// An event whose every part is valid. An invalid path or method becomes `GET /`, which is no route.
pub(crate) fn sanitized(event: &Value) -> Value {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let headers: Map<String, Value> =
        event["headers"].as_object().into_iter().flatten().filter_map(header).collect();
    let path = text("/rawPath").filter(|path| {
        path.starts_with('/') && path.len() <= LONGEST_PATH && PathAndQuery::try_from(*path).is_ok()
    });
    let method =
        text("/requestContext/http/method").filter(|method| Method::from_bytes(method.as_bytes()).is_ok());
    let (path, method) = path.zip(method).unwrap_or(("/", "GET"));
    let query = text("/rawQueryString").filter(|query| is_plain(query)).unwrap_or_default();
    let iam = text("/requestContext/authorizer/iam/userArn").map(|arn| json!({"iam": {"userArn": arn}}));
    json!({
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "stage": "$default",
            "timeEpoch": 0,
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "", "userAgent": ""},
            "authorizer": iam,
        },
        "body": text("/body"),
        "isBase64Encoded": event["isBase64Encoded"] == true,
    })
}

/// Whether a query string has no character but those of RFC 3986. Another one is left out.
fn is_plain(query: &str) -> bool {
    let is_of_it = |c: u8| c.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/?".contains(&c);
    query.len() <= LONGEST_PATH && query.bytes().all(is_of_it)
}

fn header((name, value): (&String, &Value)) -> Option<(String, Value)> {
    let is_of_transport = TRANSPORT.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_valid =
        HeaderName::try_from(name.as_str()).is_ok() && HeaderValue::from_str(value.as_str()?).is_ok();
    (is_valid && !is_of_transport).then(|| (name.clone(), value.clone()))
}

fn iam_caller(request: &Request) -> Option<IamCaller> {
    match request.request_context_ref()? {
        RequestContext::ApiGatewayV2(context) => {
            let iam = context.authorizer.as_ref()?.iam.as_ref()?;
            IamArn::parse(iam.user_arn.as_deref()?).map(IamCaller)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lambda_http::request::from_str;
    use proptest::prelude::*;

    use super::*;

    /// The event of a function URL or an HTTP API.
    fn event(path: &str, query: &str, method: &str, headers: &Value, authorizer: &Value) -> Value {
        json!({
            "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query, "headers": headers,
            "cookies": ["a=b"], "queryStringParameters": {"a": "b"},
            "requestContext": {
                "accountId": "111122223333", "apiId": "x", "domainName": "h", "stage": "$default", "requestId": "1",
                "time": "21/Nov/2026:10:00:00 +0000", "timeEpoch": 1_800_000_000_000_i64, "routeKey": "$default",
                "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "x"},
                "authorizer": authorizer,
            },
            "body": "{}",
            "isBase64Encoded": false,
        })
    }

    fn request(event: &Value) -> Request {
        from_str(&sanitized(event).to_string()).expect("an event")
    }

    fn signed(authorizer: &Value) -> Request {
        let headers = json!({"authorization": "AWS4-HMAC-SHA256 x", "host": "h"});
        request(&event("/v1/messages/m%201", "a=b", "GET", &headers, authorizer))
    }

    #[test]
    fn the_signing_principal_comes_from_the_context_alone() {
        let arn = "arn:aws:sts::111122223333:assumed-role/Sender/session";
        let caller = iam_caller(&signed(&json!({"iam": {"userArn": arn, "accountId": "111122223333"}})));
        assert_eq!(caller, IamArn::parse(arn).map(IamCaller));
        for authorizer in
            [Value::Null, json!({}), json!({"iam": {"userArn": "x"}}), json!({"jwt": {"claims": {}}})]
        {
            assert_eq!(iam_caller(&signed(&authorizer)), None, "{authorizer}");
        }
    }

    #[test]
    fn method_path_headers_and_body_are_unchanged() {
        let headers = json!({"Content-Type": "application/json", "x-a": "b", "x-b": "a\nb", "Host": "::1"});
        let request = request(&event("/v1/messages/m%201", "a={}", "PUT", &headers, &Value::Null));
        assert_eq!((request.uri().path(), request.uri().query()), ("/v1/messages/m%201", None));
        assert_eq!((request.method(), request.body().as_ref()), (&Method::PUT, &b"{}"[..]));
        assert_eq!(
            (&request.headers()["content-type"], &request.headers()["x-a"]),
            (&HeaderValue::from_static("application/json"), &HeaderValue::from_static("b"))
        );
        assert!(!request.headers().contains_key("x-b") && !request.headers().contains_key("host"));
    }

    #[test]
    fn a_plain_query_is_unchanged_and_another_is_left_out() {
        let query = |query: &str| {
            let request = request(&event("/v1/messages", query, "GET", &json!({}), &Value::Null));
            request.uri().query().map(str::to_owned)
        };
        for plain in [
            "state=retrying",
            "state=failed&since=2026-11-21T10:05:00Z&after=2026-11-21T10:05:00.000Z%2Forder-17",
        ] {
            assert_eq!(query(plain).as_deref(), Some(plain));
        }
        for other in ["state={}", "state=a b", "state=\u{e9}", &"a".repeat(LONGEST_PATH + 1)] {
            assert_eq!(query(other), None, "{other:.20}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_event_becomes_a_request(
            path in "(/[^#]{0,30}|.{0,30})", query in "([-a-z0-9._~%=&:/+]{0,30}|.{0,30})", method in "([A-Z]{1,9}|.{0,9})",
            names in prop::collection::vec("(host|x-forwarded-proto|cookie|[a-z-]{1,9}|.{0,9})", 0..5), value in ".{0,30}",
        ) {
            let headers: Value = names.into_iter().map(|name| (name, Value::from(value.as_str()))).collect();
            let request = request(&event(&path, &query, &method, &headers, &Value::Null));
            prop_assert!(request.uri().path().starts_with('/'));
        }
    }
}
