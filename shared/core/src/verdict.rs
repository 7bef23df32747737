//! What an outcome means for the delivery: the only status table in the code base.
//!
//! A verdict is not a plan: whether a retryable failure is retried depends on the policy, the attempt's number and the TTL, and is
//! decided in [`crate::plan`]. A policy's own lists of statuses may override the table for 4xx and 5xx, but not
//! where the status says whose fault it is: 401, 404, 410 and 413.

use std::time::Duration;

use crate::outcome::{Impossible, Outcome, Response};
use crate::provider::{self, Meaning};
use crate::reason::Reason;
use crate::retry_after;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The push service accepted it. Whether the user sees it is another question.
    Sent,
    /// Our signature was refused: load the key again, sign again, and try once more within the same attempt.
    SignAgain,
    /// Another attempt is worth making.
    Retry(Retry),
    /// The endpoint is gone, which is final at once (410) or needs confirmation (404).
    Gone { confirmed: bool },
    /// No attempt will succeed.
    Failed(Reason),
}

impl Verdict {
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::SignAgain => "sign_again",
            Self::Retry(_) => "retry",
            Self::Gone { .. } => "gone",
            Self::Failed(_) => "failed",
        }
    }

    /// Why there is no success; none of what is gone, or signed again.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Retry(Retry { reason, .. }) | Self::Failed(reason) => Some(*reason),
            Self::Sent | Self::SignAgain | Self::Gone { .. } => None,
        }
    }

    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Retry(Retry { retry_after, .. }) => *retry_after,
            Self::Sent | Self::SignAgain | Self::Gone { .. } | Self::Failed(_) => None,
        }
    }

    pub const fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Retry(Retry { in_doubt: true, .. }))
    }
}

/// The label of that text, if it is one of [`Verdict::label`]'s.
pub fn label_of(text: &str) -> Option<&'static str> {
    ["sent", "sign_again", "retry", "gone", "failed"].into_iter().find(|label| *label == text)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    pub reason: Reason,
    pub in_doubt: bool,
    pub retry_after: Option<Duration>,
}

/// The statuses that no policy may declare retryable or permanent on web push.
pub const NOT_OVERRIDABLE_WEB_PUSH: [u16; 4] = [401, 404, 410, 413];

/// A policy's own view of statuses; both lists are of 4xx and 5xx.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides<'a> {
    pub retryable: &'a [u16],
    pub permanent: &'a [u16],
}

/// Judges a web push. `signed_again` says that this outcome is that of the second send, after the keys were loaded again.
pub fn web_push(outcome: &Outcome, signed_again: bool, overrides: Overrides<'_>) -> Verdict {
    // The key may have been added since the keys were loaded.
    if !signed_again && *outcome == Outcome::Impossible(Impossible::UnknownVapidKey) {
        return Verdict::SignAgain;
    }
    judge(outcome, |response| of_push_service(response, signed_again, overrides))
}

/// The statuses that no policy may declare retryable or permanent on a webhook.
pub const NOT_OVERRIDABLE_WEBHOOK: [u16; 1] = [410];

/// Judges a webhook: everything but success is worth another attempt, except that a receiver which says 410 wants no more.
pub fn webhook(outcome: &Outcome, overrides: Overrides<'_>) -> Verdict {
    judge(outcome, |response| of_receiver(response, overrides))
}

fn judge(outcome: &Outcome, of_response: impl FnOnce(&Response) -> Verdict) -> Verdict {
    let retry = |reason, in_doubt| Verdict::Retry(Retry { reason, in_doubt, retry_after: None });
    match outcome {
        Outcome::Response(response) => of_response(response),
        Outcome::NotSent(_) => retry(Reason::NotSent, false),
        Outcome::InDoubt(_) => retry(Reason::InDoubt, true),
        Outcome::Impossible(why) => Verdict::Failed(match why {
            Impossible::EndpointNotAllowed => Reason::EndpointNotAllowed,
            Impossible::BadSubscriptionKey => Reason::BadSubscriptionKey,
            Impossible::UnknownVapidKey => Reason::UnknownVapidKey,
            Impossible::PayloadTooLarge => Reason::PayloadTooLarge,
        }),
    }
}

