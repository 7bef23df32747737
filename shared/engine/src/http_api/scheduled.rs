//! Scheduled messages and their tenant's quota of parked messages.
//!
//! A message over the quota is refused here, where there is a caller to answer, and not by dispatch, which parks it. Between the two are
//! messages that are accepted and not parked yet: dispatch ends those that come too many. A message that was accepted before is answered
//! as it stands, whatever the quota: the caller may be repeating a request whose response was lost.

use super::accept::Accepted;
use crate::ports::{Deliveries, Quotas, Telemetry};
use crate::quota::QuotaGuard;
use redial_core::quota::{Exceeded, Quota};
use redial_core::time::Timestamp;

/// Which of these messages, of one tenant, are refused at `now`. Nothing is read for a message that is to be sent at once.
pub async fn over_quota(
    ledger: &impl Deliveries,
    quotas: &impl Quotas,
    telemetry: &impl Telemetry,
    guard: &QuotaGuard,
    accepted: &[Accepted],
    now: Timestamp,
) -> Vec<Option<Exceeded>> {
    let mut over = Vec::with_capacity(accepted.len());
    for message in accepted {
        let key = &message.delivery().key;
        let exceeded = match message.is_to_be_parked(now) {
            true => guard.take(quotas, telemetry, &key.tenant, Quota::Parked, now).await.err(),
            false => None,
        };
        over.push(match exceeded {
            // If the ledger cannot be read, entering the message fails or finds it.
            Some(exceeded) if matches!(ledger.find(key).await, Ok(None)) => {
                guard.report(telemetry, &key.tenant, &exceeded, now);
                Some(exceeded)
            }
            Some(_) | None => None,
        });
    }
    over
}
