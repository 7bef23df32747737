//! Cross-origin requests: only pages of listed sites may call.

use crate::api::{Answer, Api};

fn preflight(api: &Api, path: &str, origin: &str) -> Answer {
    let headers = [
        ("origin", origin.to_owned()),
        ("access-control-request-method", "PUT".to_owned()),
        ("access-control-request-headers", "authorization,content-type".to_owned()),
    ];
    api.answer(Api::request("OPTIONS", path, &headers, ""))
}

fn from(api: &Api, origin: &str) -> Answer {
    let headers = [("origin", origin.to_owned())];
    api.answer(Api::request("GET", "/v1/keys", &headers, ""))
}

#[test]
fn pages_of_a_listed_site_may_call() {
    let api = Api::new();
    let answer = preflight(&api, "/v1/subscriptions/s1", "https://shop.example");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://shop.example");
    assert_eq!(answer.headers["access-control-allow-methods"], "GET, POST, PUT, DELETE");
    assert_eq!(answer.headers["access-control-allow-headers"], "authorization, content-type");
    let answer = from(&api, "https://shop.example");
    assert_eq!((answer.status, &answer.headers["vary"]), (200, &"origin".parse().expect("a value")));
    assert_eq!(answer.headers["access-control-allow-origin"], "https://shop.example");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    // Its pages may read errors, too.
    let headers = [("origin", "https://shop.example".to_owned())];
    let refused = api.answer(Api::request("GET", "/v1/messages/m", &headers, ""));
    assert_eq!(refused.headers["access-control-allow-origin"], "https://shop.example");
}

#[test]
fn pages_of_other_sites_get_no_permission() {
    let api = Api::new();
    for origin in
        ["https://shop.example:8443", "http://shop.example", "https://shop.example.evil.example", "null", "*"]
    {
        let answer = preflight(&api, "/v1/subscriptions/s1", origin);
        assert_eq!(answer.status, 405, "{origin}");
        for answer in [answer, from(&api, origin)] {
            assert!(!answer.headers.contains_key("access-control-allow-origin"), "{origin}");
            assert_eq!(answer.headers["vary"], "origin");
        }
    }
}

#[test]
fn without_a_list_responses_have_no_cors_headers() {
    let api = Api::with(|settings| settings.cors_origins.clear());
    let answer = from(&api, "https://shop.example");
    for name in ["vary", "access-control-allow-origin"] {
        assert!(!answer.headers.contains_key(name), "{name}");
    }
    assert_eq!(preflight(&api, "/v1/keys", "https://shop.example").status, 405);
}
