//! What was erased is not stored again ([`redial_core::erasure`]).
//!
//! A message to an erased subscription is dropped as soon as that is read. It is looked for only where a subscription is unknown. A message
//! whose `ref` was erased is looked for only where its body is about to be stored: before a wait, in a line, and as a dead letter. So no
//! success costs a read for it. The same goes for a callback, whose event is about someone.

use std::collections::BTreeSet;

use super::acknowledgements::Acknowledgements;
use super::hand_off::Effects;
use super::job::Job;
use super::planned::Planned;
use super::worker::{Ports, Worker};
use crate::ports::{Erasures, PortError};
use redial_core::distinct::distinct;
use redial_core::erasure::Subject;
use redial_core::identity::SubscriptionKey;
use redial_core::plan::Plan;

/// Drops the messages to erased subscriptions.
pub(super) fn without_erased(mut jobs: Vec<Job>, acknowledgements: &mut Acknowledgements) -> Vec<Job> {
    jobs.retain(|job| {
        if job.is_erased {
            acknowledgements.acknowledged(job.place);
        }
        !job.is_erased
    });
    jobs
}

impl<P: Ports> Worker<P> {
    /// Of these unknown subscriptions those that were erased, or why that could not be read.
    pub(super) async fn erased_subscriptions(
        &self,
        unknown: Vec<SubscriptionKey>,
    ) -> Vec<(SubscriptionKey, Result<bool, PortError>)> {
        if unknown.is_empty() {
            return Vec::new();
        }
        let subjects = unknown.iter().cloned().map(Subject::Subscription).collect();
        let erased = self.subscriptions.erased(subjects).await;
        unknown.into_iter().zip(erased).collect()
    }

    /// The places of those of these that must not be stored, because their `ref` was erased, or whom their event is about; without those of
    /// which that could not be read.
    pub(super) async fn erased_refs(
        &self,
        ready: Vec<Planned>,
        acknowledgements: &mut Acknowledgements,
    ) -> (Vec<Planned>, BTreeSet<usize>) {
        let jobs = ready.iter().filter(|planned| stores_its_body(&planned.plan)).map(|planned| &planned.job);
        let (erased, unread) = self.places_of_erased_refs(jobs, acknowledgements).await;
        let known = ready.into_iter().filter(|planned| !unread.contains(&planned.job.place));
        (known.collect(), erased)
    }

    /// Those of these conflicts that become dead letters.
    pub(super) async fn conflicts_to_keep(
        &self,
        mut conflicts: Vec<Job>,
        acknowledgements: &mut Acknowledgements,
    ) -> Vec<Job> {
        let (erased, unread) = self.places_of_erased_refs(conflicts.iter(), acknowledgements).await;
        erased.iter().for_each(|place| acknowledgements.acknowledged(*place));
        conflicts.retain(|job| !erased.contains(&job.place) && !unread.contains(&job.place));
        conflicts
    }

    async fn places_of_erased_refs(
        &self,
        jobs: impl Iterator<Item = &Job>,
        acknowledgements: &mut Acknowledgements,
    ) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let (mut erased, mut unread) = (BTreeSet::new(), BTreeSet::new());
        let within: Vec<(usize, Subject)> = jobs
            .flat_map(|job| Subject::within(&job.message).into_iter().map(|it| (job.place, it)))
            .collect();
        if within.is_empty() {
            return (erased, unread);
        }
        let subjects = distinct(within.iter().map(|(_, subject)| subject.clone()));
        let answers = Box::pin(self.subscriptions.erased(subjects.clone())).await;
        for (subject, answer) in subjects.into_iter().zip(answers) {
            for (place, _) in within.iter().filter(|(_, of)| *of == subject) {
                match &answer {
                    Ok(true) => _ = erased.insert(*place),
                    Ok(false) => {}
                    Err(error) => {
                        unread.insert(*place);
                        acknowledgements.failed(*place, error.clone(), &self.telemetry);
                    }
                }
            }
        }
        (erased, unread)
    }
}

/// Whether the message may be stored for it.
fn stores_its_body(plan: &Plan) -> bool {
    match plan {
        Plan::Retry { .. } | Plan::Defer { .. } | Plan::DeadLetter(_) => true,
        Plan::Sent
        | Plan::Expired
        | Plan::Cancelled
        | Plan::FailedNoRetries(_)
        | Plan::Gone { .. }
        | Plan::Expand => false,
    }
}

impl Effects {
    /// Of the messages at these places, no body is stored: what would wait is dropped, and a dead letter is described without it.
    pub(super) fn store_nothing_of(&mut self, erased: &BTreeSet<usize>) {
        if erased.is_empty() {
            return;
        }
        let is_erased = |place: usize| erased.contains(&place);
        for letter in self.dead_letters.iter_mut().filter(|letter| is_erased(letter.place())) {
            letter.erase_body();
        }
        let parked = self.parked.extract_if(.., |it| is_erased(it.place)).map(|it| it.place);
        self.done.extend(parked);
        let lined_up = self.lined_up.extract_if(.., |it| is_erased(it.place)).map(|it| it.place);
        self.done.extend(lined_up);
    }
}
