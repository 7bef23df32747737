//! The websocket side: one task a connection, which carries texts between a browser and [`Browsers`].

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::Event;
use super::browsers::Browsers;
use super::wire::{self, Said};

pub(super) async fn connection(stream: TcpStream, browsers: Arc<Browsers>) {
    if browsers.is_shut() {
        return;
    }
    // How a connection ends is the browser's affair.
    let Ok(mut socket) = accept_async(stream).await else { return };
    let Some(Said::Hello { uaid }) = next(&mut socket).await else { return };
    let (outbox, mut outgoing) = mpsc::unbounded_channel();
    let (uaid, session) = browsers.hello(uaid, outbox);
    loop {
        let answer = tokio::select! {
            said = next(&mut socket) => match said {
                Some(said) => said_by(&uaid, said, &browsers),
                None => break,
            },
            // No sender any more: the server ends this connection.
            text = outgoing.recv() => match text {
                Some(text) => Some(text),
                None => break,
            },
        };
        if let Some(text) = answer
            && socket.send(Message::text(text)).await.is_err()
        {
            break;
        }
    }
    browsers.left(&uaid, session);
}

fn said_by(uaid: &str, said: Said, browsers: &Arc<Browsers>) -> Option<String> {
    match said {
        Said::Register { channel, key } => Some(browsers.register(uaid, &channel, key.as_deref())),
        Said::Unregister { channel } => Some(browsers.unregister(uaid, &channel)),
        Said::Ack(updates) => {
            updates.into_iter().for_each(|update| browsers.ack(uaid, update));
            None
        }
        Said::Nack { version, code } => {
            browsers.journal.push(Event::Nacked { message: version, code });
            None
        }
        Said::Ping => Some(wire::pong()),
        // A second hello is none.
        Said::Hello { .. } | Said::Other => None,
    }
}

/// The next thing said; `None` when the connection has ended, or is not of this protocol.
async fn next(socket: &mut WebSocketStream<TcpStream>) -> Option<Said> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return Said::read(&text),
            // The library answers pings by itself.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            Message::Binary(_) | Message::Close(_) => return None,
        }
    }
}
