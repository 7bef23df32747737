use clap::Args;
use redial_core::{
    erasure::{At, Counts},
    identity::Tenant,
};
use serde_json::json;

use super::subject::{SubjectArgs, persons};
use crate::{
    arguments,
    aws_error::AwsError,
    failure::Failure,
    stack::TargetArgs,
    terminal::{bar, print, say},
};

/// Items that are read at once.
const PAGE: u16 = 500;

/// Prints everything that is kept about a subscription, or about messages with a ref, as lines of JSON
///
/// Each line is {"table", "kind", "item"}: the subscription with its endpoint and keys, deliveries, dead letters and parked messages with their
/// bodies, tags, audiences it was a recipient of, acknowledgements, and what protects its receiver. A webhook's secrets stay sealed. The
/// output is the person's: keep it like the tables.
///
/// No index leads from a person to what is kept, so every table is read: half a read unit for every 2 KB. The ref of a message is in its
/// body alone: a delivery that has ended, and left no dead letter, is found by its subscription, and not by its ref. Messages on queues
/// cannot be read. infra/docs/erasure.md has the rest.
#[derive(Debug, Args)]
#[command(
    override_usage = "\
redial subscriptions export [OPTIONS] --tenant <TENANT>
         <--subscription <ID>|--ref <REF>>",
    after_help = "\
Examples:
  redial subscriptions export --tenant acme --subscription s1 > s1.ndjson
  redial subscriptions export --tenant acme --ref user-4711 \\
    | jq -r .kind | sort | uniq -c"
)]
pub(crate) struct Export {
    /// The tenant
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    target: TargetArgs,
}

impl Export {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.target.resolve().await?;
        let (person, _) = self.subject.person(self.tenant, &target).await?;
        let store = persons(&target);
        let failed = |error| AwsError::of_port(&error).failure("the tables cannot be searched");
        let bar = bar(store.items().await.map_err(failed)?, "searching");
        let (mut next, mut counts) = (Some(At::start()), Counts::default());
        while let Some(at) = next {
            let page = store.page(&person, &at, PAGE).await.map_err(failed)?;
            bar.inc(page.read);
            for found in &page.found {
                let line =
                    json!({"table": found.place.label(), "kind": found.kind.label(), "item": found.shown});
                print(&line.to_string())?;
                counts.add(found.kind);
            }
            next = page.next;
        }
        bar.finish_and_clear();
        if counts.total() == 0 {
            say("nothing is kept");
        }
        Ok(())
    }
}
