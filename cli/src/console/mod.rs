//! `redial console`: a page for operators on this machine, with what the commands print.
//!
//! ```text
//! browser ─► Site (the page of infra/console, the token) ─► Question ─► Answers (the functions behind the commands' --json) ─► the stack
//! ```
//!
//! What it keeps true: it only reads; it listens on 127.0.0.1 alone; what it reads is given only to a request with the token of this
//! run, which the printed address has behind its `#`, so that neither other users of the machine nor other sites' pages get it; and
//! an endpoint or a payload is in no answer, as in no command's output.

mod answers;
mod launch;
mod question;
mod site;
mod token;

use std::sync::Arc;

use clap::Args;
use redial_receivers::{page_server::Server, serve::Port};

use self::{answers::Answers, site::Site, token::Token};
use crate::{
    failure::Failure,
    interrupt::interrupted,
    stack::TargetArgs,
    terminal::{print, say},
};

/// Serves a page on this machine that shows a stack: queues, waits, breakers, failures, dead letters and single deliveries
///
/// It prints the page's address, and serves until Ctrl-C. The page shows what `redial status --summary`, `breakers list`, `tail`,
/// `dead-letters list` and `status ID` print with --json, and reads it again every 10 seconds while it is visible, or every 30 where that
/// costs something, on AWS. It changes nothing.
///
/// Only this machine can reach the page, on 127.0.0.1, and the data needs the token in the printed address, which is new in each run. To see it from another machine, forward the port with SSH, the same number on both sides:
/// `ssh -L 8741:127.0.0.1:8741 HOST` and `redial console --port 8741` there.
///
/// What a refresh costs is what the commands cost: see infra/docs/console.md.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial console
  redial console --open
  redial console --stack redial --region eu-central-1
  redial console --port 8741

Exit status: 0 when interrupted, 1 if the stack cannot be found or the page
cannot be served.")]
pub(crate) struct Console {
    /// The page's port on this machine [default: a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Open the page in your browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "port {number} of 127.0.0.1 cannot be used; --port takes another, and without it a free one is found"
)]
struct NoPort {
    number: u16,
    source: std::io::Error,
}

impl Console {
    pub(crate) async fn run(mut self) -> Result<(), Failure> {
        let target = self.target.resolve_and_pin().await?;
        let number = self.port.unwrap_or(0);
        let port = Port::take(number).map_err(|source| NoPort { number, source })?;
        let token = Token::random()?;
        // Not `localhost`, which may be ::1, where another user may listen at the same port.
        let address = format!("{}/#token={}", port.origin("127.0.0.1"), token.expose());
        let name = target.name.clone();
        let (site, questions) = Site::new(port.number(), &token);
        let answers = Answers::new(self.target, target);
        let _server = Server::start(port, Arc::new(site));
        say(&format!(
            "Open this page in a browser on this machine; it shows the stack {name}. Ctrl-C stops it:"
        ));
        print(&address)?;
        let _opened = if self.open { launch::open(&address) } else { None };
        tokio::select! {
            () = answers.serve(questions) => Ok(()),
            () = interrupted() => Ok(()),
        }
    }
}
