//! A function's answer as an HTTP response.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, SET_COOKIE, WWW_AUTHENTICATE};
use http::{HeaderName, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;

/// The name under which a function URL passes on `WWW-Authenticate`.
const REMAPPED: HeaderName = HeaderName::from_static("x-amzn-remapped-www-authenticate");

/// `None` if the answer is of no use as one. What has no status code is itself the body of a 200.
pub(super) fn response(answer: &Value) -> Option<Response<Full<Bytes>>> {
    let Some(status) = answer.get("statusCode") else {
        let response = Response::builder().header(CONTENT_TYPE, "application/json");
        return response.body(Full::from(text(answer))).ok();
    };
    let status = StatusCode::from_u16(u16::try_from(status.as_u64()?).ok()?).ok()?;
    let mut response = Response::builder().status(status);
    let headers = answer["headers"].as_object();
    for (name, value) in headers.into_iter().flatten() {
        // The server counts the body itself.
        let name: HeaderName = name.parse().ok()?;
        let name = if name == WWW_AUTHENTICATE { REMAPPED } else { name };
        if name != http::header::CONTENT_LENGTH && name != http::header::TRANSFER_ENCODING {
            response = response.header(name, text(value));
        }
    }
    for cookie in answer["cookies"].as_array().into_iter().flatten() {
        response = response.header(SET_COOKIE, cookie.as_str()?);
    }
    if !headers.into_iter().flatten().any(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE.as_str())) {
        response = response.header(CONTENT_TYPE, "application/json");
    }
    let body = &answer["body"];
    let body = if body.is_null() {
        Bytes::new()
    } else if answer["isBase64Encoded"] == true {
        STANDARD.decode(text(body)).ok()?.into()
    } else {
        text(body).into()
    };
    response.body(Full::new(body)).ok()
}

/// A text as it is, and anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use serde_json::json;

    use super::*;

    async fn body(response: Response<Full<Bytes>>) -> Bytes {
        response.into_body().collect().await.expect("it is in memory").to_bytes()
    }

    #[tokio::test]
    async fn status_headers_cookies_and_body_are_the_function_s() {
        let answer = json!({
            "statusCode": 201, "headers": {"Location": "/v1/x", "content-length": "99"}, "cookies": ["a=1", "b=2"],
            "body": "AP8=", "isBase64Encoded": true,
        });
        let response = response(&answer).expect("a response");
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers()["location"], "/v1/x");
        assert_eq!(response.headers()["content-type"], "application/json");
        assert!(!response.headers().contains_key("content-length"));
        assert_eq!(response.headers().get_all(SET_COOKIE).iter().count(), 2);
        assert_eq!(body(response).await, &b"\x00\xff"[..]);
    }

    #[test]
    fn a_challenge_arrives_under_the_name_that_lambda_gives_it() {
        let answer = json!({"statusCode": 401, "headers": {"WWW-Authenticate": "Bearer"}});
        let response = response(&answer).expect("a response");
        assert_eq!(response.headers()["x-amzn-remapped-www-authenticate"], "Bearer");
        assert!(!response.headers().contains_key(WWW_AUTHENTICATE));
    }

    #[tokio::test]
    async fn an_answer_without_a_status_is_a_body() {
        let response = response(&json!({"ok": true})).expect("a response");
        assert_eq!(
            (response.status(), body(response).await.as_ref()),
            (StatusCode::OK, &b"{\"ok\":true}"[..])
        );
    }

    #[test]
    fn an_answer_that_is_no_response_is_none() {
        for answer in [
            json!({"statusCode": 99}),
            json!({"statusCode": "200"}),
            json!({"statusCode": 200, "headers": {"a b": "c"}}),
            json!({"statusCode": 200, "body": "?", "isBase64Encoded": true}),
        ] {
            assert!(response(&answer).is_none(), "{answer}");
        }
    }
}
