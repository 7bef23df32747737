//! `redial local listen`.

use std::time::Duration;

use clap::Args;
use redial_console::{duration, failure::Failure};
use redial_core::identity::{SubscriptionId, Tenant};

use super::{interruption::interruption, which::Which};
use crate::{
    listen::{self, Answers, Listening},
    local,
};

pub(super) const TENANT: &str = "acme";
const PUSH: &str = "s1";
const WEBHOOK: &str = "w1";

/// Receives what a stack sends, on this machine, and shows it
///
/// It is a push service with one browser, and a receiver of webhooks. Both are stored in the stack as subscriptions, so that messages to
/// them arrive here: pushes are decrypted, signatures are checked by the library of Standard Webhooks, and whatever is wrong with a request
/// is shown below it. A line has the time (UTC), what it is, the subscription, the status that it was answered with, and the content.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial local listen
  redial local listen --answer 503,503,201 --retry-after 5
  redial local listen --json | jq -r .body")]
pub struct Listen {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    what: What,
    /// Print one line of JSON for each
    #[arg(long)]
    json: bool,
}

/// What is listened for, and how it is answered.
#[derive(Debug, Args)]
pub(super) struct What {
    /// The tenant of both subscriptions
    #[arg(long, env = "REDIAL_TENANT", default_value = TENANT, value_parser = tenant)]
    tenant: Tenant,
    /// The id of the browser's subscription
    #[arg(long, default_value = PUSH, value_parser = subscription)]
    id: SubscriptionId,
    /// The id of the webhook's subscription
    #[arg(long, default_value = WEBHOOK, value_parser = subscription)]
    webhook_id: SubscriptionId,
    #[command(flatten)]
    replies: Replies,
}

/// How requests are answered.
#[derive(Debug, Args)]
#[group(id = "replies")]
struct Replies {
    /// Statuses of the first answers, one for each request; later ones are accepted if they are right
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(200..=599))]
    answer: Vec<u16>,
    /// Seconds that refusals ask to wait
    #[arg(long, value_name = "S", requires = "answer")]
    retry_after: Option<u32>,
    /// Time before each answer, such as 2s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = delay)]
    delay: Duration,
    /// Take requests and never answer
    #[arg(long, conflicts_with_all = ["answer", "delay"])]
    hang: bool,
}

impl What {
    pub(super) fn listening(self, json: bool) -> Listening {
        let Self { tenant, id, webhook_id, replies } = self;
        let Replies { answer, retry_after, delay, hang } = replies;
        let answers = Answers { statuses: answer, retry_after, delay, hang };
        Listening { tenant, push: id, webhook: webhook_id, answers, json }
    }

    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

impl Listen {
    pub(super) async fn run(self) -> Result<(), Failure> {
        of_stack(&self.which, self.what.listening(self.json)).await
    }
}

/// Until Ctrl-C.
pub(super) async fn of_stack(which: &Which, listening: Listening) -> Result<(), Failure> {
    let state = which.state_dir.as_deref();
    let known = local::find(&which.name, state)?;
    tokio::select! {
        ended = listen::listen(&known, state, listening) => ended,
        ended = interruption() => ended,
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    duration::within(text, 0..=3600, "expected a duration of at most an hour, such as 2s")
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::parse(text).ok_or_else(|| {
        "expected a small letter or digit, then also _ and -, 63 characters at most".to_owned()
    })
}

fn subscription(text: &str) -> Result<SubscriptionId, String> {
    SubscriptionId::parse(text)
        .ok_or_else(|| "expected letters, digits, _ and -, 64 characters at most".to_owned())
}
