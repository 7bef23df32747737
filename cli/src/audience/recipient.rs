use clap::Args;
use redial_adapters::system::System;
use redial_core::{ack::AckEvent, identity::SubscriptionId, ledger::Entry, time::Timestamp};
use redial_engine::ports::{Acks as _, Clock as _, Deliveries as _, OnPage};
use serde_json::json;

use super::progress::Which;
use crate::{arguments, failure::Failure, stack::OnStack};

/// Shows what became of one recipient of a message to an audience
///
/// By the message and the subscription; `redial status` shows more, by the id of the recipient's delivery, which is printed. A recipient
/// that is sent to by the page (AudiencePages) has no entry of its own in the ledger if it accepted the message: its page says so.
///
/// Exit status 1: no such message was found, or that subscription is not among its recipients, or not yet, or was erased.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial audience recipient autumn-2026 s-4711 --tenant acme
  redial audience recipient autumn-2026 s-4711 --tenant acme --json \\
    | jq -r .state")]
pub(crate) struct Recipient {
    #[command(flatten)]
    which: Which,
    /// The id of the subscription
    #[arg(value_name = "SUBSCRIPTION", value_parser = arguments::subscription)]
    subscription: SubscriptionId,
    #[command(flatten)]
    on: OnStack,
}

impl Recipient {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let Self { which, subscription, on } = self;
        let found = target.audiences().recipient(&which.key(), &subscription).await?;
        let Some((delivery, on_page)) = found else { return Err(which.unknown()) };
        let unknown = || {
            let words =
                format!("{subscription} is not a recipient of {}, or not yet, or was erased", which.id);
            Failure::reported(&words)
        };
        let own = target.deliveries().find(&delivery).await?;
        let mut acknowledged = own.as_ref().map(|record| record.acknowledged.clone()).unwrap_or_default();
        if on_page.is_some() {
            // `None` of a person who was erased.
            let apart = target.acks().acknowledged(&delivery, System.now()).await?;
            acknowledged.extend(apart.ok_or_else(unknown)?);
        }
        let own = own.map(|record| record.entry);
        let state = state(own.as_ref(), on_page.as_ref()).ok_or_else(unknown)?;
        let first = |event| acknowledged.iter().find(|(of, _)| *of == event).map(|(_, at)| *at);
        let time = |event| first(event).map(Timestamp::to_rfc3339);
        on.print(
            || {
                json!({
                    "delivery": delivery.id,
                    "state": state,
                    "place": on_page.as_ref().map(|it| it.place),
                    "has_entry": own.is_some(),
                    "displayed_at": time(AckEvent::Displayed),
                    "clicked_at": time(AckEvent::Clicked),
                    "closed_at": time(AckEvent::Closed),
                })
            },
            || {
                let mut lines = vec![format!("{state}: delivery {}", delivery.id)];
                for event in AckEvent::ALL {
                    lines.extend(time(event).map(|at| format!("{:<10}{at}", event.label())));
                }
                let which = arguments::id_of(&delivery.id, delivery.tenant.as_str());
                lines.push(format!("see       redial status {which}"));
                lines
            },
        )
    }
}

/// By its own entry, else by what its page says; `None` if there is neither.
fn state(own: Option<&Entry>, on_page: Option<&OnPage>) -> Option<&'static str> {
    own.map(|entry| entry.state).or_else(|| on_page.map(OnPage::state)).map(|state| state.label())
}
