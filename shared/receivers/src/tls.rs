//! A certificate authority made for one run, and the server's side of TLS.
//!
//! Redial's senders accept https only, so what they send to speaks it, with a root certificate that a
//! client has to trust. Nothing is written to a disk here.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

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
    #[error("no PEM text")]
    Pem(#[from] pem::Error),
}

pub(crate) const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// The names a client may call the server by.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A root certificate and what it vouches for: a server on this machine. As PEM texts, because a server may come up again and again
/// while its clients keep the root.
#[derive(Clone, Debug)]
pub struct Certificates {
    pub root: String,
    pub server: String,
    /// The server's private key. Never log it.
    pub key: String,
}

impl Certificates {
    pub fn generate() -> Result<Self, StartError> {
        let mut root = CertificateParams::default();
        root.distinguished_name.push(DnType::CommonName, "Redial receivers root");
        root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate()?)?;

        let mut leaf = CertificateParams::new(NAMES.map(String::from))?;
        leaf.distinguished_name.push(DnType::CommonName, "Redial receivers server");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let leaf = leaf.signed_by(&key, &root)?;
        Ok(Self { root: root.pem(), server: leaf.pem(), key: key.serialize_pem() })
    }

    /// A server that speaks these protocols, the preferred one first.
    pub fn acceptor(&self, protocols: &[&str]) -> Result<TlsAcceptor, StartError> {
        let chain = CertificateDer::pem_slice_iter(self.server.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
