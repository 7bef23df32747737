//! The reasons of a delivery's state: one closed list, with the labels that logs, metrics, ledger, dead letters
//! and the command line all use.

use crate::label::labels;

labels! {
    pub enum Reason {
        /// The body did not parse, or a field is not what it must be.
        Malformed = "malformed",
        /// The same id was used before, for another content.
        IdConflict = "id_conflict",
        SubscriptionUnknown = "subscription_unknown",
        /// The message names a subscription that is switched off, gone or in quarantine.
        SubscriptionOff = "subscription_off",
        /// The subscription is past the expiration time that the browser gave; or nothing was heard of it for too long.
        SubscriptionExpired = "subscription_expired",
        SubscriptionStale = "subscription_stale",
        /// Its subscription is suspect, and the stack holds messages to such subscriptions.
        SubscriptionSuspect = "subscription_suspect",
        /// Another subscription of the tenant has its endpoint now, or had it when the message to an audience was opened.
        EndpointReplaced = "endpoint_replaced",
        EndpointDisabled = "endpoint_disabled",
        HeaderNotPermitted = "header_not_permitted",
        /// The endpoint is not one that Redial sends to: not on the allow-list, or its address is not a public one.
        EndpointNotAllowed = "endpoint_not_allowed",
        BadSubscriptionKey = "bad_subscription_key",
        UnknownVapidKey = "unknown_vapid_key",
        /// The payload is longer than the channel or the push service takes.
        PayloadTooLarge = "payload_too_large",
        Rejected = "rejected",
        /// The other side does not accept our signature, also not a new one.
        Unauthorized = "unauthorized",
        /// The other side says that our key is not the subscription's.
        Forbidden = "forbidden",
        /// The other side wants us to go elsewhere; redirects are never followed.
        Redirected = "redirected",
        /// The endpoint is gone: the user unsubscribed, or the browser gave it up.
        Gone = "gone",
        /// The endpoint is not known (any more): flagged, and gone once confirmed.
        NotFound = "not_found",
        RateLimited = "rate_limited",
        ServerError = "server_error",
        /// The other side gave up waiting, or is not ready yet (408, 425).
        NotReady = "not_ready",
        RetryableByPolicy = "retryable_by_policy",
        PermanentByPolicy = "permanent_by_policy",
        /// Nothing was sent: name, connection or TLS.
        NotSent = "not_sent",
        /// It is unknown whether it arrived: time-out or reset after the request had left.
        InDoubt = "in_doubt",
        /// In doubt, and the policy says not to repeat what may have arrived.
        InDoubtNotRetried = "in_doubt_not_retried",
        RetriesExhausted = "retries_exhausted",
        TtlExceeded = "ttl_exceeded",
        TtlOver = "ttl_over",
        RetriesDisabled = "retries_disabled",
        /// A caller cancelled it, or the message to the audience that it belongs to.
        Cancelled = "cancelled",
        /// It is scheduled, and its tenant has as many parked messages as its quota allows.
        QuotaExceeded = "quota_exceeded",
        /// The message crashed its worker again and again, and was taken out of its queue.
        Poison = "poison",
    }
}
