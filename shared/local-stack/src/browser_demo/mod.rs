//! `redial demo --browser`: a page on this machine that subscribes your own browser, and a local stack that sends to it.
//!
//! ```text
//! browser ─► Site (infra/web, /demo/…) ─► Sender (has the API key) ─► the stack's HTTP API ─► queue ─► dispatch ─┐
//!    ▲└── subscription, acknowledgements: straight to the HTTP API, another origin, by CORS ──────┘                 │
//!    └──────────────────────────── the browser's own push service ◄─────────────────────────────────────────────────┘
//! ```
//!
//! Nothing is played: the subscription is one at Mozilla, Google or Apple, and `dispatch` posts to it over the internet. The page,
//! its server and the sender are what tests drive a Firefox with, so that what they show is what a user sees.
//!
//! What it keeps true: nothing is served but on 127.0.0.1, the API key never comes into the page, and when it is dropped, the
//! stack is gone with all that it stored.

mod sender;
mod site;

pub use redial_receivers::{
    page_server::{Answers, Asked, Server, answer, json, set},
    serve::Port,
};
pub use sender::{Sender, SenderError};
pub use site::{Answered, BackOffice, Site};

use std::{convert::Infallible, sync::Arc};

use redial_core::identity::Tenant;

use crate::local::{Options, Progress, Stack};
use redial_console::{
    failure::Failure,
    terminal::{print, say},
};

const TENANT: &str = "demo";

#[derive(Debug, thiserror::Error)]
#[error("port {number} of 127.0.0.1")]
struct NoPort {
    number: u16,
    source: std::io::Error,
}

/// Serves the page until it is dropped. `port` 0 is a free one.
pub(crate) async fn serve(port: u16, vapid_subject: Option<String>) -> Result<Infallible, Failure> {
    let port = Port::take(port).map_err(|source| NoPort { number: port, source })?;
    // A user may type either.
    let origins = ["localhost", "127.0.0.1"].map(|host| port.origin(host)).join(",");
    let stack = Stack::up(Options {
        parameters: [("ApiCorsOrigins".to_owned(), origins)].into(),
        vapid_subject,
        events: true,
        progress: Progress::to(say),
        ..Options::default()
    })
    .await?;
    let tenant = Tenant::parse(TENANT).expect("invariant: a constant of the right form");
    let sender = Sender::open(&stack, tenant).await?;
    let page = port.origin("localhost");
    let site = Site::new(sender, port.number());
    let _server = Server::start(port, Arc::new(site));
    say("");
    say("Open this page in a browser on this machine; Ctrl-C stops it:");
    print(&format!("{page}/"))?;
    say("");
    say(
        "Pushes go to your browser's own push service, over the internet. What is stored here is deleted afterwards, with the",
    );
    say("subscription's key: unsubscribe first, or remove the site's data in the browser.");
    Ok(std::future::pending().await)
}
