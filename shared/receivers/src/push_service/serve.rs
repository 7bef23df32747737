//! The socket side: connections, TLS, HTTP/2 and HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::service::{Outcome, Service};

/// No sender has a reason to send more; beyond it the connection is closed.
const LARGEST_BODY: usize = 1 << 20;
/// A pause after a failed accept (out of descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn serve(listener: TcpListener, acceptor: TlsAcceptor, service: Arc<Service>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        service.counts().tcp += 1;
        tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&service)));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, service: Arc<Service>) {
    // Without it a small answer may wait for an acknowledgement; the tests measure times.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let number = {
        let mut counts = service.counts();
        counts.tls += 1;
        counts.tls
    };
    let cut = Arc::new(Notify::new());
    let per_request = {
        let cut = Arc::clone(&cut);
        service_fn(move |request| answer(request, number, Arc::clone(&service), Arc::clone(&cut)))
    };
    let builder = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        // How a connection ends is the client's affair.
        _ = builder.serve_connection(TokioIo::new(stream), per_request) => {}
        () = cut.notified() => {}
    }
}

/// An `Err` makes hyper reset the stream (HTTP/2) or close the connection (HTTP/1.1).
async fn answer(
    request: Request<Incoming>,
    connection: u64,
    service: Arc<Service>,
    cut: Arc<Notify>,
) -> io::Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?;
    match service.handle(&parts, body.to_bytes(), connection) {
        Outcome::Respond(response, delay) => {
            wait(delay).await;
            Ok(response)
        }
        Outcome::Reset(delay) => {
            wait(delay).await;
            Err(io::Error::other("this request gets no answer"))
        }
        Outcome::Disconnect(delay) => {
            wait(delay).await;
            cut.notify_one();
            // A reset before the cut would let the client reuse a connection that is about to go.
            std::future::pending().await
        }
    }
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}
