//! The certificates that egress trusts, and clients that connect by them.
//!
//! The roots are Mozilla's, compiled in as parsed trust anchors: reading the system's store is most of a cold start, and a
//! Lambda image need not have one. ring is named explicitly, so that no process-wide default has to be installed first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::{Client, ClientBuilder, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

#[derive(Debug, thiserror::Error)]
pub enum ExtraRootError {
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("expected PEM with at least one certificate (`BEGIN CERTIFICATE`), each a valid root")]
    NotCertificates,
}

/// Root certificates beside the public ones: those of test receivers and the local stack.
#[derive(Clone, Debug, Default)]
pub struct ExtraRoots(Vec<CertificateDer<'static>>);

impl ExtraRoots {
    pub fn from_file(path: &Path) -> Result<Self, ExtraRootError> {
        let pem = std::fs::read(path)
            .map_err(|error| ExtraRootError::Unreadable { path: path.to_owned(), error })?;
        Self::from_pem(&pem)
    }

    pub fn from_pem(pem: &[u8]) -> Result<Self, ExtraRootError> {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|_| ExtraRootError::NotCertificates)?;
        let mut trial = RootCertStore::empty();
        let fit = certificates.iter().all(|certificate| trial.add(certificate.clone()).is_ok());
        if fit && !trial.is_empty() { Ok(Self(certificates)) } else { Err(ExtraRootError::NotCertificates) }
    }

    /// Mozilla's roots and these.
    pub(crate) fn with_public(&self) -> RootCertStore {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(self.0.iter().cloned());
        roots
    }
}

/// A client that connects by this and to nowhere but where it is asked to: by no proxy, and without following redirects.
pub(crate) fn client_builder(tls: ClientConfig) -> ClientBuilder {
    let client = Client::builder().tls_backend_preconfigured(tls);
    client.no_proxy().redirect(redirect::Policy::none()).referer(false)
}

/// TLS 1.2 and 1.3 on ring, HTTP/2 preferred, these roots.
pub(crate) fn client_config(roots: RootCertStore) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("invariant: ring has what TLS 1.2 and 1.3 need")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_roots_are_certificates_and_at_least_one() {
        let pem =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate").cert.pem();
        assert_eq!(ExtraRoots::from_pem(format!("{pem}{pem}").as_bytes()).expect("certificates").0.len(), 2);
        for bad in ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(ExtraRoots::from_pem(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = ExtraRoots::from_file(Path::new("/nowhere/ca.pem")).expect_err("no file");
        assert!(error.to_string().contains("/nowhere/ca.pem"));
    }
}
