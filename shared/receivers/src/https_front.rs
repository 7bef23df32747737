//! TLS in front of a server of this machine that has none, such as an emulator's function URLs: Redial posts to https only.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use tokio::{io::copy_bidirectional, net::TcpStream};

use crate::background::Background;
use crate::serve::Port;
use crate::tls::{Certificates, StartError};

/// A running front. It ends when it is dropped.
pub struct HttpsFront {
    origin: String,
    ca_pem: String,
    upstream: Arc<OnceLock<SocketAddr>>,
    _running: Background,
}

impl HttpsFront {
    /// On a free port. Connections are closed until it is known where to they lead.
    pub fn start() -> Result<Self, StartError> {
        // The bytes go on as they are, to a server that may know HTTP/1.1 alone.
        let certificates = Certificates::generate()?;
        let acceptor = certificates.acceptor(&["http/1.1"])?;
        let port = Port::take(0)?;
        let origin = format!("https://localhost:{}", port.number());
        let upstream = Arc::new(OnceLock::new());
        let leads_to = Arc::clone(&upstream);
        let running = port.serve("https-front", move |stream| {
            let (acceptor, upstream) = (acceptor.clone(), leads_to.get().copied());
            async move {
                // How a connection ends is the affair of those at its ends.
                let _ended = async {
                    let mut caller = acceptor.accept(stream).await?;
                    let upstream = upstream.ok_or(io::ErrorKind::NotConnected)?;
                    let mut server = TcpStream::connect(upstream).await?;
                    copy_bidirectional(&mut caller, &mut server).await
                }
                .await;
            }
        })?;
        Ok(Self { origin, ca_pem: certificates.root, upstream, _running: running })
    }

    /// Leads to this address from now on; the first one counts.
    pub fn lead_to(&self, upstream: SocketAddr) {
        let _first = self.upstream.set(upstream);
    }

    pub fn origin(&self) -> &str {
        &self.origin
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }
}
