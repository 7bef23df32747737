//! This machine's clock against the service's.
//!
//! Signatures carry the time, and AWS refuses those that are more than five minutes off; VAPID tokens and webhooks' signatures
//! that are made here are refused likewise. The functions' own clocks are AWS's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use aws_sdk_lambda::{
    config::{
        ConfigBag, Intercept, RuntimeComponents, interceptors::BeforeDeserializationInterceptorContextRef,
    },
    error::BoxError,
};
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{report::Report, stack::Stack};

/// Beyond this it is worth a look.
const WARNING: Duration = Duration::from_secs(30);

/// Beyond this AWS refuses signatures.
const FAULT: Duration = Duration::from_secs(5 * 60);

/// What stands for no time at all.
const NONE: i64 = i64::MIN;

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("clock");
    let seen = SeenDate::default();
    let config = aws_sdk_lambda::config::Builder::from(&stack.target.sdk).interceptor(seen.clone()).build();
    let lambda = aws_sdk_lambda::Client::from_conf(config);
    // Whatever the answer is, it is dated.
    let _answer = lambda.get_function_configuration().function_name(&stack.target.dispatch).send().await;
    match seen.ahead_ms() {
        Some(ahead_ms) => judge(ahead_ms, &mut report),
        None => report.unchecked("this machine's clock", "the service's answer has no date"),
    }
    report
}

/// Sees the date of an answer the moment that it comes.
#[derive(Clone, Debug)]
struct SeenDate(Arc<AtomicI64>);

impl Default for SeenDate {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(NONE)))
    }
}

impl SeenDate {
    /// By how much this machine's clock is ahead.
    fn ahead_ms(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|ahead| *ahead != NONE)
    }
}

#[dyn_dispatch_hint]
impl Intercept for SeenDate {
    fn name(&self) -> &'static str {
        "SeenDate"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").and_then(http_date);
        if let Some(date) = date {
            self.0.store(ahead_ms(System.now(), date), Ordering::Relaxed);
        }
        Ok(())
    }
}

fn http_date(text: &str) -> Option<Timestamp> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_secs(i64::try_from(since.as_secs()).ok()?))
}

/// A date has whole seconds: up to one of them is no difference.
fn ahead_ms(now: Timestamp, date: Timestamp) -> i64 {
    let ahead = now.as_ms() - date.as_ms();
    if (0..1_000).contains(&ahead) { 0 } else { ahead }
}

fn judge(ahead_ms: i64, report: &mut Report) {
    let off = Duration::from_millis(ahead_ms.unsigned_abs());
    let direction = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let found = format!("this machine's clock is {} s {direction} the service's", off.as_secs());
    if off > FAULT {
        report.fault(found, "set it, best by NTP: AWS refuses what is signed more than five minutes off");
    } else if off > WARNING {
        report.warning(found, "set it, best by NTP, before it is off by five minutes");
    } else {
        report.well("this machine's clock and the service's agree to within 30 s");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ahead_ms: i64) -> Vec<String> {
        let mut report = Report::new("clock");
        judge(ahead_ms, &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn a_clock_is_off_by_more_than_thirty_seconds() {
        assert_eq!(found(30_000), [""; 0]);
        assert_eq!(found(31_000), ["this machine's clock is 31 s ahead of the service's"]);
        assert_eq!(found(-301_000), ["this machine's clock is 301 s behind the service's"]);
    }

    #[test]
    fn a_date_is_read_and_its_second_is_no_difference() {
        let date = http_date("Sat, 21 Nov 2026 10:00:00 GMT").expect("a date");
        assert_eq!(date.to_rfc3339_seconds(), "2026-11-21T10:00:00Z");
        assert_eq!(ahead_ms(date.plus(Duration::from_millis(999)), date), 0);
        assert_eq!(ahead_ms(date.minus(Duration::from_secs(2)), date), -2_000);
        assert_eq!(http_date("yesterday"), None);
    }
}