fn retry_of(response: &Response, reason: Reason) -> Verdict {
    Verdict::Retry(Retry { reason, in_doubt: false, retry_after: retry_after::from_response(response) })
}

fn of_receiver(response: &Response, overrides: Overrides<'_>) -> Verdict {
    let status = response.status;
    let retry = |reason| retry_of(response, reason);
    let may_override = (400..=599).contains(&status) && !NOT_OVERRIDABLE_WEBHOOK.contains(&status);
    if may_override && overrides.permanent.contains(&status) {
        return Verdict::Failed(Reason::PermanentByPolicy);
    }
    match status {
        200..=299 => Verdict::Sent,
        300..=399 => retry(Reason::Redirected),
        401 => retry(Reason::Unauthorized),
        403 => retry(Reason::Forbidden),
        404 => retry(Reason::NotFound),
        408 | 425 => retry(Reason::NotReady),
        410 => Verdict::Failed(Reason::Gone),
        413 => retry(Reason::PayloadTooLarge),
        429 => retry(Reason::RateLimited),
        500..=599 => retry(Reason::ServerError),
        _ => retry(Reason::Rejected),
    }
}

fn of_push_service(response: &Response, signed_again: bool, overrides: Overrides<'_>) -> Verdict {
    let status = response.status;
    let retry = |reason| retry_of(response, reason);
    if (400..=599).contains(&status) && !NOT_OVERRIDABLE_WEB_PUSH.contains(&status) {
        if overrides.permanent.contains(&status) {
            return Verdict::Failed(Reason::PermanentByPolicy);
        }
        if overrides.retryable.contains(&status) {
            return retry(Reason::RetryableByPolicy);
        }
    }
    let unauthorized =
        || if signed_again { Verdict::Failed(Reason::Unauthorized) } else { Verdict::SignAgain };
    match provider::meaning(response) {
        Some(Meaning::BadToken) => return unauthorized(),
        Some(Meaning::KeyMismatch) => return Verdict::Failed(Reason::Forbidden),
        Some(Meaning::RateLimited) => return retry(Reason::RateLimited),
        None => {}
    }
    match status {
        200..=299 => Verdict::Sent,
        300..=399 => Verdict::Failed(Reason::Redirected),
        401 => unauthorized(),
        403 => Verdict::Failed(Reason::Forbidden),
        404 => Verdict::Gone { confirmed: false },
        408 | 425 => retry(Reason::NotReady),
        410 => Verdict::Gone { confirmed: true },
        413 => Verdict::Failed(Reason::PayloadTooLarge),
        429 => retry(Reason::RateLimited),
        500..=599 => retry(Reason::ServerError),
        // 400, every other 4xx, and what is no final HTTP status at all (1xx, 6xx and beyond).
        _ => Verdict::Failed(Reason::Rejected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::response;
    use crate::outcome::{InDoubt, NotSent};

    fn judge(status: u16, headers: &[(&str, &str)], body: &str) -> Verdict {
        web_push(&answer(status, headers, body), false, Overrides::default())
    }

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Outcome {
        Outcome::Response(response(status, headers, body))
    }

    fn retry(reason: Reason) -> Verdict {
        Verdict::Retry(Retry { reason, in_doubt: false, retry_after: None })
    }

    #[test]
    fn every_status_from_100_to_599_has_its_verdict() {
        for status in 100..=599 {
            let expected = match status {
                100..=199 => Verdict::Failed(Reason::Rejected),
                200..=299 => Verdict::Sent,
                300..=399 => Verdict::Failed(Reason::Redirected),
                401 => Verdict::SignAgain,
                403 => Verdict::Failed(Reason::Forbidden),
                404 => Verdict::Gone { confirmed: false },
                410 => Verdict::Gone { confirmed: true },
                413 => Verdict::Failed(Reason::PayloadTooLarge),
                408 | 425 => retry(Reason::NotReady),
                429 => retry(Reason::RateLimited),
                400 | 402 | 405..=407 | 409 | 411 | 412 | 414..=424 | 426..=428 | 430..=499 => {
                    Verdict::Failed(Reason::Rejected)
                }
                _ => retry(Reason::ServerError),
            };
            assert_eq!(judge(status, &[], ""), expected, "{status}");
        }
    }

    #[test]
    fn on_a_webhook_everything_but_2xx_and_410_is_retried() {
        let every: Vec<u16> = (100..=599).collect();
        for status in 100..=599 {
            let of = |overrides| webhook(&answer(status, &[("retry-after", "17")], ""), overrides);
            let permanent = of(Overrides { retryable: &[], permanent: &every });
            match (status, of(Overrides::default())) {
                (200..=299, verdict) => assert_eq!(verdict, Verdict::Sent),
                (410, verdict) => {
                    assert_eq!((&verdict, &permanent), (&Verdict::Failed(Reason::Gone), &verdict))
                }
                (_, Verdict::Retry(retry)) => {
                    assert_eq!((retry.retry_after, retry.in_doubt), (Some(Duration::from_secs(17)), false));
                    let by_policy = permanent == Verdict::Failed(Reason::PermanentByPolicy);
                    assert_eq!(by_policy, (400..=599).contains(&status), "{status}");
                }
                (_, other) => panic!("{status}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_a_push_service_says_besides_the_status_counts() {
        let after = |reason, secs| {
            Verdict::Retry(Retry { reason, in_doubt: false, retry_after: Some(Duration::from_secs(secs)) })
        };
        let throttled = [("x-wns-status", "appthrottled"), ("retry-after", "900")];
        let wait = [("retry-after", "17")];
        // A key mismatch never removes a subscription.
        let mismatch = r#"{"reason":"VapidPkHashMismatch"}"#;
        for (status, headers, body, expected) in [
            (408, &wait[..], "", after(Reason::NotReady, 17)),
            (425, &wait, "", after(Reason::NotReady, 17)),
            (429, &wait, "", after(Reason::RateLimited, 17)),
            (500, &wait, "", after(Reason::ServerError, 17)),
            (503, &wait, "", after(Reason::ServerError, 17)),
            (406, &throttled, "", after(Reason::RateLimited, 900)),
            (406, &[], "", Verdict::Failed(Reason::Rejected)),
            (403, &[], "<html/>", Verdict::Failed(Reason::Forbidden)),
            (400, &[], mismatch, Verdict::Failed(Reason::Forbidden)),
        ] {
            assert_eq!(judge(status, headers, body), expected, "{status} {body}");
        }
        let second = web_push(&answer(401, &[], r#"{"errno":109}"#), true, Overrides::default());
        assert_eq!(second, Verdict::Failed(Reason::Unauthorized), "a second 401 is final");
    }

    #[test]
    fn failures_without_an_answer_are_in_doubt_or_not_sent() {
        let in_doubt = Retry { reason: Reason::InDoubt, in_doubt: true, retry_after: None };
        for (outcome, expected) in [
            (Outcome::NotSent(NotSent::Dns), retry(Reason::NotSent)),
            (Outcome::InDoubt(InDoubt::Timeout), Verdict::Retry(in_doubt)),
            (
                Outcome::Impossible(Impossible::EndpointNotAllowed),
                Verdict::Failed(Reason::EndpointNotAllowed),
            ),
        ] {
            assert_eq!(web_push(&outcome, false, Overrides::default()), expected);
            assert_eq!(webhook(&outcome, Overrides::default()), expected);
        }
    }

    #[test]
    fn a_policy_overrides_4xx_and_5xx_except_four() {
        let every: Vec<u16> = (100..=599).collect();
        let retryable = Overrides { retryable: &every, permanent: &[] };
        let permanent = Overrides { retryable: &[], permanent: &every };
        for status in 100..=599 {
            let of = |overrides| web_push(&answer(status, &[], ""), false, overrides);
            let fixed = !(400..=599).contains(&status) || NOT_OVERRIDABLE_WEB_PUSH.contains(&status);
            let expected = if fixed {
                [of(Overrides::default()), of(Overrides::default())]
            } else {
                [retry(Reason::RetryableByPolicy), Verdict::Failed(Reason::PermanentByPolicy)]
            };
            assert_eq!([of(retryable), of(permanent)], expected, "{status}");
        }
    }
}
