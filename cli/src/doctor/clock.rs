//! This machine's clock against the service's.
//!
//! Signatures carry the time, and AWS refuses those that are more than five minutes off; so do receivers of VAPID tokens and
//! webhook signatures that this machine makes. The functions' clocks are AWS's.

use std::{
    sync::{Arc, OnceLock},
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

/// A difference of more than this is a warning.
const WARNING: Duration = Duration::from_secs(30);

/// AWS refuses signatures with a larger difference.
const FAULT: Duration = Duration::from_secs(5 * 60);

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let seen = SeenDate::default();
    let config = aws_sdk_lambda::config::Builder::from(&stack.target.sdk).interceptor(seen.clone()).build();
    let lambda = aws_sdk_lambda::Client::from_conf(config);
    // Errors are dated, too.
    let _response = lambda.get_function_configuration().function_name(&stack.target.dispatch).send().await;
    match seen.0.get() {
        Some(ahead_ms) => judge(*ahead_ms, report),
        None => report.unchecked("this machine's clock", "the service's response has no date"),
    }
}

/// By how many milliseconds this machine's clock was ahead of the date of the first response when that arrived.
#[derive(Clone, Debug, Default)]
struct SeenDate(Arc<OnceLock<i64>>);

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
            self.0.get_or_init(|| ahead_ms(System.now(), date));
        }
        Ok(())
    }
}

fn http_date(text: &str) -> Option<Timestamp> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_secs(i64::try_from(since.as_secs()).ok()?))
}

/// A date has whole seconds, so less than one second ahead is no difference.
fn ahead_ms(now: Timestamp, date: Timestamp) -> i64 {
    let ahead = now.as_ms() - date.as_ms();
    if (0..1_000).contains(&ahead) { 0 } else { ahead }
}

fn judge(ahead_ms: i64, report: &mut Report) {
    let off = Duration::from_millis(ahead_ms.unsigned_abs());
    let direction = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let found = format!("this machine's clock is {} s {direction} the service's", off.as_secs());
    if off > FAULT {
        report.fault(
            found,
            "set it, preferably by NTP: AWS refuses signatures that are more than five minutes off",
        );
    } else if off > WARNING {
        report.warning(found, "set it, preferably by NTP, before it is off by five minutes");
    } else {
        report.well("this machine's clock and the service's agree to within 30 s");
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    #[test]
    fn a_clock_that_is_more_than_thirty_seconds_off_is_found() {
        for (ahead_ms, expected) in [
            (30_000, ""),
            (31_000, "warning: this machine's clock is 31 s ahead of the service's"),
            (-301_000, "fault: this machine's clock is 301 s behind the service's"),
        ] {
            finds(expected, |report| judge(ahead_ms, report));
        }
    }

    #[test]
    fn a_date_is_parsed_and_its_second_is_no_difference() {
        let date = http_date("Sat, 21 Nov 2026 10:00:00 GMT").expect("a date");
        assert_eq!(date.to_rfc3339_seconds(), "2026-11-21T10:00:00Z");
        assert_eq!(ahead_ms(date.plus(Duration::from_millis(999)), date), 0);
        assert_eq!(ahead_ms(date.minus(Duration::from_secs(2)), date), -2_000);
        assert_eq!(http_date("yesterday"), None);
    }
}
