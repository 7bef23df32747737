//! `redial send FILE|-`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    failure::Failure,
    input,
    send::{self, Answer, Checked, Queue},
    target::TargetArgs,
    terminal::{bar, print, say},
};

/// Sends messages: every one is checked before the first is sent
///
/// FILE holds one JSON message, or one a line (NDJSON). Messages that are wrong are told by line and field, with exit
/// status 2, and nothing is sent. Each goes to the lane's queue with its tenant as MessageGroupId, and is
/// answered with the id that `redial status` knows it by.
///
/// A message with an `id` or an `idempotency_key` is delivered once, however often it is sent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo '{\"tenant\":\"acme\",\"to\":{\"subscription\":\"s1\"},\"payload\":\"hello\"}' | redial send -
  redial send campaign.ndjson --lane bulk --json > sent.ndjson
  redial send message.json --stack redial --region eu-central-1

`redial schema` prints what a message may hold.")]
pub(crate) struct Send {
    /// File with the messages; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which of the two ingest queues
    #[arg(long, value_enum, default_value_t = LaneName::Transactional)]
    lane: LaneName,
    /// Print one line of JSON for each message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LaneName {
    /// What a user waits for
    Transactional,
    /// Campaigns: what may take its time
    Bulk,
}

/// A message's answer as JSON.
#[derive(Serialize)]
struct Line<'a> {
    line: u64,
    tenant: &'a str,
    id: Option<&'a str>,
    message_id: Option<&'a str>,
    error: Option<&'a str>,
}

impl Send {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let mut input = input::open(&self.file)?;
        let Checked { messages, warnings } = send::check(&mut *input)?;
        warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));

        let target = self.target.resolve().await?;
        let url = match self.lane {
            LaneName::Transactional => &target.queues.ingest,
            LaneName::Bulk => &target.queues.bulk,
        };
        let queue = Queue::new(&target, url);
        let bar = bar(messages, "sending");
        let (mut sent, mut refused) = (0_u64, 0_u64);
        let done = send::send(&mut *input, &queue, |answer| {
            if answer.sent.is_ok() {
                sent += 1
            } else {
                refused += 1
            }
            bar.inc(1);
            bar.suspend(|| self.tell(&answer))
        })
        .await;
        bar.finish_and_clear();
        say(&summary(sent, refused, messages, &target.name));
        done?;
        if refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    fn tell(&self, answer: &Answer) -> Result<(), Failure> {
        let Answer { line, tenant, id, sent } = answer;
        let id = id.as_ref().map(|id| id.as_str());
        if self.json {
            let (message_id, error) = match sent {
                Ok(message_id) => (Some(message_id.as_str()), None),
                Err(words) => (None, Some(words.as_str())),
            };
            print(&serde_json::to_string(&Line { line: *line, tenant, id, message_id, error })?)?;
            return Ok(());
        }
        match sent {
            Ok(message_id) => print(&format!("{tenant} {} {message_id}", id.unwrap_or_default()))?,
            Err(words) => say(&format!("line {line}: not sent: {words}")),
        }
        Ok(())
    }
}

fn summary(sent: u64, refused: u64, messages: u64, stack: &str) -> String {
    let mut text = format!("{sent} of {messages} sent to {stack}");
    if refused > 0 {
        text.push_str(&format!(", {refused} not"));
    }
    let untried = messages.saturating_sub(sent + refused);
    if untried > 0 {
        text.push_str(&format!(", {untried} not tried"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_accounts_for_every_message() {
        assert_eq!(summary(3, 0, 3, "redial"), "3 of 3 sent to redial");
        assert_eq!(summary(3, 2, 10, "redial"), "3 of 10 sent to redial, 2 not, 5 not tried");
    }
}
