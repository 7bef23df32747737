//! Takes calls in, passes them on, applies their faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{self, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sha2::{Digest as _, Sha256};

use super::call::{AwsService, Call, Injected, target};
use super::fault::{Cut, Fault, Plan};
use crate::ambient;
use crate::journal::Journal;

type Answer = Response<Full<Bytes>>;

/// Headers that belong to one connection (RFC 9110 section 7.6.1), and the length, which hyper writes.
const OF_THE_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    HeaderName::from_static("keep-alive"),
];
/// SHA-256 of the body that a signature covers.
const SIGNED_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// DynamoDB's checksum of its answer, wrong once the answer is changed.
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-crc32");

pub(super) struct Line {
    upstream: Authority,
    client: Client<HttpConnector, Full<Bytes>>,
    plan: Mutex<Plan>,
    pub(super) journal: Journal<Call>,
}

impl Line {
    pub(super) fn new(upstream: Authority) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            upstream,
            client: Client::builder(TokioExecutor::new()).build(connector),
            plan: Mutex::default(),
            journal: Journal::default(),
        }
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that has arrived whole.
    pub(super) async fn handle(self: Arc<Self>, parts: Parts, body: Bytes) -> Option<Answer> {
        let (name, fault) = self.admit(&parts, &body);
        // A task of its own: it goes on when the caller is gone and this future with it.
        let task = tokio::spawn(async move { self.carry_out(parts, body, name, fault).await });
        match task.await {
            Ok(Some(answer)) => Some(answer),
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Writes the call down and finds its fault, in one step: the order of the journal is that of the
    /// numbers.
    fn admit(&self, parts: &Parts, body: &Bytes) -> (u128, Option<Fault>) {
        let (service, operation) = target(&parts.headers).unwrap_or_else(|| {
            let operation = format!("{} {}", parts.method, parts.uri.path());
            (AwsService::Other(String::new()), operation)
        });
        let name = u128::from_be_bytes(ambient::random_bytes());
        let mut call = Call {
            number: 0,
            service,
            operation,
            at: ambient::monotonic(),
            at_ms: ambient::epoch_ms(),
            body: body.clone(),
            response_status: None,
            injected: None,
            name,
        };
        let mut plan = self.plan();
        let fault = plan.admit(&mut call);
        call.injected = fault.as_ref().map(Fault::kind);
        self.journal.push(call);
        (name, fault)
    }

    fn note(&self, name: u128, change: impl FnOnce(&mut Call)) {
        self.journal.amend(|call| call.name == name, change);
    }

    fn answered(&self, name: u128, status: StatusCode) {
        self.note(name, |call| call.response_status = Some(status.as_u16()));
    }

    /// Passes a call on; an upstream that can't be reached is a 502.
    async fn forward(&self, parts: &Parts, body: Bytes) -> (StatusCode, HeaderMap, Bytes) {
        match self.try_forward(parts, body).await {
            Ok(answer) => answer,
            Err(error) => {
                let text = format!("the proxy's upstream: {error}");
                (StatusCode::BAD_GATEWAY, HeaderMap::new(), Bytes::from(text))
            }
        }
    }

    async fn try_forward(
        &self,
        parts: &Parts,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let mut uri = parts.uri.clone().into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(self.upstream.clone());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = Uri::from_parts(uri)?;
        // The Host stays the caller's: its signature covers it.
        *request.headers_mut() = end_to_end(&parts.headers);
        let (answer, body) = self.client.request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((answer.status, end_to_end(&answer.headers), body))
    }

    /// Carries a call out to its end and returns the answer; `None` if the caller gets none.
    async fn carry_out(&self, parts: Parts, body: Bytes, name: u128, fault: Option<Fault>) -> Option<Answer> {
        let cut = match fault {
            None => None,
            Some(Fault::KillBefore(kill)) => {
                kill();
                return None;
            }
            Some(Fault::KillAfter(kill)) => {
                let (status, _, _) = self.forward(&parts, body).await;
                self.answered(name, status);
                kill();
                return None;
            }
            Some(Fault::Status(status, text)) => {
                return Some(self.answer(name, status, "application/x-amz-json-1.0", text.into()));
            }
            Some(Fault::Cbor(status, body)) => {
                return Some(self.answer(name, status, "application/cbor", body.into()));
            }
            Some(Fault::FailStatement { index, code }) => Some(Cut::statement(&body, index, &code)),
            Some(Fault::FailEntry { index }) => Some(Cut::entry(&body, index)),
        };
        let (status, headers, answer) = match cut {
            None => self.forward(&parts, body).await,
            Some(Some(cut)) => self.carry_out_in_part(&parts, &body, cut, name).await,
            Some(None) => {
                self.note(name, |call| call.injected = Some(Injected::NotApplicable));
                self.forward(&parts, body).await
            }
        };
        self.answered(name, status);
        Some(respond(status, headers, answer))
    }

    /// Answers in the place of AWS.
    fn answer(&self, name: u128, status: u16, content_type: &'static str, body: Bytes) -> Answer {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.answered(name, status);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        respond(status, headers, body)
    }

    async fn carry_out_in_part(
        &self,
        parts: &Parts,
        body: &[u8],
        cut: Cut,
        name: u128,
    ) -> (StatusCode, HeaderMap, Bytes) {
        let (status, mut headers, answer) = match &cut.rest {
            Some(rest) => {
                let (parts, rest) = as_signed(parts, body, rest.to_string());
                let (status, headers, answer) = self.forward(&parts, rest).await;
                (status, headers, Some(answer))
            }
            None => {
                let mut headers = HeaderMap::new();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
                (StatusCode::OK, headers, None)
            }
        };
        if !status.is_success() {
            return (status, headers, answer.unwrap_or_default());
        }
        headers.remove(CHECKSUM);
        match cut.mend(answer.as_deref()) {
            Some(mended) => (status, headers, Bytes::from(mended.to_string())),
            None => {
                self.note(name, |call| call.injected = Some(Injected::NotApplicable));
                (status, headers, answer.unwrap_or_default())
            }
        }
    }
}

/// A call with `rest` of the JSON that its caller signed. The signature covers that one's hash, which goes along, and its length, so
/// what is missing is made up with blanks.
fn as_signed(parts: &Parts, body: &[u8], rest: String) -> (Parts, Bytes) {
    let mut parts = parts.clone();
    let hash = HeaderValue::try_from(hex::encode(Sha256::digest(body))).expect("hexadecimal digits");
    parts.headers.entry(SIGNED_HASH).or_insert(hash);
    let missing = body.len().saturating_sub(rest.len());
    (parts, (rest + &" ".repeat(missing)).into())
}

fn respond(status: StatusCode, headers: HeaderMap, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    headers
}
