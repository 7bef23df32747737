//! `redial subscriptions prune`: an operator confirms that the subscriptions in quarantine are gone.

use clap::Args;
use indicatif::ProgressBar;
use redial_adapters::{
    subscriptions_dynamo::{DynamoSubscriptions, Scope},
    system::System,
};
use redial_core::{
    identity::Tenant,
    subscription::{State, Subscription},
    tag::Tag,
};
use redial_engine::ports::{Clock as _, PortError, SubscriptionUpdate};
use serde_json::json;

use super::list::tag;
use crate::{
    arguments,
    aws_error::AwsError,
    confirm::Confirm,
    counted::counted,
    failure::Failure,
    stack::OnStack,
    terminal::{bar, say},
};

/// Confirms that a tenant's subscriptions in quarantine are gone, so that they are removed
///
/// The endpoints of these answered that they are gone, an unusual number of them together, and were kept in case it was an error of their push
/// service. If it was none, this command marks them as gone, and the next daily walk of cleanup removes and announces them, as `pruned`. If
/// it was an error, `redial subscriptions enable` sends to one of them again.
///
/// The command shows their number, and asks for confirmation. Any answer but yes changes nothing, with exit status 1. Without a terminal it
/// requires --yes, else the exit status is 2. It can be interrupted and repeated: what is confirmed stays so, and what a browser has submitted
/// with another endpoint in the meantime is left alone. The table is read twice, to count and to confirm: no index leads to a tenant's
/// subscriptions. With --tag only those with the tag are read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions list --tenant acme --state quarantined
  redial subscriptions prune --tenant acme --dry-run
  redial subscriptions prune --tenant acme --yes --json | jq .confirmed")]
pub(crate) struct Prune {
    /// The tenant that they belong to
    #[arg(long, value_parser = arguments::tenant)]
    tenant: Tenant,
    /// Only those with this tag
    #[arg(long, value_parser = tag)]
    tag: Option<Tag>,
    /// Count them, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Prune {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if !self.dry_run {
            self.confirm.is_possible("confirm them as gone")?;
        }
        let target = self.on.target().await?;
        let store = target.subscriptions_without_secrets();
        let scope = match self.tag.clone() {
            Some(tag) => Scope::Audience(self.tenant.clone(), tag),
            None => Scope::Tenant(self.tenant.clone()),
        };
        let mut found = 0;
        each(&store, &scope, async |_| {
            found += 1;
            Ok(())
        })
        .await
        .map_err(|error| failed(&error))?;
        if found == 0 {
            say(&format!("no subscriptions of {} are in quarantine", self.tenant));
            return self.print(0, 0);
        }
        if self.dry_run {
            return self.print(found, 0);
        }
        let question = format!(
            "Confirm that {} of {} in {} are gone, so that they are removed?",
            subscriptions(found),
            self.tenant,
            target.name
        );
        self.confirm.ask(&question, "nothing was changed")?;
        let bar = bar(found, "confirming");
        let mut confirmed = 0;
        let done = confirm_all(&store, &scope, &mut confirmed, &bar).await;
        bar.finish_and_clear();
        // What was confirmed before an error is reported too.
        self.print(found, confirmed)?;
        done.map_err(|error| failed(&error))
    }

    fn print(&self, found: u64, confirmed: u64) -> Result<(), Failure> {
        let tenant = self.tenant.as_str();
        self.on.print(
            || json!({"tenant": tenant, "quarantined": found, "confirmed": confirmed, "dry_run": self.dry_run}),
            || match (self.dry_run, found) {
                (_, 0) => Vec::new(),
                (true, _) => vec![format!("{} of {tenant} in quarantine", subscriptions(found))],
                (false, _) => vec![format!("{} of {tenant} confirmed as gone", subscriptions(confirmed))],
            },
        )
    }
}

fn failed(error: &PortError) -> Failure {
    AwsError::of_port(error).failure("the subscriptions in quarantine cannot be confirmed as gone")
}

/// Does this to each of them that is in quarantine, page by page.
async fn each(
    store: &DynamoSubscriptions,
    scope: &Scope,
    mut act: impl AsyncFnMut(Subscription) -> Result<(), PortError>,
) -> Result<(), PortError> {
    let mut after = None;
    loop {
        let page = store.page(scope, after.as_ref()).await?;
        for found in page.subscriptions {
            if found.state == State::Quarantined {
                act(found).await?;
            }
        }
        let Some(next) = page.next else { return Ok(()) };
        after = Some(next);
    }
}

/// Counts in `confirmed` as it goes.
async fn confirm_all(
    store: &DynamoSubscriptions,
    scope: &Scope,
    confirmed: &mut u64,
    bar: &ProgressBar,
) -> Result<(), PortError> {
    each(store, scope, async |found| {
        let endpoint = found.recipient.endpoint().clone();
        let update = SubscriptionUpdate { key: found.key, endpoint, at: System.now() };
        *confirmed += u64::from(store.confirm_gone(&update).await?);
        bar.inc(1);
        Ok(())
    })
    .await
}

fn subscriptions(number: u64) -> String {
    counted(number, "subscription", "subscriptions")
}
