//! Servers for this crate's tests: listeners on free loopback ports that behave or misbehave in one way each.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::SharedCredentialsProvider;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use redial_core::outcome::Outcome;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::aws_http::http_client;

/// A clock that never moves.
pub(crate) struct FixedClock(pub(crate) Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A self-signed certificate for localhost and all names of `receivers.test`, and the server's side of it.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    /// What each handshake waits for.
    pub(crate) handshakes: Arc<Barrier>,
    pub(crate) acceptor: TlsAcceptor,
}

impl Identity {
    /// `alpn`: the preferred protocol first.
    pub(crate) fn new(alpn: &[&str]) -> Self {
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned(), "*.receivers.test".to_owned()])
                .expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key)
                .expect("an identity");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self {
            ca_pem: made.cert.pem(),
            handshakes: Arc::new(Barrier::new(1)),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }
}

/// A listener that counts its connections and keeps the requests that it answers. It ends when dropped.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    /// Empty without TLS.
    pub(crate) ca_pem: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request<Bytes>>>>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Calls `serve` with each connection and its number, from 1.
    pub(crate) async fn tcp<F, S>(serve: S) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        S: Fn(TcpStream, usize) -> F + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(serve(stream, number));
            }
        });
        Self { port, ca_pem: String::new(), connections, requests: Arc::default(), task }
    }

    /// Calls `serve` with each connection after the handshake.
    pub(crate) async fn tls<F, S>(identity: &Identity, serve: S) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
        S: Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
    {
        let (acceptor, handshakes) = (identity.acceptor.clone(), identity.handshakes.clone());
        let mut receiver = Self::tcp(move |stream, _| {
            let (acceptor, handshakes, serve) = (acceptor.clone(), handshakes.clone(), serve.clone());
            async move {
                handshakes.wait().await;
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream).await;
                }
            }
        })
        .await;
        receiver.ca_pem.clone_from(&identity.ca_pem);
        receiver
    }

    /// Answers each request, of HTTP/1.1 or HTTP/2; an `Err` breaks the connection.
    pub(crate) async fn http<F, A>(identity: &Identity, answer: A) -> Self
    where
        F: Future<Output = io::Result<Response<Full<Bytes>>>> + Send + 'static,
        A: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        let answer = move |request: Request<Bytes>| {
            kept.lock().expect("no panic").push(request.clone());
            answer(request)
        };
        let mut receiver = Self::tls(identity, move |stream| serve_http(stream, answer.clone())).await;
        receiver.requests = requests;
        receiver
    }

    /// Answers each request with this.
    pub(crate) async fn answering(identity: &Identity, answer: Response<Full<Bytes>>) -> Self {
        Self::http(identity, move |_| std::future::ready(Ok(answer.clone()))).await
    }

    /// The same without TLS.
    pub(crate) async fn plain_http<F, A>(answer: A) -> Self
    where
        F: Future<Output = io::Result<Response<Full<Bytes>>>> + Send + 'static,
        A: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    {
        Self::tcp(move |stream, _| serve_http(stream, answer.clone())).await
    }

    pub(crate) fn origin(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Request<Bytes>> {
        std::mem::take(&mut *self.requests.lock().expect("no panic"))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer, for [`Receiver::answering`].
pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Response<Full<Bytes>> {
    let response =
        headers.iter().fold(Response::builder(), |response, (name, value)| response.header(*name, *value));
    response.status(status).body(Full::from(body.to_vec())).expect("valid")
}

/// The status that an answer has.
pub(crate) fn status(outcome: &Outcome) -> Option<u16> {
    if let Outcome::Response(response) = outcome { Some(response.status) } else { None }
}

/// A client of an SQS that listens at that port; it retries nothing.
pub(crate) fn sdk_at(port: u16) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .endpoint_url(format!("http://127.0.0.1:{port}"))
        .http_client(http_client(None).expect("a client"))
        .retry_config(RetryConfig::disabled())
        .build()
}

pub(crate) fn sqs_at(port: u16) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::new(&sdk_at(port))
}

/// Answers all requests of one connection.
pub(crate) async fn serve_http<F, A>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, answer: A)
where
    F: Future<Output = io::Result<Response<Full<Bytes>>>> + Send + 'static,
    A: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            answer(Request::from_parts(parts, body)).await
        }
    });
    // The client decides how a connection ends.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// Reads a whole HTTP/1.1 request whose body is `sealed`.
pub(crate) async fn read_request(stream: &mut TlsStream<TcpStream>) {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !seen.ends_with(b"\r\n\r\nsealed") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => seen.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Ignores errors: the client may have disconnected.
pub(crate) async fn write(stream: &mut TlsStream<TcpStream>, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.flush().await;
}
