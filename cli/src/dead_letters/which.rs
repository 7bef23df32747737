//! The options that select dead letters, the same for every command, and the filter that they make.

use std::time::Duration;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use redial_adapters::dead_letters_dynamo::{Described, DynamoDeadLetters, Position, Scope};
use redial_core::{
    channel::Channel, dead_letter::Reference, endpoint::EndpointHash, identity::DeliveryId, reason::Reason,
    tag::MessageTag, time::Timestamp,
};

use crate::{arguments, endpoint_hash, failure::Failure, when::When};

/// How far back a command looks by default: most policies keep descriptions for this time.
const DEFAULT_SINCE: Duration = Duration::from_secs(14 * 86_400);

/// How far a worker's clock may be ahead of this machine's.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which dead letters")]
pub(super) struct Which {
    /// Of this tenant; _unknown for bodies whose tenant could not be read [default: all tenants]
    #[arg(long, value_parser = arguments::tenant_or_unknown)]
    pub(super) tenant: Option<String>,
    /// That failed for this reason
    #[arg(long, hide_possible_values = true, value_parser = reasons())]
    reason: Option<Reason>,
    /// Of this channel
    #[arg(long, value_parser = channels())]
    channel: Option<Channel>,
    /// Of messages with this tag; may be repeated, then with all of them
    #[arg(long, value_name = "TAG", value_parser = arguments::tag)]
    tag: Vec<MessageTag>,
    /// That failed at or after: a time ago, 90s, 30m, 2h, 7d; or a point in time, 2026-11-21T10:05:00Z [default: 14d]
    #[arg(long, value_name = "AGO|TIME", value_parser = When::parse)]
    since: Option<When>,
    /// That failed before [default: now]
    #[arg(long, value_name = "AGO|TIME", value_parser = When::parse)]
    until: Option<When>,
    /// To this endpoint: its hash, or the first eight digits, as `tail` and `breakers list` show them
    #[arg(long, alias = "endpoint", value_name = "HASH")]
    endpoint_hash: Option<String>,
    /// Of this delivery
    #[arg(long, value_parser = arguments::delivery)]
    pub(super) id: Option<DeliveryId>,
}

/// The dead letters that a command is about: all conditions must hold.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) which: Which,
    /// Failed at or after.
    pub(super) since: Timestamp,
    /// Failed before.
    pub(super) until: Timestamp,
    /// Those that are kept longer.
    now: Timestamp,
}

impl Filter {
    pub(super) fn matches(&self, described: &Described) -> bool {
        let Reference { tenant, reason, channel, id, endpoint_hash, at, .. } = &described.reference;
        let is = |wanted: Option<&str>, value: &str| wanted.is_none_or(|wanted| wanted == value);
        let hash = endpoint_hash.as_deref().and_then(EndpointHash::parse);
        let has = |wanted: &str| hash.as_ref().is_some_and(|hash| endpoint_hash::names(wanted, hash));
        is(self.which.tenant.as_deref(), tenant)
            && is(self.which.reason.map(Reason::label), reason)
            && is(self.which.channel.map(Channel::label), channel)
            && is(self.which.id.as_ref().map(DeliveryId::as_str), id)
            && self.which.endpoint_hash.as_deref().is_none_or(has)
            && self.which.tag.iter().all(|tag| described.reference.tags().any(|one| one == tag.as_str()))
            && (self.since..self.until).contains(&Timestamp::from_ms(*at))
            && described.is_kept(self.now)
    }

    /// The part that the index can search by.
    pub(super) fn scope(&self, after: Option<Position>) -> Scope {
        Scope { tenant: self.which.tenant.clone(), since: self.since, until: self.until, after }
    }
}

impl Which {
    /// Resolves times at `now`; `latest` is the default of --until.
    pub(super) fn filter(&self, now: Timestamp, latest: Timestamp) -> Result<Filter, Failure> {
        if let Some(text) = &self.endpoint_hash {
            endpoint_hash::parse("--endpoint-hash", text)?;
        }
        let since = self.since.as_ref().map_or(now.minus(DEFAULT_SINCE), |since| since.resolve(now));
        let until = self.until.as_ref().map_or(latest, |until| until.resolve(now));
        if until <= since {
            let (since, until) = (since.to_rfc3339(), until.to_rfc3339());
            let words = format!("--since {since} is not before --until {until}: nothing is between");
            return Err(Failure::input(words));
        }
        Ok(Filter {
            which: self.clone(),
            // Nothing is kept for longer, so earlier days need no query.
            since: since.max(now.minus(DynamoDeadLetters::LONGEST_KEPT)),
            // Nothing is later than now, except for clock skew.
            until: until.min(now.plus(CLOCK_SKEW)),
            now,
        })
    }

