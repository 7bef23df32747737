//! `redial status ID --tenant T`.

use std::time::Duration;

use clap::Args;
use redial_core::identity::DeliveryId;

use super::ids;
use crate::{
    failure::Failure,
    status::{Lookup, Standing},
    target::TargetArgs,
    terminal::{print, say},
};

/// How often a delivery is looked at while one waits for its end: soon at first, then at leisure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Shows where a delivery stands
///
/// ID is what `redial send` printed: the message's own id, the one that follows from its idempotency key, or the SQS
/// MessageId. A delivery is known from its first attempt on, and for 15 days after its last change; a message that could
/// not be read is known by its dead letter.
///
/// Exit status 1: nothing is known of that id, or --wait was over before the delivery had ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial status order-17 --tenant acme
  redial status order-17 --tenant acme --wait 60 --json | jq -r .state
  redial status 0f3c9a52-5bb2-4d5c-9a53-1a8a1a0c2c11 --tenant _unknown --stack redial")]
pub(crate) struct Status {
    /// The delivery's id
    #[arg(value_name = "ID", value_parser = ids::delivery)]
    id: DeliveryId,
    /// Whose it is; _unknown where a body was so broken that no tenant could be read
    #[arg(long, value_parser = ids::tenant_or_unknown)]
    tenant: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Wait so many seconds at most until it has ended
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    #[command(flatten)]
    target: TargetArgs,
}

impl Status {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let lookup = Lookup::new(&self.target.resolve().await?);
        let Some(seconds) = self.wait else {
            return match lookup.standing(&self.tenant, &self.id).await? {
                Some(standing) => self.show(&standing),
                None => self.unknown(),
            };
        };
        let mut last = None;
        let ended = self.ended(&lookup, &mut last);
        let ended = tokio::time::timeout(Duration::from_secs(seconds), ended).await;
        match (ended, last) {
            (Ok(Err(failure)), _) => Err(failure),
            (Ok(Ok(standing)), _) => self.show(&standing),
            (Err(_), Some(standing)) => {
                self.show(&standing)?;
                say(&format!("it has not ended within {seconds} s"));
                Err(Failure::Told)
            }
            (Err(_), None) => self.unknown(),
        }
    }

    /// Looks until it has ended; what was seen until then is left in `last`.
    async fn ended(&self, lookup: &Lookup, last: &mut Option<Standing>) -> Result<Standing, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            match lookup.standing(&self.tenant, &self.id).await? {
                Some(standing) if standing.is_final() => return Ok(standing),
                Some(standing) => *last = Some(standing),
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
        }
    }

    fn show(&self, standing: &Standing) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&standing.to_json().to_string())?);
        }
        standing.lines().iter().try_for_each(|line| print(line)).map_err(Failure::from)
    }

    fn unknown(&self) -> Result<(), Failure> {
        say(&format!("nothing is known of {}#{}:", self.tenant, self.id));
        say(
            "  it was not attempted yet (on its queue, or parked for its deliver_at), never sent, or is forgotten",
        );
        Err(Failure::Told)
    }
}
