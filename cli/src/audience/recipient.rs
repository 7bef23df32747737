use clap::Args;
use redial_adapters::audiences_dynamo::OnPage;
use redial_core::{identity::SubscriptionId, ledger::Entry, page::Sheet};
use redial_engine::ports::Deliveries as _;
use serde_json::json;

use super::progress::Which;
use crate::{arguments, failure::Failure, stack::OnStack};

/// Shows what became of one recipient of a message to an audience
///
/// A recipient that is sent to by the page (AudiencePages) has no entry of its own in the ledger if it accepted the message: its page says
/// so. Any other has one, which `redial status` shows by the delivery's id.
///
/// Exit status 1: no such message was found, or that subscription is not among its recipients, or not yet.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial audience recipient autumn-2026 s-4711 --tenant acme
  redial audience recipient autumn-2026 s-4711 --tenant acme --json | jq -r .state")]
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
        let own = target.deliveries().find(&delivery).await?.map(|record| record.entry);
        let Some(state) = state(own.as_ref(), on_page.as_ref()) else {
            let unknown = format!("{subscription} is not a recipient of {}, or not yet", which.id);
            return Err(Failure::reported(&unknown));
        };
        let place = on_page.map(|it| it.place);
        on.print(
            || json!({"delivery": delivery.id, "state": state, "place": place, "has_entry": own.is_some()}),
            || {
                let mut lines = vec![format!("{state}: delivery {}", delivery.id)];
                lines.extend(own.is_some().then(|| {
                    format!("see       redial status {} --tenant {}", delivery.id, delivery.tenant)
                }));
                lines
            },
        )
    }
}

/// By its own entry, else by what its page's sheet says; `None` if there is neither.
fn state(own: Option<&Entry>, on_page: Option<&OnPage>) -> Option<&'static str> {
    let of_page = |OnPage { place, sheet }: &OnPage| {
        let Sheet { sent, started, .. } = sheet;
        if sent.contains(*place) {
            "sent"
        } else if started.contains(*place) {
            "sending"
        } else {
            "queued"
        }
    };
    own.map(|entry| entry.state.label()).or_else(|| on_page.map(of_page))
}

#[cfg(test)]
mod tests {
    use redial_core::page::Places;

    use super::*;

    #[test]
    fn a_recipient_without_an_entry_is_as_its_page_says() {
        let places = |place: usize| [place].into_iter().collect::<Places>();
        let sheet = Sheet { sent: places(0), started: places(1), ..Sheet::default() };
        let of = |place| state(None, Some(&OnPage { place, sheet }));
        assert_eq!([of(0), of(1), of(2)], [Some("sent"), Some("sending"), Some("queued")]);
        assert_eq!(state(None, None), None);
    }
}
