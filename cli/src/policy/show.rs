use clap::{ArgGroup, Args};
use redial_console::policies::{Overrides, named_or_file, usual_ttl};
use redial_core::{
    identity::Tenant,
    policy::{Policy, stored::stored_policy},
    time::Ttl,
};

use super::{
    stored,
    summary::summary,
    timetable::{Row, Timetable, WithinTtl},
};
use crate::{
    arguments,
    duration::words,
    failure::Failure,
    stack::OnStack,
    table::{Column, Table},
    terminal::say,
};

/// Shows when a policy retries: each delay's range and mean, the time since the first failure, and where the message waits
///
/// Times count from the first failure, as if attempts took no time. With --ttl the table shows where the TTL ends the
/// retries. A Retry-After replaces the delay that is shown.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(["name", "tenant"]).required(true), after_help = "\
Examples:
  redial policy show web-push
  redial policy show otp --ttl 60 --json
  redial policy show wait-factor --f 150 --max-retries 15 --no-jitter
  redial policy show ./mine.json
  redial policy show --tenant acme --topic order.created")]
pub(crate) struct Show {
    /// A policy's name, or a file: a path with a / or ending in .json, or - for standard input
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The policy stored for this tenant
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Option<Tenant>,
    /// The policy for messages of this event_type
    #[arg(long, value_name = "EVENT_TYPE", requires = "tenant", value_parser = arguments::topic)]
    topic: Option<String>,
    /// The message's TTL in seconds: shows where it ends the retries
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=31_536_000))]
    ttl: Option<u32>,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    on: OnStack,
}

impl Show {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let policy = match (&self.name, &self.tenant) {
            (Some(name), _) => named_or_file(name)?,
            (None, Some(tenant)) => self.stored(tenant).await?,
            (None, None) => return Err(Failure::input("expected a policy's NAME, or --tenant")),
        };
        let policy = self.overrides.apply(policy)?;
        let ttl = self.ttl.map_or_else(|| usual_ttl(&policy), Ttl::from_secs);
        let table = Timetable::of(&policy, ttl, self.ttl.is_some());
        self.on.print(|| table.to_json(&policy.name), || lines(&policy, &table, ttl, self.ttl.is_some()))
    }

    async fn stored(&self, tenant: &Tenant) -> Result<Policy, Failure> {
        let slot = stored::slot(self.topic.as_deref());
        let stored = self.on.target().await?.policies().stored(tenant).await?;
        let words = stored::words(tenant, &slot);
        let Some(found) = stored.into_iter().find(|found| found.slot == slot) else {
            return Err(Failure::reported(&format!("no policy is stored for {words}")));
        };
        stored_policy(&found.policy, &slot).map(|policy| Policy::clone(&policy)).map_err(|errors| {
            say(&format!("the policy stored for {words} is invalid, and ignored:"));
            errors.iter().for_each(|error| say(&format!("  {error}")));
            Failure::Reported
        })
    }
}

pub(super) fn lines(policy: &Policy, timetable: &Timetable, ttl: Ttl, cut: bool) -> Vec<String> {
    let mut lines = vec![policy.name.clone()];
    if let Some(description) = &policy.description {
        lines.push(format!("  {description}"));
    }
    lines.push(format!("  {}", summary(policy)));
    if policy.max_delay_ttl_fraction.is_some() && !cut && ttl != Ttl::UNLIMITED {
        lines.push(format!("  shown for a TTL of {}; --ttl shows another", words(ttl.duration())));
    }
    if timetable.rows.is_empty() {
        return lines;
    }
    lines.push(String::new());
    let headings = ["delay", "mean", "since the first failure", "mean", "waits in", ""].map(Column::text);
    let columns = [Column::number("retry")].into_iter().chain(headings);
    lines.extend(Table::new(columns).with(timetable.rows.iter().map(cells)).lines());
    lines.push(String::new());
    lines.push(ending(timetable));
    lines
}

fn cells(row: &Row) -> [String; 7] {
    let range = |min, max| if min == max { words(min) } else { format!("{} to {}", words(min), words(max)) };
    [
        row.retry.to_string(),
        range(row.delay.min, row.delay.max),
        words(row.delay.mean),
        range(row.elapsed.min, row.elapsed.max),
        words(row.elapsed.mean),
        row.road.words().to_owned(),
        row.within_ttl.map_or("", note).to_owned(),
    ]
}

const fn note(within: WithinTtl) -> &'static str {
    match within {
        WithinTtl::Always => "",
        WithinTtl::Sometimes => "if the TTL is not over",
        WithinTtl::Never => "never: the TTL is over",
    }
}

fn ending(table: &Timetable) -> String {
    let cut = table.rows.iter().find(|row| row.within_ttl == Some(WithinTtl::Never));
    match cut {
        Some(row) if row.retry == 1 => {
            "After the first failure the message is a dead letter: ttl_exceeded.".to_owned()
        }
        Some(row) => {
            format!("After retry {} at the latest the message is a dead letter: ttl_exceeded.", row.retry - 1)
        }
        None => {
            let window = table.window();
            let times = if window.min == window.max {
                format!("{} after the first failure", words(window.max))
            } else {
                format!("{} to {} after the first failure", words(window.min), words(window.max))
            };
            format!("If the last retry fails, {times}, the message is a dead letter: retries_exhausted.")
        }
    }
}
