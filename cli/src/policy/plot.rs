use std::{path::PathBuf, time::Duration};

use clap::Args;
use redial_console::policies::{Overrides, named_or_file, usual_ttl};
use redial_core::time::Ttl;
use redial_simulator::plot::{RetryWindow, TimelineRow, check_name, timeline};

use super::timetable::Timetable;
use crate::{failure::Failure, terminal::say};

/// Draws when policies retry: the window of each retry, its mean, and where a TTL ends the retries
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy plot web-push -o web-push.svg
  redial policy plot web-push additive fixed-jitter push-gateway \\
    -o compared.svg
  redial policy plot ./mine.json wait-factor --ttl 86400 -o day.svg")]
pub(crate) struct Plot {
    /// Policies by name, or files: paths with a / or ending in .json
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Where to write the picture: a name that ends in .svg
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The message's TTL in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=31_536_000))]
    ttl: Option<u32>,
    #[command(flatten)]
    overrides: Overrides,
}

impl Plot {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        check_name(&self.output)?;
        let rows = self.names.iter().map(|name| self.row(name)).collect::<Result<Vec<_>, _>>()?;
        let picture = timeline(&rows, self.ttl.map(|ttl| Duration::from_secs(ttl.into())));
        std::fs::write(&self.output, picture).map_err(|error| {
            Failure::input(format!("{} cannot be written: {error}", self.output.display()))
        })?;
        say(&format!("{} written", self.output.display()));
        Ok(())
    }

    fn row(&self, name: &str) -> Result<TimelineRow, Failure> {
        let policy = self.overrides.apply(named_or_file(name)?)?;
        let ttl = self.ttl.map_or_else(|| usual_ttl(&policy), Ttl::from_secs);
        let windows = Timetable::of(&policy, ttl, false)
            .rows
            .iter()
            .map(|row| RetryWindow {
                retry: row.retry,
                earliest: row.elapsed.min,
                latest: row.elapsed.max,
                mean: row.elapsed.mean,
            })
            .collect();
        Ok(TimelineRow { name: policy.name, windows })
    }
}
