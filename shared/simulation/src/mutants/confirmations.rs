//! Endpoints in quarantine of which an operator said that they are gone.

use super::mutant::Mutant;

const WALK: &str = "shared/engine/src/cleanup/walk.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "what was confirmed as gone stays",
        rule: "the walk of the day removes what was confirmed as gone",
        file: WALK,
        find: "return self.remove_ended(&found, Reason::Gone, &mut swept.pruned).await;",
        replace: "return Ok(());",
    },
    Mutant {
        name: "subscriptions are walked once",
        rule: "the walk of the day removes what was confirmed as gone",
        file: WALK,
        find: "now.since(known.began_at) < EVERY",
        replace: "now.since(known.began_at) < EVERY * 100",
    },
    Mutant {
        name: "what was confirmed as gone is removed without an event",
        rule: "a removed subscription is announced",
        file: "shared/engine/src/cleanup/removed.rs",
        find: "true => outbox.send(removed.iter().map(event).collect()).await,",
        replace: "true => removed.iter().map(|it| drop(event(it))).map(Ok).collect(),",
    },
    Mutant {
        name: "what was confirmed as gone is announced for another reason",
        rule: "a removed subscription is announced",
        file: WALK,
        find: "return self.remove_ended(&found, Reason::Gone, &mut swept.pruned).await;",
        replace: "return self.remove_ended(&found, Reason::SubscriptionStale, &mut swept.stale).await;",
    },
    Mutant {
        name: "who subscribes again stays confirmed as gone",
        rule: "a browser that subscribes again is sent to",
        file: "shared/core/src/subscription/renewal.rs",
        find: "if goes_on { before.clone() } else { Subscription::new(self.key.clone(), recipient.clone()) };",
        replace: "if goes_on || before.gone_confirmed_at.is_some() { before.clone() } else { Subscription::new(self.key.clone(), recipient.clone()) };",
    },
];
