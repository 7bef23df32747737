//! `redial subscriptions list`: subscriptions by tenant, state, channel and tag, read and printed page by page.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use redial_adapters::{subscriptions_dynamo::Scope, system::System};
use redial_core::{
    channel::Channel,
    identity::{SubscriptionId, SubscriptionKey, Tenant},
    subscription::{State, Subscription},
    tag::Tag,
    time::Timestamp,
    zone::Zone,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::failing;
use super::tone::tone;
use crate::{
    arguments,
    aws_error::AwsError,
    duration::relative,
    failure::Failure,
    stack::TargetArgs,
    table::{Column, Narrow, ROWS, Table},
    terminal::{print, print_lines, say, width},
};

/// Lists subscriptions, or with --failing a tenant's webhooks that fail or are disabled
///
/// Never shown are endpoints, keys, secrets and the values of headers: `redial subscriptions get` has them on request. The order is that of
/// the table: none. Rows are printed as they are read, so a list of any length needs little memory.
///
/// No index leads to a tenant's subscriptions, so the table is read up to the limit: a read unit for every 4 KB, about 12,500 units for
/// 100,000 subscriptions of half a kilobyte. With --tag only those with the tag are read, one unit each.
///
/// A browser's subscription is `suspect` that its push service refused three times or more, an hour apart and without a success. The next
/// success verifies it, or its browser that submits it again. Messages to it are sent, unless the stack holds them (SuspectSubscriptions).
///
/// --failing lists those first that have failed longest. Failures are counted until the next success. A receiver that answers 410 is disabled
/// at once; one that has failed for five days without a success is disabled by the next message that fails for good, or the next failed
/// probe of a breaker. Messages to it are then dead letters, endpoint_disabled, until `redial subscriptions enable`. This list comes from an
/// index, whole, and with --json as one line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions list --tenant acme
  redial subscriptions list --tenant acme --tag news --state quarantined
  redial subscriptions list --tenant acme --state suspect
  redial subscriptions list --tenant acme --all --json | jq -r .id
  redial subscriptions list --failing --tenant acme
  redial subscriptions list --failing --tenant acme --json \\
    | jq -r '.subscriptions[] | select(.state == \"disabled\") | .id'")]
pub(crate) struct List {
    /// Of this tenant [default: all tenants]
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Option<Tenant>,
    /// In this state
    #[arg(long, value_parser = states())]
    state: Option<State>,
    /// Of this channel
    #[arg(long, value_parser = channels())]
    channel: Option<Channel>,
    /// With this tag
    #[arg(long, value_parser = tag, requires = "tenant")]
    tag: Option<Tag>,
    /// Webhooks that fail or are disabled
    #[arg(long, requires = "tenant", conflicts_with_all = ["state", "channel", "tag", "limit", "all", "after"])]
    failing: bool,
    /// The most subscriptions to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List all of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only those after this one, as the end of a list says where to continue
    #[arg(long, value_name = "TENANT/ID", value_parser = position)]
    after: Option<SubscriptionKey>,
    /// Print one line of JSON for each subscription
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(crate) async fn run(mut self) -> Result<(), Failure> {
        let target = self.target.resolve().await?;
        if let Some(tenant) = self.tenant.as_ref().filter(|_| self.failing) {
            return failing::print(&target, tenant, self.json).await;
        }
        let store = target.subscriptions_without_secrets();
        let scope = match (self.tenant.take(), self.tag.take()) {
            (Some(tenant), Some(tag)) => Scope::Audience(tenant, tag),
            (Some(tenant), None) => Scope::Tenant(tenant),
            (None, _) => Scope::All,
        };
        let now = System.now();
        let mut printer = Printer::new(self.json, now);
        let mut left = if self.all { u64::MAX } else { self.limit };
        let mut after = self.after.take();
        loop {
            let page = store.page(&scope, after.as_ref()).await;
            let page = page
                .map_err(|error| AwsError::of_port(&error).failure("the subscriptions cannot be listed"))?;
            for key in &page.unreadable {
                say(&format!("{key} was written by another version, and is left out"));
            }
            for found in page.subscriptions.iter().filter(|found| self.matches(found, now)) {
                if left == 0 {
                    let last = printer.finish()?;
                    if let Some(last) = last {
                        say(&format!(
                            "there are more: continue with --after {last}, raise --limit, or pass --all"
                        ));
                    }
                    return Ok(());
                }
                printer.add(found)?;
                left -= 1;
            }
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        if printer.finish()?.is_none() {
            say("no subscriptions match");
        }
        Ok(())
    }

    fn matches(&self, found: &Subscription, now: Timestamp) -> bool {
        self.state.is_none_or(|state| found.state_at(now) == state)
            && self.channel.is_none_or(|channel| found.recipient.channel() == channel)
    }
}

/// Prints rows as they come.
struct Printer {
    json: bool,
    table: Table,
    last: Option<String>,
    now: Timestamp,
}

impl Printer {
    fn new(json: bool, now: Timestamp) -> Self {
        Self { json, table: table(width()), last: None, now }
    }

    fn add(&mut self, found: &Subscription) -> Result<(), Failure> {
        self.last = Some(format!("{}/{}", found.key.tenant, found.key.id));
        if self.json {
            print(&json_of(found, self.now).to_string())?;
            return Ok(());
        }
        self.table.add(row(found, self.now));
        if self.table.waiting() == ROWS {
            print_lines(self.table.page())?;
        }
        Ok(())
    }

    /// The position of the last one; `None` if there was none.
    fn finish(&mut self) -> Result<Option<String>, Failure> {
        print_lines(self.table.page())?;
        Ok(self.last.take())
    }
}

/// In a narrow terminal the id and the state stay longest.
fn table(terminal: Option<usize>) -> Table {
    let columns = [
        Column::text("TENANT").narrowed(2, Narrow::CutEnd),
        Column::text("ID").narrowed(5, Narrow::CutEnd),
        Column::text("STATE").toned(tone),
        Column::text("CHANNEL").narrowed(3, Narrow::LeaveOut),
        Column::text("SINCE").narrowed(1, Narrow::LeaveOut),
        Column::text("ORIGIN").narrowed(2, Narrow::LeaveOut),
        Column::text("TAGS").narrowed(4, Narrow::LeaveOut),
        Column::text("ZONE").narrowed(1, Narrow::LeaveOut),
    ];
    Table::new(columns).within(terminal)
}

fn row(found: &Subscription, now: Timestamp) -> [String; 8] {
    let tags: Vec<&str> = found.tags.iter().map(Tag::as_str).collect();
    [
        found.key.tenant.to_string(),
        found.key.id.to_string(),
        found.state_at(now).label().to_owned(),
        found.recipient.channel().label().to_owned(),
        found.created_at.map_or_else(|| "-".to_owned(), |at| relative(at, now)),
        found.recipient.endpoint().origin().as_str().to_owned(),
        if tags.is_empty() { "-".to_owned() } else { tags.join(",") },
        found.time_zone.map_or("-", Zone::name).to_owned(),
    ]
}

/// Every field is always present.
fn json_of(found: &Subscription, now: Timestamp) -> Value {
    let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
    json!({
        "tenant": found.key.tenant.as_str(),
        "id": found.key.id.as_str(),
        "kind": found.recipient.channel().label(),
        "state": found.state_at(now).label(),
        "origin": found.recipient.endpoint().origin().as_str(),
        "tags": found.tags,
        "time_zone": found.time_zone.map(Zone::name),
        "topic": found.terms.topic.as_ref().map(|topic| topic.as_str()),
        "created_at": time(found.created_at),
        "last_seen_at": time(found.last_seen_at),
        "flagged_at": time(found.flagged_at),
        "dead_letters": found.doubts.count,
        "suspect_at": time(found.doubts.suspect_at),
        "failures": found.health.failures,
        "failing_since": time(found.health.failing_since),
    })
}

fn states() -> impl clap::builder::TypedValueParser<Value = State> {
    let labels = PossibleValuesParser::new(State::ALL.map(State::label));
    labels.map(|label| State::from_label(&label).expect("invariant: it is one of the labels"))
}

fn channels() -> impl clap::builder::TypedValueParser<Value = Channel> {
    let labels = PossibleValuesParser::new([Channel::WebPush, Channel::Webhook].map(Channel::label));
    labels.map(|label| Channel::from_label(&label).expect("invariant: it is one of the labels"))
}

pub(super) fn tag(text: &str) -> Result<Tag, &'static str> {
    Tag::parse(text).ok_or("1 to 32 lower-case letters, digits, _ and -, the first a letter or a digit")
}

fn position(text: &str) -> Result<SubscriptionKey, &'static str> {
    let parsed = || {
        let (tenant, id) = text.split_once('/')?;
        Some(SubscriptionKey { tenant: Tenant::parse(tenant)?, id: SubscriptionId::parse(id)? })
    };
    parsed().ok_or("a position as the end of a list names it: TENANT/ID")
}

