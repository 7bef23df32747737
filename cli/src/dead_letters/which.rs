//! The options that select dead letters, the same for every command.

use std::time::Duration;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_core::{
    channel::Channel, endpoint::EndpointHash, identity::DeliveryId, reason::Reason, time::Timestamp,
};

use super::filter::Filter;
use crate::{arguments, duration, failure::Failure};

/// How far back a command looks by default: most policies keep descriptions for this time.
const DEFAULT_SINCE: Duration = Duration::from_secs(14 * 86_400);

/// How far a worker's clock may be ahead of this machine's.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(300);

#[derive(Debug, Args)]
#[command(next_help_heading = "Which dead letters")]
pub(super) struct Which {
    /// Of this tenant; _unknown for bodies whose tenant could not be read [default: all tenants]
    #[arg(long, value_parser = arguments::tenant_or_unknown)]
    tenant: Option<String>,
    /// That failed for this reason
    #[arg(long, hide_possible_values = true, value_parser = reasons())]
    reason: Option<Reason>,
    /// Of this channel
    #[arg(long, value_parser = channels())]
    channel: Option<Channel>,
    /// That failed at or after: a time ago, 90s, 30m, 2h, 7d; or a point in time, 2026-11-21T10:05:00Z [default: 14d]
    #[arg(long, value_name = "AGO|TIME", value_parser = When::parse)]
    since: Option<When>,
    /// That failed before [default: now]
    #[arg(long, value_name = "AGO|TIME", value_parser = When::parse)]
    until: Option<When>,
    /// To this endpoint, as logs and descriptions name it
    #[arg(long, value_name = "HASH", value_parser = endpoint_hash)]
    endpoint_hash: Option<EndpointHash>,
    /// Of this delivery
    #[arg(long, value_parser = arguments::delivery)]
    id: Option<DeliveryId>,
}

/// A point in time, as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
enum When {
    Back(Duration, String),
    At(Timestamp),
}

impl When {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(back) = duration::parse(text) {
            return Ok(Self::Back(back, text.to_owned()));
        }
        Timestamp::parse_rfc3339(text).map(Self::At).ok_or_else(|| {
            "a time ago, 90s, 30m, 2h, 7d; or a point in time, 2026-11-21T10:05:00Z".to_owned()
        })
    }

    fn resolve(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Back(back, _) => now.minus(*back),
            Self::At(at) => *at,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Back(_, text) => text.clone(),
            Self::At(at) => at.to_rfc3339(),
        }
    }
}

impl Which {
    /// Resolves times at `now`; `latest` is the default of --until.
    pub(super) fn filter(&self, now: Timestamp, latest: Timestamp) -> Result<Filter, Failure> {
        let since = self.since.as_ref().map_or(now.minus(DEFAULT_SINCE), |since| since.resolve(now));
        let until = self.until.as_ref().map_or(latest, |until| until.resolve(now));
        if until <= since {
            let (since, until) = (since.to_rfc3339(), until.to_rfc3339());
            let words = format!("--since {since} is not before --until {until}: nothing is between");
            return Err(Failure::input(words));
        }
        Ok(Filter {
            tenant: self.tenant.clone(),
            reason: self.reason,
            channel: self.channel,
            endpoint_hash: self.endpoint_hash.clone(),
            id: self.id.clone(),
            // Nothing is kept for longer, so earlier days need no query.
            since: since.max(now.minus(DynamoDeadLetters::LONGEST_KEPT)),
            // Nothing is later than now, except for clock skew.
            until: until.min(now.plus(CLOCK_SKEW)),
        })
    }

