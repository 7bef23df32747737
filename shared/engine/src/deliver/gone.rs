//! Endpoints that are gone: a 410 switches the subscription off before its message is acknowledged, and a 404 is left to cleanup to
//! confirm. Both send a reference without a body.

use super::acknowledgements::{Acknowledgements, send};
use super::dead_letters;
use super::health;
use super::job::Job;
use super::planned::Facts;
use crate::ports::{Outbox, Subscriptions, Telemetry};
use redial_core::subscription::State;
use redial_core::time::Timestamp;

/// Hands these off; each with whether its end is confirmed.
pub(super) async fn hand_off(
    subscriptions: &impl Subscriptions,
    outbox: &impl Outbox,
    telemetry: &impl Telemetry,
    mut gone: Vec<(Job, bool, Facts)>,
    now: Timestamp,
) -> Acknowledgements {
    let mut acknowledgements = Acknowledgements::default();
    let confirmed = gone.iter().filter(|(_, confirmed, _)| *confirmed);
    let updates = confirmed.filter_map(|(job, _, _)| Some((job.place, health::update(job, now)?))).collect();
    for (place, _, done) in health::switch_off(subscriptions, updates, State::Gone).await {
        if let Err(error) = done {
            acknowledgements.failed(place, error, telemetry);
            gone.retain(|(job, _, _)| job.place != place);
        }
    }
    let reference = |(job, confirmed, facts): &(Job, bool, Facts)| {
        (job.place, dead_letters::reference_to_gone(job, *confirmed, facts, now))
    };
    acknowledgements.extend(send(outbox, telemetry, gone.iter().map(reference).collect()).await);
    acknowledgements
}