    /// The options that were given, in the order of the help.
    pub(super) fn options(&self) -> Vec<String> {
        let option = |name: &str, value: Option<String>| value.map(|value| format!("--{name} {value}"));
        let tags = self.tag.iter().map(|tag| option("tag", Some(tag.to_string())));
        [
            option("tenant", self.tenant.clone()),
            option("reason", self.reason.map(|it| it.label().to_owned())),
            option("channel", self.channel.map(|it| it.label().to_owned())),
            option("since", self.since.as_ref().map(When::text)),
            option("until", self.until.as_ref().map(When::text)),
            option("endpoint-hash", self.endpoint_hash.clone()),
            option("id", self.id.as_ref().map(|it| it.as_str().to_owned())),
        ]
        .into_iter()
        .chain(tags)
        .flatten()
        .collect()
    }

    /// A change of all dead letters needs --all.
    pub(super) fn require_selection(&self, all: bool) -> Result<(), Failure> {
        let wrong = match (self.options().is_empty(), all) {
            (true, true) | (false, false) => return Ok(()),
            (true, false) => {
                "nothing is selected: pass --tenant, --reason, --since or another of these options, or --all"
            }
            (false, true) => "--all cannot be combined with options that select dead letters",
        };
        Err(Failure::input(wrong))
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::dead_letters::described_tests::described;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        which: Which,
    }

    fn which(options: &str) -> Which {
        Command::try_parse_from(format!("redial {options}").split_whitespace()).expect("valid").which
    }

    fn filter(options: &str, now: &str) -> Filter {
        let now = time(now);
        which(options).filter(now, now).expect("valid")
    }

    fn time(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).expect("valid")
    }

    const NOW: &str = "2026-11-21T10:05:00Z";

    #[test]
    fn times_are_relative_or_absolute_and_within_what_can_be_stored() {
        for (options, since, until) in [
            ("", "2026-11-07T10:05:00Z", NOW),
            ("--since 2026-11-20T00:00:00Z --until 2h", "2026-11-20T00:00:00Z", "2026-11-21T08:05:00Z"),
            ("--since 1970-01-01T00:00:00Z", "2025-11-06T10:05:00Z", NOW),
            ("--until 9999-01-01T00:00:00Z", "2026-11-07T10:05:00Z", "2026-11-21T10:10:00Z"),
        ] {
            let filter = filter(options, NOW);
            assert_eq!((filter.since, filter.until), (time(since), time(until)), "{options}");
        }
        let ahead = time(NOW).plus(CLOCK_SKEW);
        assert_eq!(which("").filter(time(NOW), ahead).expect("valid").until, ahead);
    }

    #[test]
    fn options_are_repeated_as_they_were_given() {
        let given =
            "--tenant _unknown --reason poison --channel webhook --since 2h --id d1 --tag eu --tag order";
        for options in ["", given] {
            assert_eq!(which(options).options().join(" "), options);
        }
    }

    #[test]
    fn all_conditions_must_hold_and_until_is_not_included() {
        for (options, now, matches) in [
            ("", "1970-01-01T00:16:41Z", true),
            ("--tenant acme --reason retries_exhausted", "1970-01-01T00:16:41Z", true),
            ("--since 1s", "1970-01-01T00:16:41Z", true),
            ("--tag order --tag eu", "1970-01-01T00:16:41Z", true),
            ("--tag order --tag us", "1970-01-01T00:16:41Z", false),
            ("--tag orde", "1970-01-01T00:16:41Z", false),
            ("--tenant bolt --reason retries_exhausted", "1970-01-01T00:16:41Z", false),
            ("--tenant acme --reason poison", "1970-01-01T00:16:41Z", false),
            ("--channel webhook", "1970-01-01T00:16:41Z", false),
            ("--endpoint-hash 0a3fc1d2", "1970-01-01T00:16:41Z", true),
            ("--endpoint 0a3fc1d2", "1970-01-01T00:16:41Z", true),
            ("--endpoint-hash 0a3fc1d3", "1970-01-01T00:16:41Z", false),
            ("--id d2", "1970-01-01T00:16:41Z", false),
            ("--since 1s", "1970-01-01T00:16:42Z", false),
            ("", "1970-01-01T00:16:40Z", false),
        ] {
            assert_eq!(filter(options, now).matches(&described()), matches, "{options} at {now}");
        }
    }

    #[test]
    fn one_that_is_not_kept_any_longer_does_not_match() {
        let filter = filter("", "1970-01-01T00:20:00Z");
        for (kept_until, matches) in [(1_200, false), (1_201, true)] {
            let kept_until = Some(Timestamp::from_secs(kept_until));
            assert_eq!(filter.matches(&Described { kept_until, ..described() }), matches, "{kept_until:?}");
        }
    }
}
