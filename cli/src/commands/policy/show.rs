//! `redial policy show NAME`.

use clap::{ArgGroup, Args};
use redial_core::{
    identity::Tenant,
    policy::{Policy, stored},
    time::Ttl,
};

use super::super::ids;
use super::tenant;
use crate::{
    failure::Failure,
    policy::{Overrides, Row, Timetable, WithinTtl, duration, named_or_file, summary, usual_ttl},
    table::{Column, Table},
    target::TargetArgs,
    terminal::{print, say},
};

/// Shows when a policy retries: each delay's range and mean, the time since the first failure, and where the message waits
///
/// Times are counted from the first failure, as if attempts took no time. With --ttl it says where the end of the TTL cuts
/// the retries off. A Retry-After takes the place of the delay that is shown.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(["name", "tenant"]).required(true), after_help = "\
Examples:
  redial policy show web-push
  redial policy show otp --ttl 60 --json
  redial policy show wait-factor --f 150 --max-retries 15 --no-jitter
  redial policy show ./mine.json
  redial policy show --tenant acme --topic order.created")]
pub(crate) struct Show {
    /// A policy's name, or a file: with a / in its path, ending in .json, or - for standard input
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The policy that is stored for this tenant
    #[arg(long, value_parser = ids::tenant)]
    tenant: Option<Tenant>,
    /// The one for messages of this event_type
    #[arg(long, value_name = "EVENT_TYPE", requires = "tenant", value_parser = ids::topic)]
    topic: Option<String>,
    /// Seconds that the message is worth delivering: says where they end the retries
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=31_536_000))]
    ttl: Option<u32>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    target: TargetArgs,
}

impl Show {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let policy = match (&self.name, &self.tenant) {
            (Some(name), _) => named_or_file(name)?,
            (None, Some(tenant)) => self.stored(tenant).await?,
            (None, None) => return Err(Failure::input("expected a policy's NAME, or --tenant")),
        };
        let policy = self.overrides.apply(policy)?;
        let ttl = self.ttl.map_or_else(|| usual_ttl(&policy), Ttl::from_secs);
        let table = Timetable::of(&policy, ttl, self.ttl.is_some());
        if self.json {
            return Ok(print(&table.to_json(&policy.name).to_string())?);
        }
        lines(&policy, &table, ttl, self.ttl.is_some()).iter().try_for_each(|line| print(line))?;
        Ok(())
    }

    async fn stored(&self, tenant: &Tenant) -> Result<Policy, Failure> {
        let slot = tenant::slot(self.topic.as_deref());
        let stored = tenant::store(&self.target.resolve().await?).stored(tenant).await?;
        let Some(found) = stored.into_iter().find(|it| it.slot == slot) else {
            say(&format!("nothing is stored for {}", tenant::words(tenant, &slot)));
            return Err(Failure::Reported);
        };
        match stored::stored_policy(&found.policy, &slot) {
            Ok(policy) => Ok(Policy::clone(&policy)),
            Err(errors) => {
                say(&format!(
                    "what is stored for {} is no policy, and not followed:",
                    tenant::words(tenant, &slot)
                ));
                errors.iter().for_each(|error| say(&format!("  {error}")));
                Err(Failure::Reported)
            }
        }
    }
}

/// The table as people read it.
pub(super) fn lines(policy: &Policy, timetable: &Timetable, ttl: Ttl, cut: bool) -> Vec<String> {
    let mut lines = vec![policy.name.clone()];
    if let Some(description) = &policy.description {
        lines.push(format!("  {description}"));
    }
    lines.push(format!("  {}", summary(policy)));
    if policy.max_delay_ttl_fraction.is_some() && !cut && ttl != Ttl::UNLIMITED {
        lines.push(format!("  shown for a TTL of {}; --ttl shows another", duration(ttl.duration())));
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
    let range =
        |min, max| if min == max { duration(min) } else { format!("{} to {}", duration(min), duration(max)) };
    [
        row.retry.to_string(),
        range(row.delay.min, row.delay.max),
        duration(row.delay.mean),
        range(row.elapsed.min, row.elapsed.max),
        duration(row.elapsed.mean),
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
        Some(row) if row.retry == 1 => "A first failure is a dead letter: ttl_exceeded.".to_owned(),
        Some(row) => {
            format!("After retry {} at the latest it is a dead letter: ttl_exceeded.", row.retry - 1)
        }
        None => {
            let window = table.window();
            let times = if window.min == window.max {
                format!("{} after the first failure", duration(window.max))
            } else {
                format!("{} to {} after the first failure", duration(window.min), duration(window.max))
            };
            format!("If the last retry fails, {times}, it is a dead letter: retries_exhausted.")
        }
    }
}
