//! Sending to a push service that accepts everything, one push after the other on one connection with TLS.
//!
//! The least is the key pair and the ECDH of sealing, and one POST of as many bytes on an open HTTP/2 connection of hyper's: no
//! redirects, no time-outs, no connections to choose from, no check of where the address leads.

use std::io::Write as _;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use redial_adapters::egress::{Egress, EgressAllow, EgressConfig, ExtraRoots};
use redial_adapters::seal::RingSealer;
use redial_adapters::system::System;
use redial_adapters::web_push_sender::WebPushSender;
use redial_core::endpoint::Endpoint;
use redial_core::outcome::Outcome;
use redial_core::payload::Payload;
use redial_core::push_target::PushTarget;
use redial_core::time::Ttl;
use redial_engine::ports::{Push, PushSender as _};
use redial_receivers::background::Background;
use redial_receivers::push_service::Certificates;
use redial_receivers::serve::{self, Port};
use ring::rand::SystemRandom;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::sealing::agree;
use crate::{Row, browser, payload, runtime, signer};

/// Where the push service is, and a PEM file with what vouches for it.
#[derive(Clone, Copy)]
pub(crate) struct Service<'a> {
    pub(crate) origin: &'a str,
    pub(crate) roots: &'a str,
}

impl Service<'_> {
    /// As long as one of Mozilla's.
    pub(crate) fn endpoint(self) -> String {
        format!("{}/wpush/v2/{}", self.origin, "t".repeat(182))
    }
}

/// The push service. It ends when this is dropped.
pub(crate) struct Running {
    origin: String,
    roots: tempfile::NamedTempFile,
    _serving: Background,
}

impl Running {
    pub(crate) fn start() -> Self {
        let certificates = Certificates::generate().expect("certificates");
        let acceptor = certificates.acceptor(&["h2", "http/1.1"]).expect("certificates");
        let mut roots = tempfile::NamedTempFile::new().expect("a file");
        roots.write_all(certificates.root.as_bytes()).expect("a file");
        let port = Port::take(0).expect("a port");
        let origin = format!("https://localhost:{}", port.number());
        let serving = port.serve("push", move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                serve::http(serve::http_versions(), stream, |_, _| async { accepted() }).await;
            }
        });
        Self { origin, roots, _serving: serving.expect("a thread") }
    }

    pub(crate) fn service(&self) -> Service<'_> {
        Service { origin: &self.origin, roots: self.roots.path().to_str().expect("a path of text") }
    }
}

fn accepted() -> Option<Response<Full<Bytes>>> {
    let answer =
        Response::builder().status(StatusCode::CREATED).header("location", "https://push.example/m/1");
    answer.header("ttl", "60").body(Full::default()).ok()
}

pub(crate) fn rows(service: Service<'_>) -> Vec<Row> {
    #[cfg_attr(not(feature = "web-push"), expect(unused_mut, reason = "only the peer is added"))]
    let mut rows = vec![least(service), redial(service)];
    #[cfg(feature = "web-push")]
    rows.push(crate::peer::sending(service));
    rows
}

fn least(service: Service<'_>) -> Row {
    let (random, keys, runtime, endpoint) = (SystemRandom::new(), browser(), runtime(), service.endpoint());
    let (address, roots) = (service.origin.replace("https://", ""), pem(service));
    // A record's header of 86 bytes, its delimiter and its tag.
    let body = Bytes::from(vec![1; payload().len() + 103]);
    let mut connection: Option<SendRequest<Full<Bytes>>> = None;
    Row::new("least: key pair, ECDH and a POST", move |_| {
        agree(&random, &keys);
        runtime.block_on(async {
            let connection = match &mut connection {
                Some(connection) => connection,
                none => none.insert(connect(&address, &roots).await),
            };
            let request = Request::post(&endpoint).header("ttl", "60").body(Full::new(body.clone()));
            let response = connection.send_request(request.expect("a request")).await.expect("an answer");
            assert_eq!(response.status(), StatusCode::CREATED);
            response.into_body().collect().await.expect("a body");
        });
    })
}

async fn connect(address: &str, roots: &[u8]) -> SendRequest<Full<Bytes>> {
    let mut store = RootCertStore::empty();
    store.add(CertificateDer::from_pem_slice(roots).expect("a certificate")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = versions.expect("versions").with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn redial(service: Service<'_>) -> Row {
    let (runtime, payload) = (runtime(), Payload::new(payload()));
    let endpoint = Endpoint::parse(&service.endpoint()).expect("an endpoint");
    let target = PushTarget { endpoint, keys: browser(), vapid_key_id: None };
    let sender = runtime.block_on(async {
        let egress = Egress::new(EgressConfig {
            allow: EgressAllow::parse(service.origin).expect("an origin"),
            extra_roots: ExtraRoots::from_pem(&pem(service)).expect("a certificate"),
            ..EgressConfig::default()
        });
        WebPushSender::new(RingSealer::new(), signer().await, egress, System)
    });
    Row::new("redial: seal, token from the cache, send", move |_| {
        let push =
            Push { target: &target, payload: &payload, ttl: Ttl::from_secs(60), urgency: None, topic: None };
        let outcome = runtime.block_on(sender.send(push));
        assert!(matches!(&outcome, Outcome::Response(_)), "{outcome:?}");
    })
}

fn pem(service: Service<'_>) -> Vec<u8> {
    std::fs::read(service.roots).expect("the certificates")
}
