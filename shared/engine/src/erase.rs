//! Erasing a person on a tenant's request: the mark at once, and the search later, page by page.
//!
//! The request is stored first, with the endpoint, which is unknown once the subscription is gone. Then whom it is about is marked, and
//! from then on nothing is sent to them. The HTTP API answers after that: a search takes longer than a request. The steps of the search are
//! cleanup's. If the API's worker dies before it has noted the mark, cleanup marks; a page that is searched again is cleared again.
//!
//! The command line erases in the same order and with the same ports, and keeps its progress in a file.

use std::time::Duration;

use crate::ports::{ErasureMarks, ErasureRequests, Found, PersonSearch, PortError, SubscriptionBook};
use redial_core::endpoint::HashKeys;
use redial_core::erasure::{Erasure, MOST_PENDING, requested_at};
use redial_core::identity::SubscriptionKey;
use redial_core::recipient::Recipient;
use redial_core::time::Timestamp;

/// The items of a page.
pub const PAGE: u16 = 500;

/// What came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Requested {
    Pending(Box<Erasure>),
    /// Nothing was stored: [`MOST_PENDING`] of the tenant's are pending already.
    TooMany,
    /// Nothing was stored: what is stored under the id is no person's.
    IsAWebhook,
}

/// Stores a request and marks whom it is about. The same request again, while it is pending, is the same erasure; it begins again if the
/// subscription was stored again since. `None`: nothing was stored, because [`MOST_PENDING`] of the tenant's are pending already.
pub async fn request(
    requests: &impl ErasureRequests,
    subscriptions: &(impl SubscriptionBook + ErasureMarks),
    keys: &HashKeys,
    wanted: Erasure,
    now: Timestamp,
) -> Result<Option<Erasure>, PortError> {
    Ok(match request_of(requests, subscriptions, keys, wanted, |_| true, now).await? {
        Requested::Pending(erasure) => Some(*erasure),
        Requested::TooMany | Requested::IsAWebhook => None,
    })
}

/// The same, of a person alone: a webhook stays as it is.
pub async fn request_of_a_person(
    requests: &impl ErasureRequests,
    subscriptions: &(impl SubscriptionBook + ErasureMarks),
    keys: &HashKeys,
    wanted: Erasure,
    now: Timestamp,
) -> Result<Requested, PortError> {
    let is_a_person = |recipient: &Recipient| matches!(recipient, Recipient::WebPush(_));
    request_of(requests, subscriptions, keys, wanted, is_a_person, now).await
}

async fn request_of(
    requests: &impl ErasureRequests,
    subscriptions: &(impl SubscriptionBook + ErasureMarks),
    keys: &HashKeys,
    wanted: Erasure,
    is_erased: impl Fn(&Recipient) -> bool,
    now: Timestamp,
) -> Result<Requested, PortError> {
    let stored = loop {
        let pending = requests.find(&wanted.tenant, &wanted.id).await?.filter(|it| it.done_at.is_none());
        let now_stored = stored_of(subscriptions, &wanted).await?;
        if let Some(Found::Stored(stored)) = &now_stored
            && !is_erased(&stored.recipient)
        {
            return Ok(Requested::IsAWebhook);
        }
        match (pending, now_stored) {
            (Some(pending), Some(Found::Stored(newer))) => {
                // It was stored again since, or was never marked.
                let requested_at = requested_at(now, newer.created_at);
                let again = pending.again(newer.recipient.endpoint().clone(), keys, requested_at);
                if requests.advance(&pending, &again).await? {
                    break again;
                }
            }
            (Some(pending), _) => break pending,
            (None, _) if requests.count_pending(&wanted.tenant).await? >= MOST_PENDING => {
                return Ok(Requested::TooMany);
            }
            (None, now_stored) => {
                let mut wanted = wanted;
                match now_stored {
                    Some(Found::Stored(stored)) => {
                        wanted.requested_at = requested_at(wanted.requested_at, stored.created_at);
                        wanted.endpoint = Some(stored.recipient.endpoint().clone());
                    }
                    Some(Found::Deleted { endpoint_hash, at: _ }) => wanted.former.extend(endpoint_hash),
                    Some(Found::Unknown) | None => {}
                }
                break requests.begin(wanted).await?;
            }
        }
    };
    if stored.marked_at.is_some() {
        return Ok(Requested::Pending(Box::new(stored)));
    }
    // If another worker has marked it meanwhile, what that one has stored is found by the next request.
    let marked = mark(requests, subscriptions, keys, &stored, now).await?;
    Ok(Requested::Pending(Box::new(marked.unwrap_or(stored))))
}

/// What is stored of the subscription that it is about.
async fn stored_of(
    subscriptions: &impl SubscriptionBook,
    erasure: &Erasure,
) -> Result<Option<Found>, PortError> {
    let Some(id) = &erasure.subscription else { return Ok(None) };
    let key = SubscriptionKey { tenant: erasure.tenant.clone(), id: id.clone() };
    subscriptions.find(&key).await.map(Some)
}

/// Marks whom it is about, and notes that; `None` if another worker has changed it meanwhile.
async fn mark(
    requests: &impl ErasureRequests,
    marks: &impl ErasureMarks,
    keys: &HashKeys,
    erasure: &Erasure,
    now: Timestamp,
) -> Result<Option<Erasure>, PortError> {
    marks.mark(&erasure.person(keys), erasure.requested_at, now).await?;
    let marked = erasure.marked(now);
    Ok(requests.advance(erasure, &marked).await?.then_some(marked))
}

/// What came of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// It goes on, or is done.
    Made(Box<Erasure>),
    /// Workers that have not seen the mark may still be at work.
    Waits,
    /// Another worker has changed it meanwhile, and goes on.
    Anothers,
}

/// The next step of a pending erasure: its mark, or a page of its search.
pub async fn step(
    requests: &impl ErasureRequests,
    marks: &impl ErasureMarks,
    persons: &impl PersonSearch,
    keys: &HashKeys,
    longest_invocation: Duration,
    erasure: &Erasure,
    now: Timestamp,
) -> Result<Step, PortError> {
    let Some(search_from) = erasure.search_from(longest_invocation) else {
        return Ok(mark(requests, marks, keys, erasure, now)
            .await?
            .map_or(Step::Anothers, |marked| Step::Made(Box::new(marked))));
    };
    if now < search_from {
        return Ok(Step::Waits);
    }
    let Some(at) = &erasure.at else { return Ok(Step::Anothers) };
    let page = persons.erase_page(&erasure.person(keys), at, PAGE).await?;
    let after = erasure.searched(page, now);
    Ok(if requests.advance(erasure, &after).await? { Step::Made(Box::new(after)) } else { Step::Anothers })
}
