//! The page's own server: `infra/web` under a strict policy, and the three requests that the page makes of it.
//!
//! It answers only under the names that this machine has for itself. Otherwise any page could give a name of its own
//! this machine's address, and read the answers (DNS rebinding). A request that another site's page makes (`Origin`) is refused;
//! and what it sends for the page has to be JSON, which such a page cannot send without being asked first.

use http_body_util::Full;
use hyper::{Method, Response, StatusCode, body::Bytes};
use redial_receivers::page_server::{Answers, Asked, Names, answer, json as json_answer, problem, protect};
use serde_json::Value;

/// Where the page sends its test pushes.
const SEND: &str = "/demo/send";
/// Where it asks what became of them, with the id at the end.
const STATUS: &str = "/demo/status/";

macro_rules! web {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/web/", $name))
    };
}

const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", web!("index.html")),
    ("/app.js", "text/javascript; charset=utf-8", web!("app.js")),
    ("/reasons.js", "text/javascript; charset=utf-8", web!("reasons.js")),
    ("/redial.js", "text/javascript; charset=utf-8", web!("redial.js")),
    ("/redial-sw.js", "text/javascript; charset=utf-8", web!("redial-sw.js")),
    ("/style.css", "text/css; charset=utf-8", web!("style.css")),
    ("/icon.svg", "image/svg+xml", web!("icon.svg")),
    ("/manifest.webmanifest", "application/manifest+json", web!("manifest.webmanifest")),
];

/// Status and document of an answer.
pub type Answered = (StatusCode, Value);

pub trait BackOffice: Send + Sync + 'static {
    /// Address of the API, for the browser: its origin and, if it has one, a path.
    fn api(&self) -> &str;
    /// 200 with `{"api", "tenant", "subscription", "token", "vapid_key_id", "public_key"}`: a token for a new subscription, and
    /// what to subscribe with; or a problem.
    fn session(&self) -> impl Future<Output = Answered> + Send;
    /// Sends `{"subscription", "payload", "ttl", "urgency"}`; what `POST /v1/messages` answers.
    fn send(&self, order: Value) -> impl Future<Output = Answered> + Send;
    /// What `GET /v1/messages/{id}` answers. The id is letters, digits, `-` and `_`.
    fn status(&self, id: &str) -> impl Future<Output = Answered> + Send;
}

#[derive(Debug)]
pub struct Site<B> {
    back_office: B,
    names: Names,
    policy: String,
}

impl<B: BackOffice> Site<B> {
    pub fn new(back_office: B, port: u16) -> Self {
        let api = origin(back_office.api());
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {api}; worker-src 'self'; \
             manifest-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { back_office, names: Names::at(port), policy }
    }

    pub fn back_office(&self) -> &B {
        &self.back_office
    }

    async fn route(&self, asked: &Asked) -> Response<Full<Bytes>> {
        if let Some(refusal) = self.names.refusal(asked) {
            return refusal;
        }
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, SEND) => match asked.header("content-type") {
                Some("application/json") => response(self.back_office.send(asked.json()).await),
                Some(_) | None => problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "application/json is expected"),
            },
            (&Method::GET | &Method::HEAD, "/demo/session") => {
                let (status, mut document) = self.back_office.session().await;
                if status.is_success() {
                    document["send"] = SEND.into();
                    document["status"] = STATUS.into();
                }
                response((status, document))
            }
            (&Method::GET | &Method::HEAD, path) => match path.strip_prefix(STATUS) {
                Some(id) if is_plain(id) => response(self.back_office.status(id).await),
                Some(_) => problem(StatusCode::NOT_FOUND, "no such message"),
                None => file(path),
            },
            (_, _) => problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed"),
        }
    }
}

impl<B: BackOffice> Answers for Site<B> {
    async fn answer(&self, asked: Asked) -> Option<Response<Full<Bytes>>> {
        let mut response = self.route(&asked).await;
        protect(&mut response, &self.policy);
        Some(response)
    }
}

fn file(path: &str) -> Response<Full<Bytes>> {
    match FILES.iter().find(|(known, _, _)| *known == path) {
        Some((_, media_type, content)) => answer(StatusCode::OK, media_type, *content),
        None => problem(StatusCode::NOT_FOUND, "no such file"),
    }
}

/// Whether it needs no encoding in a path.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// An address without its path: a policy's source with a path would be for that file alone.
fn origin(address: &str) -> &str {
    let host = address.find("://").map_or(0, |scheme| scheme + 3);
    let end = address[host..].find('/').map_or(address.len(), |path| host + path);
    &address[..end]
}

fn response((status, document): Answered) -> Response<Full<Bytes>> {
    json_answer(status, &document)
}

#[cfg(test)]
mod tests {
    use redial_core::reason::Reason;

    use super::*;

    #[test]
    fn the_page_explains_every_reason() {
        let explained = web!("reasons.js");
        let listed =
            explained.lines().filter_map(|line| line.trim().split_once(": [\"")).map(|(label, _)| label);
        assert_eq!(listed.collect::<Vec<_>>(), Reason::ALL.map(Reason::label));
    }

    #[test]
    fn a_policy_s_source_is_an_origin() {
        for address in ["http://127.0.0.1:1/_aws/lambda-url/x", "http://127.0.0.1:1/", "http://127.0.0.1:1"] {
            assert_eq!(origin(address), "http://127.0.0.1:1");
        }
    }

    #[test]
    fn an_id_with_characters_of_a_path_is_none() {
        assert!(is_plain("order-17_a"));
        for id in ["", "..", "a/b", "a?b", "a%2fb", "a b"] {
            assert!(!is_plain(id), "{id}");
        }
    }
}
