//! A collector of spans, on a port of this machine: OTLP over HTTP with JSON, without TLS, as one beside its sender is.
//!
//! It keeps what it is sent, or takes requests and never answers. Fields have the names that the protocol's JSON has; what is missing or
//! of another kind is an error that the sender gets as a 400, as from a collector.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;
use http::{Method, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;

use crate::background::Background;
use crate::serve::{self, Port};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub trace_id: String,
    pub span_id: String,
    pub parent_span_id: String,
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    /// `STATUS_CODE_ERROR`.
    pub is_error: bool,
    /// Numbers as they are written.
    pub attributes: BTreeMap<String, String>,
    /// Those of its resource.
    pub resource: BTreeMap<String, String>,
}

/// A running collector. It ends when it is dropped.
pub struct OtlpCollector {
    origin: String,
    spans: Arc<Mutex<Vec<Span>>>,
    requests: Arc<Mutex<usize>>,
    _running: Background,
}

impl OtlpCollector {
    pub fn start() -> io::Result<Self> {
        Self::serve(false)
    }

    /// One that never answers.
    pub fn hanging() -> io::Result<Self> {
        Self::serve(true)
    }

    fn serve(hangs: bool) -> io::Result<Self> {
        let port = Port::take(0)?;
        let origin = port.origin("127.0.0.1");
        let (spans, requests) = (Arc::<Mutex<Vec<Span>>>::default(), Arc::<Mutex<usize>>::default());
        let (kept, counted) = (spans.clone(), requests.clone());
        let running = port.serve("otlp-collector", move |stream| {
            let (kept, counted) = (kept.clone(), counted.clone());
            serve::http(serve::http_versions(), stream, move |parts, body| {
                let taken = take(&parts, &body);
                *counted.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                let status = if taken.is_some() { 200 } else { 400 };
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend(taken.into_iter().flatten());
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    let response =
                        Response::builder().status(status).header("content-type", "application/json");
                    Some(response.body(Full::from(Bytes::from_static(b"{}"))).expect("valid"))
                }
            })
        })?;
        Ok(Self { origin, spans, requests, _running: running })
    }

    /// What `OtlpEndpoint` is to be.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    pub fn requests(&self) -> usize {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that came so far, in their order.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The spans of a request; `None` if it is none of OTLP's.
fn take(parts: &Parts, body: &[u8]) -> Option<Vec<Span>> {
    let is_json = parts.headers.get("content-type").is_some_and(|media| media == "application/json");
    if parts.method != Method::POST || parts.uri.path() != "/v1/traces" || !is_json {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let mut spans = Vec::new();
    for of_resource in body["resourceSpans"].as_array()? {
        let resource = attributes(&of_resource["resource"]["attributes"])?;
        for of_scope in of_resource["scopeSpans"].as_array()? {
            for span in of_scope["spans"].as_array()? {
                spans.push(read(span, &resource)?);
            }
        }
    }
    Some(spans)
}

fn read(span: &Value, resource: &BTreeMap<String, String>) -> Option<Span> {
    let id = |name: &str, digits: usize| {
        let text = span[name].as_str()?;
        let is_id = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        (is_id && text.bytes().any(|b| b != b'0')).then(|| text.to_owned())
    };
    let ns = |name: &str| span[name].as_str()?.parse().ok();
    Some(Span {
        trace_id: id("traceId", 32)?,
        span_id: id("spanId", 16)?,
        parent_span_id: id("parentSpanId", 16)?,
        name: span["name"].as_str()?.to_owned(),
        start_ns: ns("startTimeUnixNano")?,
        end_ns: ns("endTimeUnixNano")?,
        is_error: span["status"]["code"] == 2,
        attributes: attributes(&span["attributes"])?,
        resource: resource.clone(),
    })
}

fn attributes(list: &Value) -> Option<BTreeMap<String, String>> {
    let attribute = |it: &Value| {
        let value = &it["value"];
        let value = value["stringValue"].as_str().or_else(|| value["intValue"].as_str())?;
        Some((it["key"].as_str()?.to_owned(), value.to_owned()))
    };
    list.as_array()?.iter().map(attribute).collect()
}
