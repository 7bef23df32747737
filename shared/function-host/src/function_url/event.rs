//! A request as an event of payload version 2.0.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{COOKIE, HOST, HeaderMap, USER_AGENT};
use http::request::Parts;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::ambient;

pub(super) fn event(parts: &Parts, body: &[u8], peer: &str, domain: &str) -> Value {
    let path = parts.uri.path();
    let query = parts.uri.query().unwrap_or_default();
    let now_ms = ambient::epoch_ms();
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers(parts, peer, domain),
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "local",
            "authentication": null,
            "authorizer": null,
            "domainName": domain,
            "domainPrefix": "local",
            "http": {
                "method": parts.method.as_str(),
                "path": path,
                "protocol": format!("{:?}", parts.version),
                "sourceIp": peer,
                "userAgent": text(&parts.headers, USER_AGENT.as_str()),
            },
            "requestId": ambient::unique_name(),
            "routeKey": "$default",
            "stage": "$default",
            "time": time(now_ms),
            "timeEpoch": now_ms,
        },
        "isBase64Encoded": false,
    });
    let parameters = parameters(query);
    if !parameters.is_empty() {
        event["queryStringParameters"] = json!(parameters);
    }
    let cookies: Vec<&str> =
        values(&parts.headers, COOKIE.as_str()).flat_map(|line| line.split("; ")).collect();
    if !cookies.is_empty() {
        event["cookies"] = json!(cookies);
    }
    if !body.is_empty() {
        match std::str::from_utf8(body).ok().filter(|_| is_text(&parts.headers)) {
            Some(body) => event["body"] = body.into(),
            None => {
                event["body"] = STANDARD.encode(body).into();
                event["isBase64Encoded"] = true.into();
            }
        }
    }
    event
}

/// Names in lower case, values of one name joined by commas, without cookies.
fn headers(parts: &Parts, peer: &str, domain: &str) -> Map<String, Value> {
    let mut headers = Map::new();
    for name in parts.headers.keys().filter(|name| *name != COOKIE) {
        headers.insert(name.as_str().to_owned(), text(&parts.headers, name.as_str()).into());
    }
    // In HTTP/2 it is the authority.
    let host = parts.uri.authority().map_or(domain, |authority| authority.as_str());
    headers.entry(HOST.as_str()).or_insert_with(|| host.into());
    let port = domain.rsplit_once(':').map_or("80", |(_, port)| port);
    for (name, value) in
        [("x-forwarded-for", peer), ("x-forwarded-proto", "http"), ("x-forwarded-port", port)]
    {
        headers.insert(name.to_owned(), value.into());
    }
    headers
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok())
}

fn text(headers: &HeaderMap, name: &str) -> String {
    values(headers, name).collect::<Vec<_>>().join(",")
}

/// Decoded, values of one name joined by commas.
fn parameters(query: &str) -> BTreeMap<String, String> {
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        parameters
            .entry(name.into_owned())
            .and_modify(|values| {
                values.push(',');
                values.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    parameters
}

/// Whether a body of this type is handed over as it is.
fn is_text(headers: &HeaderMap) -> bool {
    let content_type = text(headers, "content-type").to_ascii_lowercase();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.is_empty()
        || essence.starts_with("text/")
        || [
            "application/json",
            "application/javascript",
            "application/xml",
            "application/x-www-form-urlencoded",
        ]
        .contains(&essence)
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
}

/// As in `12/Mar/2020:19:03:58 +0000`.
fn time(epoch_ms: u64) -> String {
    const FORMAT: &[time::format_description::BorrowedFormatItem<'_>] =
        format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
    let seconds = i64::try_from(epoch_ms / 1_000).unwrap_or_default();
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(FORMAT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn of(request: http::request::Builder, body: &[u8]) -> Value {
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        event(&parts, body, "127.0.0.1", "127.0.0.1:4000")
    }

    #[test]
    fn an_event_has_the_fields_of_aws_s() {
        let request = Request::post("/v1/a%20b?tag=x%2Cy&tag=z&flag")
            .header("Content-Type", "application/json")
            .header("X-Two", "1")
            .header("X-Two", "2")
            .header("Cookie", "a=1; b=2")
            .header("Host", "localhost:4000")
            .header("User-Agent", "test");
        let event = of(request, br#"{"a":5}"#);
        for (field, expected) in [
            ("version", json!("2.0")),
            ("routeKey", json!("$default")),
            ("rawPath", json!("/v1/a%20b")),
            ("rawQueryString", json!("tag=x%2Cy&tag=z&flag")),
            ("queryStringParameters", json!({"tag": "x,y,z", "flag": ""})),
            ("cookies", json!(["a=1", "b=2"])),
            ("body", json!("{\"a\":5}")),
            ("isBase64Encoded", json!(false)),
        ] {
            assert_eq!(event[field], expected, "{field}");
        }
        assert_eq!(
            event["headers"],
            json!({
                "content-type": "application/json", "x-two": "1,2", "host": "localhost:4000", "user-agent": "test",
                "x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "http", "x-forwarded-port": "4000",
            })
        );
        let context = &event["requestContext"];
        assert_eq!(
            context["http"],
            json!({"method": "POST", "path": "/v1/a%20b", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "test"})
        );
        assert!(context["timeEpoch"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000));
    }

    #[test]
    fn what_is_no_text_is_encoded_and_no_body_is_none() {
        let binary = Request::put("/").header("content-type", "application/octet-stream");
        let event = of(binary, b"\x00\xff");
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("AP8="), &json!(true)));
        let malformed = of(Request::put("/").header("content-type", "application/json"), b"\xff");
        assert_eq!(malformed["isBase64Encoded"], true);
        let empty = of(Request::get("/"), b"");
        assert!(empty.get("body").is_none() && empty.get("queryStringParameters").is_none());
    }

    #[test]
    fn a_time_is_that_of_a_log_of_the_web() {
        assert_eq!(time(1_584_039_838_123), "12/Mar/2020:19:03:58 +0000");
    }
}
