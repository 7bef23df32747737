//! The names of everything that is counted or measured: a closed list, so that alarms and dashboards can be checked against it.

use crate::label::labels;

labels! {
    pub enum Metric {
        Attempts = "Attempts",
        Sent = "Sent",
        SentOnRetry = "SentOnRetry",
        Retried = "Retried",
        /// Dead letters; by lane, and in the log by [`crate::reason::Reason`].
        DeadLetters = "DeadLetters",
        FailedNoRetries = "FailedNoRetries",
        /// Attempts with a permanent failure: a high share points to stale subscriptions, or to an error of our own.
        PermanentFailures = "PermanentFailures",
        Gone = "Gone",
        Expired = "Expired",
        /// Attempts that may have arrived without an answer.
        InDoubt = "InDoubt",
        DuplicatesDropped = "DuplicatesDropped",
        /// Messages held back without an attempt; in the log also by provider, where an origin's protection held them.
        Deferred = "Deferred",
        /// Breakers that opened; in the log also by provider.
        BreakersOpened = "BreakersOpened",
        Recipients = "Recipients",
        Parked = "Parked",
        ServiceUnavailable = "ServiceUnavailable",
        /// Web pushes that their push service rejected with 400: the request itself is wrong, and so is each one like it.
        BadRequests = "BadRequests",
        RetryOverhead = "RetryOverhead",
        /// From when a message was queued, or is due by its `deliver_at`, to its first POST; by lane. What holds it back counts.
        DispatchLatency = "DispatchLatency",
        /// From the same moment until its receiver or push service accepted it, retries included; by lane.
        DeliveryLatency = "DeliveryLatency",
        Pruned = "Pruned",
        Quarantined = "Quarantined",
        /// Subscriptions that were removed because their browsers had said that they would not hold any longer.
        SubscriptionsExpired = "SubscriptionsExpired",
        /// Subscriptions that were removed because their browsers were not seen for too long.
        SubscriptionsStale = "SubscriptionsStale",
        /// Subscriptions that their dead letters made suspect.
        SubscriptionsSuspect = "SubscriptionsSuspect",
        /// Subscriptions whose endpoint another one of their tenant has now.
        EndpointsReplaced = "EndpointsReplaced",
        /// Tenants' stored policies that were found invalid, and were not followed.
        PoliciesIgnored = "PoliciesIgnored",
        EndpointsDisabled = "EndpointsDisabled",
        /// What was refused, ended or kept without a body because its tenant is over a quota.
        QuotaExceeded = "QuotaExceeded",
        Displayed = "Displayed",
        Clicked = "Clicked",
        Closed = "Closed",
        /// Requests of the HTTP API, or parts of them, that failed through an error of our own.
        RequestsFailed = "RequestsFailed",
        AcksRepeated = "AcksRepeated",
        /// Acknowledgements of deliveries that the ledger has forgotten.
        AcksUnknown = "AcksUnknown",
        /// Bodies that crashed their workers, or were refused too often, and were taken out of their queue.
        Poison = "Poison",
        /// Messages that came back to their queue because of an error of our own, each time that they did. SQS leaves a message that was received
        /// three times out of the age of the oldest one (AWS, "Available CloudWatch metrics for Amazon SQS").
        DispatchFailures = "DispatchFailures",
        /// Messages of its queues that cleanup could not deal with and that come back, and events that some of their targets refused.
        CleanupFailures = "CleanupFailures",
        /// Buckets of waits whose execution could not be started: the sweep releases them, late.
        WaitsNotStarted = "WaitsNotStarted",
        WaitsSwept = "WaitsSwept",
        ApiCalls = "ApiCalls",
        /// Write units that DynamoDB charged for ledger, subscriptions, parking, dead letters and the protection of origins.
        WriteUnits = "WriteUnits",
        Deliveries = "Deliveries",
    }
}

labels! {
    /// What a metric is measured in, as CloudWatch names it.
    pub enum Unit {
        Count = "Count",
        Milliseconds = "Milliseconds",
    }
}

impl Metric {
    pub const fn unit(self) -> Unit {
        if matches!(self, Self::RetryOverhead | Self::DispatchLatency | Self::DeliveryLatency) {
            Unit::Milliseconds
        } else {
            Unit::Count
        }
    }
}
