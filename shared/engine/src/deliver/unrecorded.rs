//! What messages that were sent again carry of an earlier receive: it is recorded before anything else is done with them.
//!
//! The record is fenced by the token that it was made under. Where the fence holds, an outcome is handed off and its attempt is never
//! made again, and a claim that was never used is given back. Where it is lost, another worker has gone on with the delivery, and
//! the ledger says what is left to do.

use super::fate::Fate;
use super::hand_off::{HandOff, fate_of};
use super::inbox::Job;
use super::{Settings, settle};
use crate::ports::{Environment, Ledger};
use redial_core::ledger::{Fence, Unrecorded};

/// Jobs of which the ledger knows everything.
pub(super) struct Recorded {
    /// They go on to the gates.
    pub(super) jobs: Vec<Job>,
    /// Their attempts were made: they are handed off.
    pub(super) ready: Vec<HandOff>,
}

/// Records what these carry; a job whose record cannot be written comes back.
pub(super) async fn record<E: Environment>(
    env: &E,
    settings: &Settings,
    jobs: Vec<Job>,
    fates: &mut Vec<(usize, Fate)>,
) -> Recorded {
    let (carrying, mut jobs): (Vec<_>, Vec<_>) =
        jobs.into_iter().partition(|job| job.travel.unrecorded.is_some());
    let mut ready = Vec::new();
    if carrying.is_empty() {
        return Recorded { jobs, ready };
    }
    let carried: Vec<(Job, Unrecorded)> = carrying
        .into_iter()
        .filter_map(|mut job| job.travel.unrecorded.take().map(|unrecorded| (job, *unrecorded)))
        .collect();
    let records = carried.iter().map(|(_, unrecorded)| unrecorded.record.clone()).collect();
    for ((job, unrecorded), answer) in carried.into_iter().zip(env.ledger().record_carried(records).await) {
        match answer {
            Ok(Fence::Held) if unrecorded.has_an_outcome() => {
                let hand_off = HandOff::of_unrecorded(job, unrecorded, &settings.hash_keys);
                settle::count(env, &hand_off.plan, hand_off.job.lane);
                ready.push(hand_off);
            }
            Ok(Fence::Held | Fence::Lost) => jobs.push(job),
            Err(error) => fates.push((job.index, fate_of(env, Err(error)))),
        }
    }
    Recorded { jobs, ready }
}
