//! The options that say which letters, the same for every command.

use std::time::Duration;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_core::{
    channel::Channel, endpoint::EndpointHash, identity::DeliveryId, reason::Reason, time::Timestamp,
};

use super::super::{ids, span};
use crate::{dead_letters::Filter, failure::Failure};

/// How far back a command looks that is not told: for so long descriptions are kept by most policies.
const USUAL: Duration = Duration::from_secs(14 * 86_400);

/// How far a worker's clock may be ahead of the one here.
pub(super) const CLOCKS_DIFFER: Duration = Duration::from_secs(300);

/// Which letters.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which letters")]
pub(super) struct Which {
    /// Whose; _unknown for bodies that were so broken that no tenant could be read [default: everybody's]
    #[arg(long, value_parser = ids::tenant_or_unknown)]
    tenant: Option<String>,
    /// Given up for this reason
    #[arg(long, hide_possible_values = true, value_parser = reasons())]
    reason: Option<Reason>,
    /// Meant for this channel
    #[arg(long, value_parser = channels())]
    channel: Option<Channel>,
    /// Given up from then on: a span back from now, 90s, 30m, 2h, 7d; or a time, 2026-11-21T10:05:00Z [default: 14d]
    #[arg(long, value_name = "SPAN|TIME", value_parser = When::parse)]
    since: Option<When>,
    /// Given up before then [default: now]
    #[arg(long, value_name = "SPAN|TIME", value_parser = When::parse)]
    until: Option<When>,
    /// To this endpoint, as logs and descriptions name it
    #[arg(long, value_name = "HASH", value_parser = endpoint_hash)]
    endpoint_hash: Option<EndpointHash>,
    /// Of this delivery
    #[arg(long, value_parser = ids::delivery)]
    id: Option<DeliveryId>,
}

/// A moment, as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
enum When {
    Back(Duration, String),
    At(Timestamp),
}

impl When {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(back) = span::parse(text) {
            return Ok(Self::Back(back, text.to_owned()));
        }
        Timestamp::parse_rfc3339(text).map(Self::At).ok_or_else(|| {
            "a span back from now, 90s, 30m, 2h, 7d; or a time, 2026-11-21T10:05:00Z".to_owned()
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
    /// With times resolved at `now`; without --until before `latest`.
    pub(super) fn filter(&self, now: Timestamp, latest: Timestamp) -> Result<Filter, Failure> {
        let since = self.since.as_ref().map_or(now.minus(USUAL), |since| since.resolve(now));
        let until = self.until.as_ref().map_or(latest, |until| until.resolve(now));
        if until <= since {
            let (since, until) = (since.to_rfc3339(), until.to_rfc3339());
            let words = format!("--since {since} is not before --until {until}: there is nothing between");
            return Err(Failure::input(words));
        }
        Ok(Filter {
            tenant: self.tenant.clone(),
            reason: self.reason,
            channel: self.channel,
            endpoint_hash: self.endpoint_hash.clone(),
            id: self.id.clone(),
            // Nothing is kept for longer, so there is no day to be asked for.
            since: since.max(now.minus(DynamoDeadLetters::LONGEST_KEPT)),
            // Nor is there anything beyond now, but for clocks that differ.
            until: until.min(now.plus(CLOCKS_DIFFER)),
        })
    }

    /// The options that were given, in the order of the help; empty if none was.
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

    /// What changes or sends something is not done to everything by a slip.
    pub(super) fn refuse_everything(&self, all: bool) -> Result<(), Failure> {
        match (self.options().is_empty(), all) {
            (true, false) => Err(Failure::input(
                "no letter is named: give --tenant, --reason, --since or another of these options, or --all",
            )),
            (false, true) => {
                Err(Failure::input("--all means every letter: leave it out, or the options that say which"))
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
    fn without_options_it_is_the_last_fourteen_days() {
        let filter = which("").filter(now(), now()).expect("valid");
        assert_eq!((filter.since.to_rfc3339().as_str(), filter.until), ("2026-11-07T10:05:00.000Z", now()));
        assert!(which("").options().is_empty());
    }

    #[test]
    fn times_are_spans_back_or_times() {
        let filter = which("--since 2026-11-20T00:00:00Z --until 2h").filter(now(), now()).expect("valid");
        let (since, until) = (filter.since.to_rfc3339(), filter.until.to_rfc3339());
        assert_eq!(since, "2026-11-20T00:00:00.000Z");
        assert_eq!(until, "2026-11-21T08:05:00.000Z");
        assert!(Command::try_parse_from(["redial", "--since", "yesterday"]).is_err());
        let nothing = which("--since 1h --until 2h").filter(now(), now()).expect_err("nothing between");
        assert!(refused(nothing).contains("nothing between"));
    }

    #[test]
    fn a_time_before_everything_that_is_kept_is_not_gone_back_to() {
        let filter = which("--since 1970-01-01T00:00:00Z").filter(now(), now()).expect("valid");
        assert_eq!(filter.since, now().minus(DynamoDeadLetters::LONGEST_KEPT));
    }

    #[test]
    fn nor_is_the_future_looked_into() {
        let until = |arguments: &str, latest| which(arguments).filter(now(), latest).expect("valid").until;
        let ahead = now().plus(CLOCKS_DIFFER);
        assert_eq!(until("--until 9999-01-01T00:00:00Z", now()), ahead);
        assert_eq!((until("", now()), until("", ahead)), (now(), ahead));
    }

    #[test]
    fn everything_is_meant_only_where_it_is_said() {
        assert!(refused(which("").refuse_everything(false).expect_err("a slip")).contains("--all"));
        assert!(which("--reason poison").refuse_everything(true).is_err());
        assert!(which("--reason poison").refuse_everything(false).is_ok());
        assert!(which("").refuse_everything(true).is_ok());
    }

    #[test]
    fn options_are_told_as_they_were_given() {
        let given = "--tenant _unknown --reason poison --channel webhook --since 2h --id d1";
        assert_eq!(which(given).options().join(" "), given);
        for wrong in
            [["--reason", "none"], ["--channel", "sms"], ["--tenant", "Acme"], ["--endpoint-hash", "!"]]
        {
            assert!(Command::try_parse_from(["redial"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
