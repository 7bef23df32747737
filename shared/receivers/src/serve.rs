//! Servers on ports of this machine: their sockets and HTTP, which every server of the kit has in common.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
pub use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::background::Background;

/// No sender has a reason to send more; beyond it the connection is closed.
const LARGEST_BODY: usize = 8 << 20;
/// A pause after a failed accept (out of descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A port of 127.0.0.1 that is taken, and not answered yet: who is to answer there may have to know it first.
#[derive(Debug)]
pub struct Port {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Takes this port; 0 is any that is free.
    pub fn take(number: u16) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, number))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// The origin at this port, without TLS: to a browser `localhost` and `127.0.0.1` are two origins.
    pub fn origin(&self, host: &str) -> String {
        format!("http://{host}:{}", self.number())
    }

    /// Within a runtime.
    pub fn listen(self) -> io::Result<TcpListener> {
        TcpListener::from_std(self.listener)
    }

    /// Serves its connections on a thread of its own.
    pub fn serve<F, Fut>(self, name: &str, connection: F) -> io::Result<Background>
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Background::start(name, move || Ok(accept(self.listen()?, connection)))
    }
}

/// Takes connections, and runs what `connection` returns for each until that ends or this is dropped.
pub async fn accept<F, Fut>(listener: TcpListener, connection: F)
where
    F: Fn(TcpStream) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Without it a small answer may wait for an acknowledgement; the tests measure times.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(connection(stream));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// HTTP/2 and HTTP/1.1, as the client likes.
pub fn http_versions() -> Builder<TokioExecutor> {
    Builder::new(TokioExecutor::new())
}

/// Speaks HTTP over a connection until that ends. Each request is answered once it has arrived whole; for `None` its stream
/// is reset (HTTP/2) or its connection closed (HTTP/1.1).
pub async fn http<S, F, Fut>(builder: Builder<TokioExecutor>, stream: S, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Parts, Bytes) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<Response<Full<Bytes>>>> + Send + 'static,
{
    let answer = Arc::new(answer);
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            let (parts, body) = request.into_parts();
            let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?;
            let answered = answer(parts, body.to_bytes()).await;
            answered.ok_or_else(|| io::Error::other("this request gets no answer"))
        }
    });
    // How a connection ends is the client's affair.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
