use std::time::Duration;

use clap::{ArgGroup, Args};
use redial_console::policies::{Overrides, named_or_file, usual_ttl};
use redial_core::{
    identity::Tenant,
    policy::{Backoff, Jitter, Policy, stored::stored_policy},
    time::Ttl,
};

use super::{
    stored,
    timetable::{Row, Timetable, WithinTtl},
};
use crate::{
    arguments,
    duration::words,
    failure::Failure,
    line::Line,
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
    #[arg(long, value_name = "EVENT_TYPE", requires = "tenant", conflicts_with = "name", value_parser = arguments::topic)]
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

pub(super) fn lines(policy: &Policy, timetable: &Timetable, ttl: Ttl, cut: bool) -> Vec<Line> {
    let mut lines = vec![Line::from(&policy.name)];
    if let Some(description) = &policy.description {
        lines.push(format!("  {description}").into());
    }
    lines.push(format!("  {}", summary(policy)).into());
    if policy.max_delay_ttl_fraction.is_some() && !cut && ttl != Ttl::UNLIMITED {
        lines.push(format!("  shown for a TTL of {}; --ttl shows another", words(ttl.duration())).into());
    }
    if timetable.rows.is_empty() {
        return lines;
    }
    lines.push(Line::default());
    let headings = ["delay", "mean", "since the first failure", "mean", "waits in", ""].map(Column::text);
    let columns = [Column::number("retry")].into_iter().chain(headings);
    lines.extend(Table::new(columns).with(timetable.rows.iter().map(cells)).lines());
    lines.push(Line::default());
    lines.push(ending(timetable).into());
    lines
}

fn cells(row: &Row) -> [String; 7] {
    [
        row.retry.to_string(),
        range(row.delay.min, row.delay.max),
        words(row.delay.mean),
        range(row.elapsed.min, row.elapsed.max),
        words(row.elapsed.mean),
        row.road.names().1.to_owned(),
        row.within_ttl.map_or("", |within| within.names().1).to_owned(),
    ]
}

fn ending(table: &Timetable) -> String {
    let after = match table.rows.iter().find(|row| row.within_ttl == Some(WithinTtl::Never)) {
        Some(row) if row.retry == 1 => "After the first failure".to_owned(),
        Some(row) => format!("After retry {} at the latest", row.retry - 1),
        None => {
            let times = range(table.window().min, table.window().max);
            return format!(
                "If the last retry fails, {times} after the first failure, the message is a dead letter: retries_exhausted."
            );
        }
    };
    format!("{after} the message is a dead letter: ttl_exceeded.")
}

fn range(min: Duration, max: Duration) -> String {
    if min == max { words(min) } else { format!("{} to {}", words(min), words(max)) }
}

/// A policy in one line.
pub(super) fn summary(policy: &Policy) -> String {
    let Some(retries) = &policy.retries else { return "no retries, and no dead letter".to_owned() };
    let backoff = match &retries.backoff {
        Backoff::Exponential(backoff) => {
            let [base, most] = [backoff.base_delay, backoff.max_delay].map(words);
            format!("{base} · {}^(retry - 1), at most {most}", backoff.multiplier)
        }
        Backoff::Schedule(_) => "a list of delays".to_owned(),
        Backoff::WaitFactor(factor) => {
            let f = factor.hundredths();
            format!("{f}/100 · 30s + 2^(retry · {f}/100)s")
        }
    };
    let plural = if retries.max_retries == 1 { "retry" } else { "retries" };
    let jitter = match retries.jitter {
        Jitter::Full => "full jitter".to_owned(),
        Jitter::Equal => "equal jitter".to_owned(),
        Jitter::Additive { fraction } => format!("up to {} of it added", percent(fraction)),
        Jitter::Bounded { ms } => format!("up to {} added", words(Duration::from_millis(ms))),
        Jitter::WholeSeconds { most } => format!("0 to {most} whole seconds added"),
        Jitter::None => "no jitter".to_owned(),
    };
    let mut parts = vec![format!("{} {plural}", retries.max_retries), backoff, jitter];
    if let Some(fraction) = policy.max_delay_ttl_fraction {
        parts.push(format!("no delay over {} of the TTL", percent(fraction)));
    }
    if !policy.retry_in_doubt {
        parts.push("no repeat of what may have arrived".to_owned());
    }
    for (what, statuses) in [("also retried", &policy.retryable), ("never retried", &policy.permanent)] {
        if !statuses.is_empty() {
            let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
            parts.push(format!("{what}: {}", statuses.join(" ")));
        }
    }
    parts.join("; ")
}

/// `30%`, `12.5%`: to the tenth.
fn percent(fraction: f64) -> String {
    format!("{}%", (fraction * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use redial_core::policy::catalogue;

    use super::*;

    #[test]
    fn every_preset_has_a_summary_of_one_line() {
        for named in catalogue::presets().entries() {
            let line = summary(&named.policy);
            assert!(!line.is_empty() && !line.contains('\n'), "{line}");
        }
        for (name, line) in [
            ("otp", "3 retries; 2s · 2^(retry - 1), at most 2m; full jitter; no delay over 50% of the TTL"),
            ("wait-factor", "15 retries; 100/100 · 30s + 2^(retry · 100/100)s; 0 to 59 whole seconds added"),
        ] {
            assert_eq!(summary(catalogue::presets().get(name).expect("a preset")), line);
        }
    }
}
