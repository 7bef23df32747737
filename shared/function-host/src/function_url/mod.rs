//! A function's URL: an HTTP server whose requests become events of payload version 2.0, and whose responses the function makes
//! (Lambda developer guide, "Invoking Lambda function URLs").
//!
//! It checks no signatures. So it listens on the loopback interface alone, and a URL that takes signed requests only
//! (`AWS_IAM`) refuses every request.

mod event;
mod response;

use std::io;
use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use redial_receivers::serve::{self, Port};
use serde_json::json;

use crate::function::Invoke;
use crate::mapping::Note;
use crate::runtime_api::InvokeError;

/// Lambda's quota for a request and for a response.
const MOST_BYTES: usize = 6 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// The function itself asks for a credential.
    Open,
    /// Signed requests only, none of which is let in here.
    Signed,
}

/// Takes requests at the port until it is dropped.
pub async fn run<F: Invoke>(port: Port, auth: Auth, function: Arc<F>, note: Note) -> io::Result<()> {
    let domain: Arc<str> = port.address().to_string().into();
    let listener = port.listen()?;
    serve::accept(listener, move |stream| {
        let peer = stream.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default();
        let (function, note, domain) = (Arc::clone(&function), Arc::clone(&note), Arc::clone(&domain));
        serve::http(serve::http_versions(), stream, move |parts, body| {
            let (function, note) = (Arc::clone(&function), Arc::clone(&note));
            let (peer, domain) = (peer.clone(), Arc::clone(&domain));
            async move { Some(answer(&parts, &body, auth, &*function, &*note, &peer, &domain).await) }
        })
    })
    .await;
    Ok(())
}

async fn answer(
    parts: &Parts,
    body: &Bytes,
    auth: Auth,
    function: &impl Invoke,
    note: &(dyn Fn(&str) + Send + Sync),
    peer: &str,
    domain: &str,
) -> Response<Full<Bytes>> {
    if auth == Auth::Signed {
        return message(StatusCode::FORBIDDEN, "Forbidden");
    }
    if body.len() > MOST_BYTES {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "Request must be smaller than 6291456 bytes");
    }
    match function.invoke(event::event(parts, body, peer, domain)).await {
        Ok(answer) => response::response(&answer).unwrap_or_else(|| {
            note("a response of the function is none of HTTP");
            message(StatusCode::BAD_GATEWAY, "Internal Server Error")
        }),
        Err(InvokeError::Throttled) => message(StatusCode::TOO_MANY_REQUESTS, "Rate Exceeded."),
        Err(error) => {
            note(&format!("a request has no response: {}", error.label()));
            message(StatusCode::BAD_GATEWAY, "Internal Server Error")
        }
    }
}

fn message(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    let body = json!({"Message": text}).to_string();
    response.body(Full::from(body)).expect("invariant: a status and one header are well formed")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::Value;

    use super::*;

    /// Answers what it is given, and keeps the event.
    struct Scripted(Result<Value, InvokeError>, Mutex<Option<Value>>);

    impl Invoke for Scripted {
        async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
            *self.1.lock().expect("whole") = Some(event);
            self.0.clone()
        }
    }

    /// What a server with this function answers to a POST, and the event.
    async fn post(
        auth: Auth,
        answer: Result<Value, InvokeError>,
        body: Vec<u8>,
    ) -> (u16, String, Option<Value>) {
        let function = Arc::new(Scripted(answer, Mutex::default()));
        let port = Port::take(0).expect("a free port");
        let url = format!("{}/v1/messages?dry=1", port.origin("127.0.0.1"));
        let serving = tokio::spawn(run(port, auth, Arc::clone(&function), Arc::new(|_: &str| ())));
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let response = client.post(url).body(body).send().await.expect("it answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        serving.abort();
        let event = function.1.lock().expect("whole").take();
        (status, text, event)
    }

    #[tokio::test]
    async fn a_request_becomes_an_event_and_its_answer_the_response() {
        let answer = Ok(json!({"statusCode": 202, "body": "taken"}));
        let (status, text, event) = post(Auth::Open, answer, b"{}".to_vec()).await;
        assert_eq!((status, text.as_str()), (202, "taken"));
        let event = event.expect("it was invoked");
        assert_eq!((&event["rawPath"], &event["body"]), (&json!("/v1/messages"), &json!("{}")));
        assert_eq!(event["requestContext"]["http"]["sourceIp"], "127.0.0.1");
    }

    #[tokio::test]
    async fn failures_are_answered_as_lambda_does() {
        let text = json!({"statusCode": "?"});
        for (answer, expected) in [
            (Err(InvokeError::Throttled), 429),
            (Err(InvokeError::TimedOut), 502),
            (Err(InvokeError::Failed(json!({"errorMessage": "secret"}))), 502),
            (Ok(text), 502),
        ] {
            let (status, body, _) = post(Auth::Open, answer, Vec::new()).await;
            assert_eq!(status, expected);
            assert!(!body.contains("secret"));
        }
        let (status, _, event) = post(Auth::Open, Ok(Value::Null), vec![b'x'; MOST_BYTES + 1]).await;
        assert!(status == 413 && event.is_none());
    }

    #[tokio::test]
    async fn a_url_for_signed_requests_lets_none_in() {
        let (status, _, event) = post(Auth::Signed, Ok(Value::Null), Vec::new()).await;
        assert!(status == 403 && event.is_none());
    }
}
