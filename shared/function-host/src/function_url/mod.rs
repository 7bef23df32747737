//! A function's URL: an HTTP server whose requests become events of payload version 2.0, and whose responses the function makes
//! (Lambda developer guide, "Invoking Lambda function URLs").
//!
//! It checks no signatures. So it listens on the loopback interface alone, and a URL that takes signed requests only
//! (`AWS_IAM`) refuses every request.

mod event;
mod response;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use redial_receivers::serve::{self, Port};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

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

/// Takes requests at the port until it is dropped; also those that name `authority`, of a server with TLS in front of this one.
pub async fn run<F: Invoke>(
    port: Port,
    auth: Auth,
    authority: Option<String>,
    function: Arc<F>,
    note: Note,
) -> io::Result<()> {
    let domain: Arc<str> = port.address().to_string().into();
    let listener = port.listen()?;
    let server = Arc::new(Server { auth, authority, function, note, domain, invocations: Mutex::default() });
    serve::accept(listener, move |stream| {
        let peer = stream.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default();
        let server = Arc::clone(&server);
        serve::http(serve::http_versions(), stream, move |parts, body| {
            let (server, peer) = (Arc::clone(&server), peer.clone());
            async move { Some(server.answer(&parts, &body, &peer).await) }
        })
    })
    .await;
    Ok(())
}

struct Server<F> {
    auth: Auth,
    authority: Option<String>,
    function: Arc<F>,
    note: Note,
    domain: Arc<str>,
    /// An invocation goes on to its end though its client has gone, as on AWS, and ends with the server.
    invocations: Mutex<JoinSet<()>>,
}

impl<F: Invoke> Server<F> {
    async fn answer(&self, parts: &Parts, body: &Bytes, peer: &str) -> Response<Full<Bytes>> {
        if !self.is_addressed(parts) || self.auth == Auth::Signed {
            return message(StatusCode::FORBIDDEN, "Forbidden");
        }
        if body.len() > MOST_BYTES {
            return message(StatusCode::PAYLOAD_TOO_LARGE, "Request must be smaller than 6291456 bytes");
        }
        let failed = || message(StatusCode::BAD_GATEWAY, "Internal Server Error");
        match self.invoke(event::event(parts, body, peer, &self.domain)).await {
            Some(Ok(answer)) if answer.to_string().len() > MOST_BYTES => {
                (self.note)("the function's response is larger than 6291456 bytes");
                failed()
            }
            Some(Ok(answer)) => response::response(&answer).unwrap_or_else(|| {
                (self.note)("the function's response is not a valid HTTP response");
                failed()
            }),
            Some(Err(InvokeError::Throttled)) => message(StatusCode::TOO_MANY_REQUESTS, "Rate Exceeded."),
            Some(Err(error)) => {
                (self.note)(&format!("a request has no response: {}", error.label()));
                failed()
            }
            None => failed(),
        }
    }

    /// Whether the request names this server. A page of another site can have its own name lead here (DNS rebinding).
    fn is_addressed(&self, parts: &Parts) -> bool {
        let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = parts.uri.authority().map(Authority::as_str).or(header);
        let port = self.domain.rsplit(':').next().unwrap_or_default();
        let is_front = |host: &str| self.authority.as_deref() == Some(host);
        host.is_some_and(|host| {
            host == &*self.domain || host == format!("localhost:{port}") || is_front(host)
        })
    }

    /// None: the function's caller panicked.
    async fn invoke(&self, event: Value) -> Option<Result<Value, InvokeError>> {
        let function = Arc::clone(&self.function);
        let (sender, answered) = oneshot::channel();
        {
            let mut invocations = self.invocations.lock().unwrap_or_else(PoisonError::into_inner);
            while invocations.try_join_next().is_some() {}
            invocations.spawn(async move {
                let _client_has_gone = sender.send(function.invoke(event).await);
            });
        }
        answered.await.ok()
    }
}

fn message(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    let body = json!({"Message": text}).to_string();
    response.body(Full::from(body)).expect("invariant: a status and one header are well formed")
}

#[cfg(test)]
mod tests {
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
        let serving = tokio::spawn(run(port, auth, None, Arc::clone(&function), Arc::new(|_: &str| ())));
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
    async fn an_invocation_goes_on_though_its_client_has_gone() {
        struct Slow(Mutex<Option<oneshot::Sender<()>>>, tokio::sync::Notify);
        impl Invoke for Slow {
            async fn invoke(&self, _event: Value) -> Result<Value, InvokeError> {
                self.1.notified().await;
                let _listening = self.0.lock().expect("whole").take().map(|done| done.send(()));
                Ok(json!({"statusCode": 200}))
            }
        }
        let (sender, done) = oneshot::channel();
        let function = Arc::new(Slow(Mutex::new(Some(sender)), tokio::sync::Notify::new()));
        let domain = "127.0.0.1:1".into();
        let (note, invocations): (Note, _) = (Arc::new(|_: &str| ()), Mutex::default());
        let function_too = Arc::clone(&function);
        let server =
            Server { auth: Auth::Open, authority: None, function: function_too, note, domain, invocations };
        tokio::select! {
            biased;
            _ = server.invoke(Value::Null) => panic!("it waits"),
            () = tokio::task::yield_now() => {}
        }
        function.1.notify_one();
        done.await.expect("it went on to its end");
    }

    #[tokio::test]
    async fn a_request_for_another_host_is_refused() {
        let answer = Ok(json!({"statusCode": 202, "body": "taken"}));
        let function = Arc::new(Scripted(answer, Mutex::default()));
        let (note, invocations): (Note, _) = (Arc::new(|_: &str| ()), Mutex::default());
        let server = Server {
            auth: Auth::Open,
            authority: Some("localhost:8443".to_owned()),
            function,
            note,
            domain: "127.0.0.1:8080".into(),
            invocations,
        };
        for (host, expected) in
            [("127.0.0.1:8080", 202), ("localhost:8080", 202), ("evil.example:8080", 403), ("127.0.0.1", 403)]
        {
            let request = hyper::Request::get("/").header(HOST, host).body(()).expect("a request");
            let (parts, ()) = request.into_parts();
            let response = server.answer(&parts, &Bytes::new(), "127.0.0.1").await;
            assert_eq!(response.status().as_u16(), expected, "{host}");
        }
    }

    #[tokio::test]
    async fn a_url_for_signed_requests_lets_none_in() {
        let (status, _, event) = post(Auth::Signed, Ok(Value::Null), Vec::new()).await;
        assert!(status == 403 && event.is_none());
    }
}
