//! What the function calls, answered from memory: AWS's API as far as a delivery needs it, and a push service that accepts everything.
//!
//! No emulator and no push service that decrypts: they would take the processor from what is measured.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use rcgen::generate_simple_self_signed;
use redial_receivers::background::Background;
use redial_receivers::serve::{self, Port};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

type Calls = Arc<Mutex<BTreeMap<String, u64>>>;

/// Both, on ports of this machine. They end when this is dropped.
pub(crate) struct Cloud {
    pub(crate) aws_http: String,
    pub(crate) aws_https: String,
    pub(crate) push: String,
    /// A PEM file with the certificate of both.
    pub(crate) certificate: tempfile::NamedTempFile,
    calls: Calls,
    connections: Arc<AtomicU64>,
    latency_ms: Arc<AtomicU64>,
    _running: [Background; 3],
}

impl Cloud {
    pub(crate) fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let (pem, acceptor) = identity()?;
        let mut certificate = tempfile::NamedTempFile::new()?;
        certificate.write_all(pem.as_bytes())?;
        let (calls, connections) = (Calls::default(), Arc::new(AtomicU64::new(0)));
        let latency_ms = Arc::new(AtomicU64::new(0));

        let (http, https, push) = (Port::take(0)?, Port::take(0)?, Port::take(0)?);
        let aws_http = http.origin("127.0.0.1");
        let [aws_https, push_origin] =
            [&https, &push].map(|port| format!("https://localhost:{}", port.number()));

        let on_http = {
            let (calls, connections) = (Arc::clone(&calls), Arc::clone(&connections));
            http.serve("aws-http", move |stream| {
                connections.fetch_add(1, Ordering::Relaxed);
                let calls = Arc::clone(&calls);
                serve::http(serve::http_versions(), stream, move |parts, body| {
                    aws(Arc::clone(&calls), parts, body)
                })
            })?
        };
        let on_https = {
            let (calls, connections) = (Arc::clone(&calls), Arc::clone(&connections));
            let acceptor = acceptor.clone();
            https.serve("aws-https", move |stream| {
                connections.fetch_add(1, Ordering::Relaxed);
                let (calls, acceptor) = (Arc::clone(&calls), acceptor.clone());
                async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = move |parts, body| aws(Arc::clone(&calls), parts, body);
                    serve::http(serve::http_versions(), stream, answer).await;
                }
            })?
        };
        let pushes = {
            let latency_ms = Arc::clone(&latency_ms);
            push.serve("push", move |stream| {
                let (acceptor, latency_ms) = (acceptor.clone(), Arc::clone(&latency_ms));
                async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    serve::http(serve::http_versions(), stream, move |_, _| {
                        accepted(Arc::clone(&latency_ms))
                    })
                    .await;
                }
            })?
        };
        let _running = [on_http, on_https, pushes];
        let push = push_origin;
        Ok(Self { aws_http, aws_https, push, certificate, calls, connections, latency_ms, _running })
    }

    /// How long the push service takes for an answer from now on.
    pub(crate) fn answers_after(&self, latency: Duration) {
        self.latency_ms.store(u64::try_from(latency.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The calls of AWS since the last time, by operation, and the connections that were made for them.
    pub(crate) fn take_calls(&self) -> (BTreeMap<String, u64>, u64) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        (calls, self.connections.swap(0, Ordering::Relaxed))
    }
}

async fn accepted(latency_ms: Arc<AtomicU64>) -> Option<Response<Full<Bytes>>> {
    let latency = latency_ms.load(Ordering::Relaxed);
    if latency > 0 {
        tokio::time::sleep(Duration::from_millis(latency)).await;
    }
    let answer =
        Response::builder().status(StatusCode::CREATED).header("location", "https://push.example/m/1");
    answer.header("ttl", "86400").body(Full::default()).ok()
}

async fn aws(calls: Calls, parts: Parts, body: Bytes) -> Option<Response<Full<Bytes>>> {
    let target = parts.headers.get("x-amz-target")?.to_str().ok()?;
    let operation = target.split('.').next_back()?.to_owned();
    *calls.lock().unwrap_or_else(PoisonError::into_inner).entry(operation.clone()).or_default() += 1;
    let request: Value = serde_json::from_slice(&body).ok()?;
    let answer = answer(&operation, &request);
    let response = Response::builder().header("content-type", "application/x-amz-json-1.0");
    response.body(Full::from(answer.to_string())).ok()
}

fn answer(operation: &str, request: &Value) -> Value {
    match operation {
        "GetSecretValue" => secret(request["SecretId"].as_str().unwrap_or_default()),
        "BatchGetSecretValue" => {
            let ids = request["SecretIdList"].as_array().into_iter().flatten().filter_map(Value::as_str);
            json!({"SecretValues": ids.map(secret).collect::<Vec<Value>>(), "Errors": []})
        }
        "BatchExecuteStatement" => {
            let count = request["Statements"].as_array().map_or(0, Vec::len);
            let responses = vec![json!({"TableName": "deliveries"}); count];
            let units = json!([{"TableName": "deliveries", "CapacityUnits": count}]);
            json!({"Responses": responses, "ConsumedCapacity": units})
        }
        "BatchGetItem" => json!({"Responses": {}, "UnprocessedKeys": {}}),
        "UpdateItem" => json!({"ConsumedCapacity": {"TableName": "deliveries", "CapacityUnits": 1}}),
        _ => json!({}),
    }
}

fn secret(id: &str) -> Value {
    // Of the example of RFC 8291, Appendix A; any text of 16 characters is one of the others.
    let text = match id {
        "vapid" => "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
        _ => "k1:0123456789abcdef0123456789abcdef",
    };
    let arn = format!("arn:aws:secretsmanager:us-east-1:000000000000:secret:{id}-a1B2c3");
    json!({"ARN": arn, "Name": id, "SecretString": text, "VersionId": "1", "VersionStages": ["AWSCURRENT"], "CreatedDate": 1.8e9})
}

fn identity() -> Result<(String, TlsAcceptor), Box<dyn std::error::Error>> {
    let own = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((own.cert.pem(), TlsAcceptor::from(Arc::new(config))))
}
