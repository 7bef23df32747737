//! Cross-origin requests: pages of listed sites may call, and no others' are told anything.

use crate::api::{Answer, Api};

fn preflight(api: &Api, path: &str, origin: &str) -> Answer {
    let headers = [
        ("origin", origin.to_owned()),
        ("access-control-request-method", "PUT".to_owned()),
        ("access-control-request-headers", "authorization,content-type".to_owned()),
    ];
    api.try_send(Api::request("OPTIONS", path, &headers, "")).expect("nobody dies")
}

fn from(api: &Api, origin: &str) -> Answer {
    let headers = [("origin", origin.to_owned())];
    api.try_send(Api::request("GET", "/v1/keys", &headers, "")).expect("nobody dies")
}

#[test]
fn a_listed_site_s_page_may_call() {
    let api = Api::new();
    let answer = preflight(&api, "/v1/subscriptions/s1", "https://shop.example");
    assert_eq!(answer.status.as_u16(), 204);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://shop.example");
    assert_eq!(answer.headers["access-control-allow-methods"], "GET, POST, PUT, DELETE");
    assert_eq!(answer.headers["access-control-allow-headers"], "authorization, content-type");
    let answer = from(&api, "https://shop.example");
    assert_eq!((answer.status.as_u16(), &answer.headers["vary"]), (200, &"origin".parse().expect("a value")));
    assert_eq!(answer.headers["access-control-allow-origin"], "https://shop.example");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    // Its pages may read what went wrong, too.
    let headers = [("origin", "https://shop.example".to_owned())];
    let refused = api.try_send(Api::request("GET", "/v1/messages/m", &headers, "")).expect("nobody dies");
    assert_eq!(refused.headers["access-control-allow-origin"], "https://shop.example");
}

#[test]
fn no_other_site_s_page_is_told_that_it_may() {
    let api = Api::new();
    for origin in
        ["https://shop.example:8443", "http://shop.example", "https://shop.example.evil.example", "null", "*"]
    {
        let answer = preflight(&api, "/v1/subscriptions/s1", origin);
        assert_eq!(answer.status.as_u16(), 405, "{origin}");
        for answer in [answer, from(&api, origin)] {
            assert!(!answer.headers.contains_key("access-control-allow-origin"), "{origin}");
            assert_eq!(answer.headers["vary"], "origin");
        }
    }
}

#[test]
fn without_a_list_nothing_is_said_of_origins() {
    let api = Api::with(|settings| settings.cors_origins.clear());
    let answer = from(&api, "https://shop.example");
    assert!(
        !answer.headers.contains_key("vary") && !answer.headers.contains_key("access-control-allow-origin")
    );
    assert_eq!(preflight(&api, "/v1/keys", "https://shop.example").status.as_u16(), 405);
}
