//! `redial breakers open | close`: an operator's word, written as a worker writes.
//!
//! The state is read, changed and put back in the place of the version that was read. A worker that came between is no
//! error: then it is done once more, from what stands there now.

use std::time::Duration;

use clap::Args;
use redial_adapters::{protection_dynamo::DynamoProtection, system::System};
use redial_core::{
    endpoint::Origin,
    protection::{Cooldowns, OriginState, Phase},
    time::Timestamp,
};
use redial_engine::ports::{Clock as _, Protection as _, Randomness as _};

use super::{
    super::{origin, span},
    row::{phase_json, phase_words},
};
use crate::{
    failure::Failure,
    target::{Target, TargetArgs},
    terminal::{print, say},
};

/// How long a breaker is opened for by hand, in seconds: from a second to a day.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;

/// Workers look at a state about once a second: who comes between so often is no accident.
const TRIES: usize = 8;

/// Opens an origin's breaker: nothing is sent to it for a while, and messages use no attempt
///
/// When the time is over a few probes are sent, and what they see decides: success closes it, and the rest follows at a pace
/// that grows; a failure opens it again. Messages whose TTL ends before are dead letters, ttl_exceeded, at once. An origin that
/// nothing was ever sent to can be opened, too. Where it is open already, the time is set anew.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial breakers open https://fcm.googleapis.com
  redial breakers open https://partner.example:8443 --for 2h --json")]
pub(crate) struct Open {
    /// For how long, from 1s to 24h: 90s, 30m, 2h
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = lasting)]
    lasting: Duration,
    #[command(flatten)]
    which: Which,
}

/// Closes an origin's breaker: everything is sent to it again, as fast as it comes
///
/// Its pace is lifted, and counting begins anew, so that it opens again if it still fails. What was held back comes at the time
/// that it was given. To let an origin come back gently, leave it alone: a breaker that closes by itself begins with few
/// attempts a second. Exit status 1 says that nothing is known of that origin.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial breakers close https://fcm.googleapis.com")]
pub(crate) struct Close {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Which {
    /// Scheme, host and port: https://fcm.googleapis.com
    #[arg(value_name = "ORIGIN")]
    origin: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Workers were faster each time.
#[derive(Debug, thiserror::Error)]
#[error("{}: each of {TRIES} times its state had changed meanwhile; nothing was done, try again", .0.as_str())]
struct Overtaken(Origin);

/// What was, and what is.
struct Turned {
    origin: Origin,
    before: Phase,
    after: Phase,
}

impl Open {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let origin = self.which.origin()?;
        let target = self.which.target.resolve().await?;
        let open = |state: &mut OriginState, now| {
            state.open(self.lasting, now, &Cooldowns::default(), &mut System.rng());
        };
        let Some(turned) = turn(&super::protection(&target), origin, true, open).await? else {
            return Err(Failure::Reported);
        };
        self.which.tell(&turned)?;
        if breakers_are_off(&target).await {
            say("nobody follows it: this stack's breakers are off (the template's parameter Breaker)");
        } else {
            say("workers follow within about two seconds; what is under way still arrives");
        }
        Ok(())
    }
}

impl Close {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let origin = self.which.origin()?;
        let store = super::protection(&self.which.target.resolve().await?);
        let Some(turned) = turn(&store, origin, false, OriginState::close).await? else {
            say("nothing is known of that origin: its breaker never opened");
            return Err(Failure::Reported);
        };
        self.which.tell(&turned)?;
        say(
            "workers follow within about two seconds; what was held back comes at the time that it was given",
        );
        Ok(())
    }
}

impl Which {
    fn origin(&self) -> Result<Origin, Failure> {
        origin::parse(&self.origin).map_err(|error| Failure::input(format!("ORIGIN: {error}")))
    }

    fn tell(&self, turned: &Turned) -> Result<(), Failure> {
        let Turned { origin, before, after } = turned;
        let line = if self.json {
            let mut line = phase_json(after);
            line["origin"] = origin.as_str().into();
            line["before"] = phase_json(before);
            line.to_string()
        } else {
            format!("{}: {}; was {}", origin.as_str(), phase_words(after), phase_words(before))
        };
        Ok(print(&line)?)
    }
}

/// Changes an origin's state; `None` where there is none and none is to be `made`.
async fn turn(
    store: &DynamoProtection,
    origin: Origin,
    made: bool,
    change: impl Fn(&mut OriginState, Timestamp),
) -> Result<Option<Turned>, Failure> {
    for _ in 0..TRIES {
        let stored = store.stored(&origin).await?;
        if stored.version == 0 && !made {
            return Ok(None);
        }
        let now = System.now();
        let mut state = stored.state.clone();
        change(&mut state, now);
        let (before, after) = (stored.state.breaker().phase(now), state.breaker().phase(now));
        if store.exchange(&origin, stored.version, state, now).await? {
            return Ok(Some(Turned { origin, before, after }));
        }
    }
    Err(Overtaken(origin).into())
}

/// Whether workers are told not to judge origins. Whoever may not read the function's configuration is not told of it.
async fn breakers_are_off(target: &Target) -> bool {
    let lambda = aws_sdk_lambda::Client::new(&target.sdk);
    let function = lambda.get_function_configuration().function_name(&target.dispatch).send().await;
    let variable = |name: &str| function.ok()?.environment?.variables?.get(name).cloned();
    variable("BREAKER").is_some_and(|value| value == "off")
}

fn lasting(text: &str) -> Result<Duration, String> {
    let would_do = || "a time from 1s to 24h, such as 90s, 30m or 2h".to_owned();
    span::parse(text).filter(|span| SECONDS.contains(&span.as_secs())).ok_or_else(would_do)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breaker_is_opened_for_a_second_to_a_day() {
        for (text, seconds) in [("1s", 1), ("10m", 600), ("24h", 86_400), ("1d", 86_400)] {
            assert_eq!(lasting(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["0s", "86401s", "25h", "2d", "10", "-1m", ""] {
            assert!(lasting(text).is_err(), "{text}");
        }
    }
}
