//! A delivery whose next step is planned and recorded, with what its attempt saw: what is handed off.

use super::job::Job;
use redial_core::channel::Channel;
use redial_core::endpoint::HashKeys;
use redial_core::ledger::{Entry, Record, Unrecorded, kept_headers};
use redial_core::outcome::{Attempted, NotSent};
use redial_core::plan::Plan;
use redial_core::provider;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::verdict::Verdict;

/// What an attempt saw, as far as ledger and references hold it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Facts {
    pub(super) attempted: bool,
    pub(super) status: Option<u16>,
    pub(super) verdict: Option<&'static str>,
    /// What failed, if nothing was sent.
    pub(super) not_sent: Option<NotSent>,
    pub(super) provider_word: Option<String>,
    /// What the ledger keeps of the response's headers.
    pub(super) headers: Vec<(String, String)>,
    /// Whether this or an earlier attempt may have arrived without our knowing.
    pub(super) in_doubt: bool,
}

/// What an endpoint that is gone was found by, and when.
pub(super) struct Gone {
    pub(super) job: Job,
    /// 410, and not 404.
    pub(super) confirmed: bool,
    pub(super) facts: Facts,
    pub(super) at: Timestamp,
}

impl Facts {
    /// A webhook's receiver is anyone: nothing of its own words is kept.
    pub(super) fn of(attempted: &Attempted, channel: Channel, verdict: &Verdict, was_in_doubt: bool) -> Self {
        let response = attempted.outcome.response();
        Self {
            attempted: true,
            status: response.map(|response| response.status),
            verdict: Some(verdict.label()),
            not_sent: attempted.outcome.not_sent(),
            provider_word: response.filter(|_| channel == Channel::WebPush).and_then(provider::quotable),
            headers: response.map(kept_headers).unwrap_or_default(),
            in_doubt: was_in_doubt || verdict.is_in_doubt(),
        }
    }

    /// What a dead letter says besides its reason: the provider's own word, or what failed before anything was sent.
    pub(super) fn detail(&self) -> Option<String> {
        let failed = || self.not_sent.map(|failure| format!("{}: {}", Reason::NotSent, failure.label()));
        self.provider_word.clone().or_else(failed)
    }
}

#[derive(Debug)]
pub(super) struct Planned {
    pub(super) job: Job,
    pub(super) plan: Plan,
    pub(super) facts: Facts,
    pub(super) at: Timestamp,
}

impl Planned {
    /// A plan for which no attempt was made, though one of a worker that died may have arrived.
    pub(super) fn without_attempt(job: Job, plan: Plan, in_doubt: bool, at: Timestamp) -> Self {
        Self { job, plan, facts: Facts { in_doubt, ..Facts::default() }, at }
    }

    /// The plan that an entry of the ledger holds.
    pub(super) fn again(mut job: Job, entry: &Entry, keys: &HashKeys) -> Self {
        job.went_to(entry.endpoint_hash.as_ref(), keys);
        let not_before = entry.not_before.unwrap_or(entry.updated_at);
        let facts = Facts {
            attempted: entry.status.is_some() || entry.not_sent.is_some() || entry.in_doubt,
            status: entry.status,
            not_sent: entry.not_sent,
            provider_word: entry.provider_word.clone(),
            in_doubt: entry.in_doubt,
            ..Facts::default()
        };
        let plan = Plan::recorded(entry.state, entry.reason, not_before, entry.in_doubt);
        Self { job, plan, facts, at: entry.updated_at }
    }

    /// The plan of an attempt whose outcome travelled with its message, and is recorded by now.
    pub(super) fn of_unrecorded(mut job: Job, unrecorded: Unrecorded, keys: &HashKeys) -> Self {
        job.went_to(unrecorded.endpoint_hash.as_ref(), keys);
        let Record { state, reason, not_before, now, in_doubt, .. } = unrecorded.record;
        let facts = Facts {
            attempted: unrecorded.record.verdict.is_some(),
            status: unrecorded.record.status,
            verdict: unrecorded.record.verdict,
            not_sent: unrecorded.record.not_sent,
            provider_word: unrecorded.record.provider_word,
            headers: unrecorded.record.headers,
            in_doubt,
        };
        let plan = Plan::recorded(state, reason, not_before.unwrap_or(now), in_doubt);
        Self { job, plan, facts, at: now }
    }

    /// Whether a webhook's receiver has answered that it wants no more.
    pub(super) fn wants_no_more(&self) -> bool {
        self.job.channel == Channel::Webhook
            && matches!(self.plan, Plan::DeadLetter(Reason::Gone) | Plan::FailedNoRetries(Reason::Gone))
    }
}
