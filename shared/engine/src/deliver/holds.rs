//! Noting and logging what is held back, so that it can be found while it waits. It is for operators alone: where the note cannot be written, the
//! message goes on all the same.

use std::collections::BTreeSet;

use super::acknowledgements::Acknowledgements;
use super::job::Job;
use super::planned::Planned;
use super::worker::{Ports, Worker};
use crate::ports::{Clock, HeldEvent, Ledger, Telemetry};
use redial_core::ledger::HeldBy;
use redial_core::ledger::hold::Hold;
use redial_core::time::Timestamp;

impl<P: Ports> Worker<P> {
    /// Notes why these wait and until when, and hands them off.
    pub(super) async fn hold_back(&self, later: Vec<Planned>) -> Acknowledgements {
        let mut keys = BTreeSet::new();
        let mut holds = Vec::new();
        for planned in &later {
            let Some(hold) = hold_of(planned).filter(|hold| keys.insert(hold.key.clone())) else { continue };
            self.log_hold(&planned.job, &hold);
            holds.push(hold);
        }
        if !holds.is_empty() {
            for noted in self.ledger.hold(holds, self.system.now()).await {
                if let Err(error) = noted {
                    self.telemetry.infrastructure(&error);
                }
            }
        }
        self.hand_off(later).await
    }

    fn log_hold(&self, job: &Job, hold: &Hold) {
        self.telemetry.held_back(&HeldEvent {
            correlation_id: &job.message.id,
            endpoint_hash: job.endpoint_hash.as_ref().map(|hash| hash.as_str()),
            tenant: &job.message.tenant,
            tags: job.message.tags.to_text().as_deref(),
            channel: job.channel.label(),
            provider: job.provider().label(),
            attempt: hold.turn.attempt.0,
            by: hold.by,
            until: hold.until,
        });
    }
}

/// What is to be noted; nothing where the ledger says it already.
fn hold_of(planned: &Planned) -> Option<Hold> {
    let Planned { job, plan, .. } = planned;
    let until = plan.not_before()?;
    Some(Hold {
        by: job.held_by.or_else(|| by_the_clock(job, until))?,
        key: job.message.key(),
        turn: job.travel.turn,
        until,
        fingerprint: job.fingerprint.clone(),
        id_source: job.message.id_source,
        source_message: job.source_message.clone(),
        channel: job.channel,
        endpoint_hash: job.endpoint_hash.clone(),
        subscription: job.message.to.subscription().cloned(),
        given: job.message.given(Some(job.channel)),
        kept_until: job.kept_until(),
    })
}

/// What a message asks to wait for itself. One that comes back early waits on, and was noted when it came first.
fn by_the_clock(job: &Job, until: Timestamp) -> Option<HeldBy> {
    if job.travel.not_before == Some(until) {
        return None;
    }
    let is_its_time = job.message.deliver_at == Some(until);
    let has_hours = job.message.deliver_between.is_some().then_some(HeldBy::Hours);
    if is_its_time { Some(HeldBy::Schedule) } else { has_hours }
}