    /// The options that were given, in the order of the help.
    pub(super) fn options(&self) -> Vec<String> {
        let option = |name: &str, value: Option<String>| value.map(|value| format!("--{name} {value}"));
        [
            option("tenant", self.tenant.clone()),
            option("reason", self.reason.map(|it| it.label().to_owned())),
            option("channel", self.channel.map(|it| it.label().to_owned())),
            option("since", self.since.as_ref().map(When::text)),
            option("until", self.until.as_ref().map(When::text)),
            option("endpoint-hash", self.endpoint_hash.as_ref().map(|it| it.as_str().to_owned())),
            option("id", self.id.as_ref().map(|it| it.as_str().to_owned())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// A change of all dead letters needs --all.
    pub(super) fn require_selection(&self, all: bool) -> Result<(), Failure> {
        match (self.options().is_empty(), all) {
            (true, false) => Err(Failure::input(
                "nothing is selected: pass --tenant, --reason, --since or another of these options, or --all",
            )),
            (false, true) => {
                Err(Failure::input("--all cannot be combined with options that select dead letters"))
            }
            (true, true) | (false, false) => Ok(()),
        }
    }
}

fn reasons() -> impl clap::builder::TypedValueParser<Value = Reason> {
    let labels = PossibleValuesParser::new(Reason::ALL.iter().map(|reason| reason.label()));
    labels.try_map(|label| Reason::from_label(&label).ok_or("a reason"))
}

fn channels() -> impl clap::builder::TypedValueParser<Value = Channel> {
    let labels = PossibleValuesParser::new([Channel::WebPush, Channel::Webhook].map(Channel::label));
    labels.try_map(|label| Channel::from_label(&label).ok_or("a channel"))
}

fn endpoint_hash(text: &str) -> Result<EndpointHash, String> {
    EndpointHash::parse(text)
        .ok_or_else(|| "an endpoint's hash, as `redial dead-letters show` prints it".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        which: Which,
    }

    fn which(arguments: &str) -> Which {
        let arguments = arguments.split(' ').filter(|it| !it.is_empty());
        Command::try_parse_from(["redial"].into_iter().chain(arguments)).expect("valid").which
    }

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
    }

    fn refused(failure: Failure) -> String {
        match &failure {
            Failure::Input(lines) => lines.concat(),
            Failure::Failed(_) | Failure::Reported => panic!("{failure:?}"),
        }
    }

    #[test]
    fn the_default_is_the_last_fourteen_days() {
        let filter = which("").filter(now(), now()).expect("valid");
        assert_eq!((filter.since.to_rfc3339().as_str(), filter.until), ("2026-11-07T10:05:00.000Z", now()));
        assert!(which("").options().is_empty());
    }

    #[test]
    fn times_are_relative_or_absolute() {
        let filter = which("--since 2026-11-20T00:00:00Z --until 2h").filter(now(), now()).expect("valid");
        let (since, until) = (filter.since.to_rfc3339(), filter.until.to_rfc3339());
        assert_eq!(since, "2026-11-20T00:00:00.000Z");
        assert_eq!(until, "2026-11-21T08:05:00.000Z");
        assert!(Command::try_parse_from(["redial", "--since", "yesterday"]).is_err());
        let nothing = which("--since 1h --until 2h").filter(now(), now()).expect_err("nothing between");
        assert!(refused(nothing).contains("nothing is between"));
    }

    #[test]
    fn days_before_the_longest_retention_are_not_searched() {
        let filter = which("--since 1970-01-01T00:00:00Z").filter(now(), now()).expect("valid");
        assert_eq!(filter.since, now().minus(DynamoDeadLetters::LONGEST_KEPT));
    }

    #[test]
    fn the_future_is_not_searched() {
        let until = |arguments: &str, latest| which(arguments).filter(now(), latest).expect("valid").until;
        let ahead = now().plus(CLOCK_SKEW);
        assert_eq!(until("--until 9999-01-01T00:00:00Z", now()), ahead);
        assert_eq!((until("", now()), until("", ahead)), (now(), ahead));
    }

    #[test]
    fn all_dead_letters_are_selected_only_with_all() {
        assert!(refused(which("").require_selection(false).expect_err("a slip")).contains("--all"));
        assert!(which("--reason poison").require_selection(true).is_err());
        assert!(which("--reason poison").require_selection(false).is_ok());
        assert!(which("").require_selection(true).is_ok());
    }

    #[test]
    fn options_are_repeated_as_they_were_given() {
        let given = "--tenant _unknown --reason poison --channel webhook --since 2h --id d1";
        assert_eq!(which(given).options().join(" "), given);
        for wrong in
            [["--reason", "none"], ["--channel", "sms"], ["--tenant", "Acme"], ["--endpoint-hash", "!"]]
        {
            assert!(Command::try_parse_from(["redial"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
