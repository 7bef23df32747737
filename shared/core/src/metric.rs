//! The names of everything that is counted or measured: a closed list, so that alarms and dashboards can be checked
//! against it.

/// A metric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Metric {
    /// Attempts made.
    Attempts,
    /// Deliveries that a push service accepted.
    Sent,
    /// Deliveries that were accepted on a retry.
    SentOnRetry,
    /// Retries planned.
    Retried,
    /// Dead letters; also by [`crate::reason::Reason`].
    DeadLetters,
    /// Deliveries that failed under a policy without retries.
    FailedNoRetries,
    /// Attempts that ended a delivery without hope: a high share tells of stale subscriptions, or of a fault of ours.
    PermanentFailures,
    /// Endpoints found gone or unknown.
    Gone,
    /// Deliveries whose TTL was over before they could be sent.
    Expired,
    /// Attempts that may have arrived without our knowing.
    InDoubt,
    /// Messages dropped because their attempt was already made.
    DuplicatesDropped,
    /// Messages held back without an attempt; also by provider, where an origin's protection held them.
    Deferred,
    /// Breakers that opened; also by provider.
    BreakersOpened,
    /// Recipients of audiences that messages were handed on to.
    Recipients,
    /// Messages parked for a long wait.
    Parked,
    /// Attempts that were answered with 503.
    ServiceUnavailable,
    /// Web pushes that their push service rejected with 400: the request itself is wrong, and so is each one like it.
    BadRequests,
    /// How long after its due time a retry's attempt began.
    RetryOverhead,
    /// Subscriptions that were removed.
    Pruned,
    /// Subscriptions that were put in quarantine.
    Quarantined,
    /// Tenants' stored policies that were found invalid, and were not followed.
    PoliciesIgnored,
    /// Webhooks' receivers that were switched off.
    EndpointsDisabled,
    /// Deliveries that their users' browsers have shown.
    Displayed,
    /// Deliveries that their users clicked.
    Clicked,
    /// Deliveries that their users closed without a click.
    Closed,
    /// Requests of the front door, or parts of them, that something of ours could not serve.
    RequestsFailed,
    /// Acknowledgements that had been told before.
    AcksRepeated,
    /// Acknowledgements of deliveries that the ledger has forgotten.
    AcksUnknown,
    /// Bodies that crashed their workers, or were refused too often, and were taken out of their queue.
    Poison,
    /// Buckets of waits whose execution could not be started: the sweep releases them, late.
    WaitsNotStarted,
    /// Late buckets of waits that the sweep released.
    WaitsSwept,
    /// Calls to AWS.
    ApiCalls,
    /// Write units that DynamoDB charged for ledger, subscriptions, parking, dead letters and the protection of origins.
    WriteUnits,
    /// Deliveries that an invocation dealt with.
    Deliveries,
}

/// What a metric is measured in, as CloudWatch names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// CloudWatch's name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
        }
    }
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 34] = [
        Self::Attempts,
        Self::Sent,
        Self::SentOnRetry,
        Self::Retried,
        Self::DeadLetters,
        Self::FailedNoRetries,
        Self::PermanentFailures,
        Self::Gone,
        Self::Expired,
        Self::InDoubt,
        Self::DuplicatesDropped,
        Self::Deferred,
        Self::BreakersOpened,
        Self::Recipients,
        Self::Parked,
        Self::ServiceUnavailable,
        Self::BadRequests,
        Self::RetryOverhead,
        Self::Pruned,
        Self::Quarantined,
        Self::PoliciesIgnored,
        Self::EndpointsDisabled,
        Self::Displayed,
        Self::Clicked,
        Self::Closed,
        Self::RequestsFailed,
        Self::AcksRepeated,
        Self::AcksUnknown,
        Self::Poison,
        Self::WaitsNotStarted,
        Self::WaitsSwept,
        Self::ApiCalls,
        Self::WriteUnits,
        Self::Deliveries,
    ];

    /// CloudWatch's name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Attempts => "Attempts",
            Self::Sent => "Sent",
            Self::SentOnRetry => "SentOnRetry",
            Self::Retried => "Retried",
            Self::DeadLetters => "DeadLetters",
            Self::FailedNoRetries => "FailedNoRetries",
            Self::PermanentFailures => "PermanentFailures",
            Self::Gone => "Gone",
            Self::Expired => "Expired",
            Self::InDoubt => "InDoubt",
            Self::DuplicatesDropped => "DuplicatesDropped",
            Self::Deferred => "Deferred",
            Self::BreakersOpened => "BreakersOpened",
            Self::Recipients => "Recipients",
            Self::Parked => "Parked",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::BadRequests => "BadRequests",
            Self::RetryOverhead => "RetryOverhead",
            Self::Pruned => "Pruned",
            Self::Quarantined => "Quarantined",
            Self::PoliciesIgnored => "PoliciesIgnored",
            Self::EndpointsDisabled => "EndpointsDisabled",
            Self::Displayed => "Displayed",
            Self::Clicked => "Clicked",
            Self::Closed => "Closed",
            Self::RequestsFailed => "RequestsFailed",
            Self::AcksRepeated => "AcksRepeated",
            Self::AcksUnknown => "AcksUnknown",
            Self::Poison => "Poison",
            Self::WaitsNotStarted => "WaitsNotStarted",
            Self::WaitsSwept => "WaitsSwept",
            Self::ApiCalls => "ApiCalls",
            Self::WriteUnits => "WriteUnits",
            Self::Deliveries => "Deliveries",
        }
    }

    /// What it is measured in.
    pub const fn unit(self) -> Unit {
        match self {
            Self::RetryOverhead => Unit::Milliseconds,
            Self::Attempts
            | Self::Sent
            | Self::SentOnRetry
            | Self::Retried
            | Self::DeadLetters
            | Self::FailedNoRetries
            | Self::PermanentFailures
            | Self::Gone
            | Self::Expired
            | Self::InDoubt
            | Self::DuplicatesDropped
            | Self::Deferred
            | Self::BreakersOpened
            | Self::Recipients
            | Self::Parked
            | Self::ServiceUnavailable
            | Self::BadRequests
            | Self::Pruned
            | Self::Quarantined
            | Self::PoliciesIgnored
            | Self::EndpointsDisabled
            | Self::Displayed
            | Self::Clicked
            | Self::Closed
            | Self::RequestsFailed
            | Self::AcksRepeated
            | Self::AcksUnknown
            | Self::Poison
            | Self::WaitsNotStarted
            | Self::WaitsSwept
            | Self::ApiCalls
            | Self::WriteUnits
            | Self::Deliveries => Unit::Count,
        }
    }
}
