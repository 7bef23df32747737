//! `redial doctor`.

use clap::Args;

use crate::{
    doctor,
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// Examines a stack and says what is wrong with it, and what to do about each thing
///
/// It reads and changes nothing: the functions' environments, time-outs and states; the queues' attributes; the event source
/// mappings; the keys, which it never shows; the tables; the waits; the alarms; breakers and limits; and this machine's clock.
///
/// Of the account it reads the concurrent executions that the mappings need, the functions' recursion setting, tables that
/// DynamoDB throttled in the last hour, functions that cannot start on their processor architecture, KMS keys of queues and
/// secrets, and the template's size against CloudFormation's quotas.
///
/// A fault is what loses, delays or refuses messages, now or when something else goes wrong. A warning is worth a look. What
/// you may not read is told with the permission that is missing, and is neither. The same goes for an operation that an emulator
/// or a region does not have.
///
/// Exit status 1: there is a fault.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial doctor --stack redial
  redial doctor --stack redial && ./announce-the-campaign
  redial doctor --json | jq -r '.checks[].findings[] | select(.severity == \"fault\") | .found, .do'

What it says of a queue whose attributes were changed by hand:
  fault    queues         the visibility time-out of the ingest queue is 45 s, and dispatch may run for 30 s
                          do: set it to 180 s, six times the function's time-out (the template's VisibilityTimeout)")]
pub(crate) struct Doctor {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Doctor {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let diagnosis = doctor::examine(self.target.resolve().await?).await;
        if self.json {
            print(&diagnosis.to_json().to_string())?;
        } else {
            diagnosis.lines().iter().try_for_each(|line| print(line))?;
            say(&diagnosis.summary());
        }
        if diagnosis.has_faults() { Err(Failure::Reported) } else { Ok(()) }
    }
}