#[cfg(test)]
mod tests {
    use redial_core::{endpoint::Endpoint, recipient::Recipient, webhook::WebhookTarget};

    use super::*;

    #[test]
    fn a_row_and_its_json_show_no_more_than_the_origin() {
        let endpoint = Endpoint::parse("https://hooks.example/s3cret").expect("valid");
        let key = position("acme/s1").expect("valid");
        let found = Subscription::new(key, Recipient::Webhook(WebhookTarget::at(endpoint)));
        let shown = format!("{:?} {}", row(&found, System.now()), json_of(&found, System.now()));
        assert!(shown.contains("https://hooks.example") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_row_has_an_age_and_its_json_the_exact_time() {
        let endpoint = Endpoint::parse("https://hooks.example").expect("valid");
        let key = position("acme/s1").expect("valid");
        let mut found = Subscription::new(key, Recipient::Webhook(WebhookTarget::at(endpoint)));
        found.created_at = Some(Timestamp::from_secs(1_000));
        let now = Timestamp::from_secs(1_090);
        assert_eq!(row(&found, now)[4], "1m 30s ago");
        assert_eq!(json_of(&found, now)["created_at"], "1970-01-01T00:16:40.000Z");
    }

    #[test]
    fn a_position_reads_back() {
        let key = position("acme/s1").expect("valid");
        assert_eq!((key.tenant.as_str(), key.id.as_str()), ("acme", "s1"));
        for other in ["", "acme", "acme/", "ACME/s1", "acme/s 1"] {
            assert!(position(other).is_err(), "{other}");
        }
    }
}
