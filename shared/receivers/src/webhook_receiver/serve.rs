//! The socket side: listening and not, connections, TLS, HTTP/2 and HTTP/1.1.
//!
//! A receiver that refuses connections does not listen, but its port stays bound by another socket, so that no other process gets it
//! in the meantime: both sockets have `SO_REUSEPORT`.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::answer::Paced;
use super::book::Book;

/// Four times the longest webhook; beyond it the connection is closed.
const LARGEST_BODY: usize = 1 << 20;
/// As many connections may wait to be accepted: a thousand webhooks may come at once.
const BACKLOG: u32 = 1024;
/// A pause after a failed accept (out of descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Listen, or refuse; `done` receives the result.
pub(super) struct Command {
    pub(super) listening: bool,
    pub(super) done: mpsc::Sender<io::Result<()>>,
}

/// A socket at this address that does not listen yet, and shares the address with others like it.
pub(super) fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Listens and refuses as the commands say, until their sender is gone.
pub(super) async fn serve(
    address: SocketAddr,
    acceptor: TlsAcceptor,
    book: Arc<Book>,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut listener = None;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            command = commands.recv() => {
                let Some(Command { listening, done }) = command else { return };
                let carried_out = match (listening, &listener) {
                    (true, Some(_)) => Ok(()),
                    (true, None) => listen(address).map(|it| listener = Some(it)),
                    (false, _) => {
                        listener = None;
                        connections.shutdown().await;
                        Ok(())
                    }
                };
                // Who gave the command waits for this, or is gone.
                let _ = done.send(carried_out);
            }
            accepted = accept(listener.as_ref()) => match accepted {
                Ok(stream) => {
                    let number = book.connected();
                    connections.spawn(connection(stream, number, acceptor.clone(), Arc::clone(&book)));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bound(address)?.listen(BACKLOG)
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn connection(stream: TcpStream, number: u64, acceptor: TlsAcceptor, book: Arc<Book>) {
    // Without it a small answer may wait for an acknowledgement; the tests measure times.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let per_request = service_fn(move |request| answer(request, number, Arc::clone(&book)));
    let builder = auto::Builder::new(TokioExecutor::new());
    // How a connection ends is the client's affair.
    let _ = builder.serve_connection(TokioIo::new(stream), per_request).await;
}

/// An `Err` makes hyper reset the stream (HTTP/2) or close the connection (HTTP/1.1).
async fn answer(request: Request<Incoming>, connection: u64, book: Arc<Book>) -> io::Result<Response<Paced>> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?;
    let answer = book.answer(&parts, body.to_bytes(), connection);
    if !answer.delay.is_zero() {
        tokio::time::sleep(answer.delay).await;
    }
    answer.response().ok_or_else(|| io::Error::other("this request gets no answer"))
}
