//! `redial demo`.

use std::process;

use clap::Args;

use super::{
    emulator::DeployTo,
    interruption::{INTERRUPTED, interruption},
};
use crate::{
    browser_demo,
    demo::{self, Report},
    local::{self, Options},
};
use redial_console::{
    failure::Failure,
    terminal::{print, print_lines, say},
};

/// Runs every delivery scenario on this machine, and shows how each message ended
///
/// Starts a stack of its own (no AWS account needed), a push service over TLS that decrypts what it receives and verifies its
/// signatures, and a webhook receiver. They answer some messages with 503, 429, 410 and the like, or not at all. At the
/// end every message is accounted for, by Redial's tables and by what was received, and everything is taken down again.
///
/// With --emulator localstack the stack is deployed to a LocalStack that runs, and removed from it at the end. With --emulator parts its
/// queues, waits or tables are kept by servers that run.
///
/// With --browser it serves a page on this machine instead, until Ctrl-C: the page subscribes your own browser, sends it pushes
/// through the stack, and shows whether they were displayed, clicked and closed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial demo
  redial demo --messages 300
  redial demo --json | jq .ok
  redial demo --browser
  redial demo --browser --port 8740
  redial demo --emulator localstack --endpoint http://localhost:4566

Exit status: 0 every message is accounted for and every row as expected, 1 if not, 2 too few messages. With --browser: 0 when
interrupted, 1 if the page cannot be served.")]
pub struct Demo {
    /// Number of messages; those that no other scenario needs are sent without incident
    #[arg(long, value_name = "N", default_value_t = 60)]
    messages: usize,
    #[command(flatten)]
    deploy_to: DeployTo,
    /// Print one line of JSON; the table goes to standard error
    #[arg(long)]
    json: bool,
    /// Serve a page that subscribes your own browser and sends it pushes
    #[arg(long, conflicts_with_all = ["messages", "json", "emulator", "endpoint", "functions", "sqs", "step_functions", "dynamodb"])]
    browser: bool,
    /// The page's port on this machine, with --browser [default: a free one]
    #[arg(long, value_name = "PORT", requires = "browser")]
    port: Option<u16>,
    /// Your mailto or https address for the push service, with --browser: Apple requires a real one
    #[arg(long, value_name = "SUBJECT", env = "VAPID_SUBJECT", hide_env_values = true)]
    vapid_subject: Option<String>,
}

impl Demo {
    pub async fn run(self) -> Result<(), Failure> {
        if self.browser {
            return self.serve().await;
        }
        let least = demo::least_messages();
        if self.messages < least {
            return Err(Failure::input(format!(
                "--messages: expected at least {least}, which all scenarios need, found {}",
                self.messages
            )));
        }
        let Self { messages, json, deploy_to, .. } = self;
        let options = Options { emulator: deploy_to.emulator()?, ..Options::default() };
        let (emulator, name) = (options.emulator.clone(), options.name.clone());
        let done = tokio::select! {
            done = demo::run(messages, options) => Ok(done),
            ended = interruption() => Err(ended),
        };
        // The demo's future is dropped by now, and with it all that ran on this machine.
        let removed = tokio::select! {
            removed = local::remove_leftovers(&emulator, &name) => removed,
            ended = interruption() => {
                ended?;
                say("interrupted; the stack may still be on LocalStack");
                process::exit(INTERRUPTED);
            }
        };
        if let Err(error) = removed {
            say(&format!("not everything was removed from LocalStack: {error}"));
        }
        let report = match done {
            Ok(done) => done?,
            Err(ended) => {
                // The thread of a build that was ended is not worth waiting for.
                ended?;
                say("interrupted; everything has been taken down");
                process::exit(INTERRUPTED);
            }
        };
        print_report(&report, json)?;
        if report.ok() { Ok(()) } else { Err(Failure::Reported) }
    }

    async fn serve(self) -> Result<(), Failure> {
        tokio::select! {
            served = browser_demo::serve(self.port.unwrap_or(0), self.vapid_subject) => match served? {},
            ended = interruption() => {
                ended?;
                say("interrupted; everything has been taken down");
                // For the same reason as above.
                process::exit(0);
            }
        }
    }
}

fn print_report(report: &Report, json: bool) -> Result<(), Failure> {
    if json {
        report.lines().iter().for_each(|line| say(line));
        return Ok(print(&report.to_json())?);
    }
    print_lines(report.lines())?;
    say("");
    say("Next, with a stack that stays up, and a second terminal that shows what it sends:");
    say("  redial local up");
    say("  redial local listen");
    say("  redial send --tenant acme --to s1 --payload hello");
    say("README.md explains how to deploy to your own account.");
    Ok(())
}
