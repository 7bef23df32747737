//! `redial breakers open | close`: an operator's change, written as a worker writes.
//!
//! The state is read, changed, and written if its version is still the one that was read. If a worker wrote in between, the
//! change is applied again, to the new state.

use std::time::Duration;

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    endpoint::Origin,
    lane::Lane,
    line::{Line, LineRelease},
    protection::{AtOrigin, Circuit, Cooldowns, OriginState, Phase},
    time::Timestamp,
};
use redial_engine::ports::{Clock as _, Protection as _, Randomness as _};

use super::shown::{phase_json, phase_words, recipient_json};
use super::which::Which;
use crate::{
    duration,
    failure::Failure,
    stack::{Target, variable},
    terminal::say,
};

/// Workers write a state about once a second, so several conflicts in a row are unlikely.
const TRIES: usize = 8;

/// Opens an origin's breaker: nothing is sent to it for a while, and messages use no attempt
///
/// When the time is over, a few probes are sent, and their results decide: success closes the breaker, and the rest follows at a
/// growing pace; a failure opens it again. Messages whose TTL ends earlier become dead letters, ttl_exceeded, at once. An origin that
/// nothing was ever sent to can be opened too. If the breaker is open already, its time is replaced.
///
/// With --tenant and --endpoint it is the breaker of one recipient, which must be one that `list --all` shows. Workers that have not
/// seen it fail do not follow: each sends to it until most of ten attempts have failed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial breakers open https://fcm.googleapis.com
  redial breakers open https://partner.example:8443 --for 2h --json
  redial breakers open https://partner.example --tenant acme \\
    --endpoint 0a3fc1d2 --for 2h")]
pub(crate) struct Open {
    /// Duration, from 1s to 24h: 90s, 30m, 2h
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = lasting)]
    lasting: Duration,
    #[command(flatten)]
    which: Which,
}

/// Closes an origin's breaker: what waits is sent to it again at a growing pace
///
/// It goes on as if its probes had succeeded: few attempts a second at first, more with each that succeeds, and its counts restart, so
/// that it opens again if the origin still fails. What waits in the origin's line leaves it from now on, as fast as that pace has room; a
/// few messages come at the time that they were given. A breaker that lets attempts pass already stays as it is. With --now everything
/// is sent at once, without a limit.
/// Exit status 1 means that there is no data about that origin, or that recipient.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial breakers close https://fcm.googleapis.com
  redial breakers close https://fcm.googleapis.com --now
  redial breakers close https://partner.example --tenant acme \\
    --endpoint 0a3fc1d2")]
pub(crate) struct Close {
    /// Lift its pace as well: everything that comes is sent at once
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    which: Which,
}

impl Open {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let open = |state: &mut OriginState, now| {
            state.open(self.lasting, now, &Cooldowns::default(), &mut System.rng());
        };
        let (_, target) = self.which.turn(true, open).await?;
        say(if breakers_are_off(&target).await {
            "this has no effect: the stack's breakers are off (the template's parameter Breaker)"
        } else {
            "workers follow within about two seconds; requests in flight still arrive"
        });
        Ok(())
    }
}

impl Close {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let close = if self.now { OriginState::close } else { OriginState::close_gently };
        let (circuit, target) = self.which.turn(false, close).await?;
        let released = match circuit {
            Circuit::Origin(origin) => release_lines(&target, &origin).await,
            Circuit::Recipient(_) => true,
        };
        say(if released {
            "workers follow within about two seconds; what waits for the origin goes from now on"
        } else {
            "workers follow within about two seconds; what waits for the origin goes within a minute"
        });
        Ok(())
    }
}

/// Has the lines of an origin looked after; `false` if that is left to the sweep, because the retry queues cannot be written to.
async fn release_lines(target: &Target, origin: &Origin) -> bool {
    let queues = aws_sdk_sqs::Client::new(&target.sdk);
    let sent = Lane::ALL.map(|lane| {
        let body = LineRelease::from(Line { lane, origin: origin.clone() }).to_body();
        queues.send_message().queue_url(target.queues.retry_of(lane)).message_body(body).send()
    });
    futures_util::future::join_all(sent).await.iter().all(Result::is_ok)
}

impl Which {
    /// Changes the state of the breaker that is meant, creating it only if `creates`, and prints the phases.
    async fn turn(
        &self,
        creates: bool,
        change: impl Fn(&mut OriginState, Timestamp),
    ) -> Result<(Circuit, Target), Failure> {
        let (circuit, target) = self.circuit().await?;
        let store = target.protection();
        for _ in 0..TRIES {
            let stored = store.stored(&circuit).await?;
            if stored.version == 0 && !creates {
                return Err(Failure::reported("no data about that origin: its breaker never opened"));
            }
            let now = System.now();
            let mut state = circuit.state_at(stored.state, now);
            let before = state.breaker().phase(now);
            change(&mut state, now);
            let after = state.breaker().phase(now);
            if store.exchange(&circuit, stored.version, state, now).await? {
                self.print(&circuit, &before, &after)?;
                return Ok((circuit, target));
            }
        }
        let words =
            format!("workers changed its state at each of {TRIES} tries; nothing was done, try again");
        Err(Failure::Failed(format!("{}: {words}", name(&circuit)).into()))
    }

    fn print(&self, circuit: &Circuit, before: &Phase, after: &Phase) -> Result<(), Failure> {
        let json = || {
            let mut line = phase_json(after);
            line["origin"] = circuit.origin().as_str().into();
            line["for_one_recipient"] = recipient_json(circuit);
            line["before"] = phase_json(before);
            line
        };
        let line = || format!("{}: {}; was {}", name(circuit), phase_words(after), phase_words(before));
        self.on.print(json, || vec![line()])
    }
}

fn name(circuit: &Circuit) -> String {
    match circuit {
        Circuit::Origin(origin) => origin.as_str().to_owned(),
        Circuit::Recipient(AtOrigin { origin, tenant, endpoint }) => {
            format!("{}, one recipient of {tenant}, endpoint {}", origin.as_str(), endpoint.short())
        }
    }
}

/// False also if the function's configuration may not be read.
async fn breakers_are_off(target: &Target) -> bool {
    let function = target.configuration(&target.dispatch).await;
    function.is_ok_and(|function| variable(&function, "BREAKER") == Some("off"))
}

fn lasting(text: &str) -> Result<Duration, String> {
    duration::within(text, 1..=86_400, "a time from 1s to 24h, such as 90s, 30m or 2h")
}
