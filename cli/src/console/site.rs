//! The page's server: its files, for anyone on this machine; and the data, which needs the token.

use http_body_util::Full;
use hyper::{Method, Response, StatusCode, body::Bytes};
use redial_receivers::page_server::{self, Asked, Names, answer, json, problem, protect};
use tokio::sync::{mpsc, oneshot};

use super::{
    answers,
    question::Question,
    token::{Lock, Token},
};

/// Nothing but the page's own files, no frame around it, and no form that is sent anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A plot has its style inside.
const POLICY_OF_PLOTS: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// Questions that wait, at most: more than the browsers of a machine ask at once.
const MOST_WAITING: usize = 64;

macro_rules! infra {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/", $path))
    };
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

const FILES: [(&str, &str, &str); 15] = [
    ("/", HTML, infra!("console/index.html")),
    ("/console.js", SCRIPT, infra!("console/console.js")),
    ("/server.js", SCRIPT, infra!("console/server.js")),
    ("/elements.js", SCRIPT, infra!("console/elements.js")),
    ("/stack.js", SCRIPT, infra!("console/stack.js")),
    ("/delivery.js", SCRIPT, infra!("console/delivery.js")),
    ("/reasons.js", SCRIPT, infra!("web/reasons.js")),
    ("/style.css", STYLE, infra!("console/style.css")),
    ("/sections.css", STYLE, infra!("console/sections.css")),
    ("/icon.svg", SVG, infra!("web/icon.svg")),
    ("/plots/policies.svg", SVG, infra!("docs/plots/policies.svg")),
    ("/plots/burst.svg", SVG, infra!("docs/plots/burst.svg")),
    ("/plots/herd.svg", SVG, infra!("docs/plots/herd.svg")),
    ("/plots/breaker.svg", SVG, infra!("docs/plots/breaker.svg")),
    ("/plots/smear.svg", SVG, infra!("docs/plots/smear.svg")),
];

#[derive(Debug)]
pub(super) struct Site {
    names: Names,
    lock: Lock,
    questions: mpsc::Sender<answers::Request>,
}

impl Site {
    /// With the questions that it gets from the page.
    pub(super) fn new(port: u16, token: &Token) -> (Self, mpsc::Receiver<answers::Request>) {
        let (questions, asked) = mpsc::channel(MOST_WAITING);
        (Self { names: Names::at(port), lock: token.lock(), questions }, asked)
    }

    async fn route(&self, asked: &Asked) -> Response<Full<Bytes>> {
        if let Some(refusal) = self.names.refusal(asked) {
            return refusal;
        }
        if !matches!(asked.method, Method::GET | Method::HEAD) {
            return problem(StatusCode::METHOD_NOT_ALLOWED, "this page only reads");
        }
        let Some(question) = Question::of(&asked.path, &asked.query) else { return file(&asked.path) };
        if !self.lock.opens_with(asked.header("authorization")) {
            return problem(StatusCode::UNAUTHORIZED, "the token of this run is missing");
        }
        match question {
            Ok(question) => self.ask(question).await,
            Err(words) => problem(StatusCode::BAD_REQUEST, &words),
        }
    }

    async fn ask(&self, question: Question) -> Response<Full<Bytes>> {
        let (sender, answered) = oneshot::channel();
        if self.questions.send((question, sender)).await.is_ok()
            && let Ok((status, document)) = answered.await
        {
            return json(status, &document);
        }
        problem(StatusCode::SERVICE_UNAVAILABLE, "the console ends")
    }
}

impl page_server::Answers for Site {
    async fn answer(&self, asked: Asked) -> Option<Response<Full<Bytes>>> {
        let mut response = self.route(&asked).await;
        protect(&mut response, if asked.path.starts_with("/plots/") { POLICY_OF_PLOTS } else { POLICY });
        Some(response)
    }
}

fn file(path: &str) -> Response<Full<Bytes>> {
    match FILES.iter().find(|(known, _, _)| *known == path) {
        Some((_, media_type, content)) => answer(StatusCode::OK, media_type, *content),
        None => problem(StatusCode::NOT_FOUND, "no such file"),
    }
}
