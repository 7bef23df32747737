//! A certificate authority made for one run, and the server's side of TLS.
//!
//! Redial's senders accept https only, so what they send to speaks it, with a root certificate that a
//! client has to trust. Nothing is written to a disk.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use thiserror::Error;
use tokio_rustls::rustls;

#[derive(Debug, Error)]
pub enum StartError {
    #[error("no socket or thread for the server")]
    Io(#[from] std::io::Error),
    #[error("no certificate for the server")]
    Certificate(#[from] rcgen::Error),
    #[error("no TLS for the server")]
    Tls(#[from] rustls::Error),
}

/// The names a client may call the server by.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) acceptor: TlsAcceptor,
}

pub(crate) fn identity() -> Result<Identity, StartError> {
    identity_for(&["h2", "http/1.1"])
}

/// Of a server that speaks these protocols, the preferred one first.
pub(crate) fn identity_for(protocols: &[&str]) -> Result<Identity, StartError> {
    let mut root = CertificateParams::default();
    root.distinguished_name.push(DnType::CommonName, "Redial receivers root");
    root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate()?)?;

    let mut leaf = CertificateParams::new(NAMES.map(String::from))?;
    leaf.distinguished_name.push(DnType::CommonName, "Redial receivers server");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&leaf_key, &root)?;

    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(Identity { ca_pem: root.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) })
}
