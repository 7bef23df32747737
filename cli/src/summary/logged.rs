//! What a stack did in the last minutes, on an emulator: none makes metrics of what functions write for CloudWatch in their logs
//! (embedded metric format), but the lines are there. The embedded emulator may have those that a function writes last only with
//! its next invocation, so the numbers may lag.

use redial_adapters::telemetry::{LANE, NAMESPACE, STACK};
use redial_core::{lane::Lane, metric::Metric, time::Timestamp};
use serde_json::Value;

use super::flow::{self, Flow};
use crate::{
    stack::Target,
    tail::{Asked, CloudWatchLogs, Logs as _, groups},
};

/// What was logged; `None` if it is no emulator, if its logs cannot be read, or if nothing was.
pub(super) async fn flow(target: &Target, now: Timestamp) -> Option<Flow> {
    if !target.is_emulated() {
        return None;
    }
    let since = now.minus(flow::OF);
    let logs = CloudWatchLogs::new(&target.sdk);
    let mut told = None;
    for group in groups(target).await.ok()? {
        let mut token: Option<String> = None;
        loop {
            let asked = Asked { group: &group.name, since, pattern: "", token: token.as_deref() };
            let page = logs.page(asked).await.ok()?;
            for line in page.lines {
                add(&line.text, &mut told);
            }
            token = page.next;
            if token.is_none() {
                break;
            }
        }
    }
    told
}

/// Adds what a line tells, if it is one of metrics.
fn add(line: &str, told: &mut Option<Flow>) {
    // Most lines are of attempts, and not worth a parser's time.
    if !line.contains("\"_aws\"") {
        return;
    }
    let Ok(line) = serde_json::from_str::<Value>(line) else { return };
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
        if directive["Namespace"] != NAMESPACE {
            continue;
        }
        let flow = told.get_or_insert_default();
        for dimensions in directive["Dimensions"].as_array().into_iter().flatten() {
            let names: Vec<&str> =
                dimensions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let lane = match names.as_slice() {
                [STACK] => None,
                [STACK, LANE] => match line[LANE].as_str().and_then(Lane::from_label) {
                    Some(lane) => Some(lane),
                    None => continue,
                },
                _ => continue,
            };
            for metric in Metric::ALL {
                if let Some(n) = line[metric.label()].as_u64() {
                    flow.add(metric, lane, n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_metrics_are_added_up_and_others_passed_over() {
        let mut told = None;
        for line in [
            "START RequestId: 1",
            r#"{"event":"attempt","verdict":"sent","note":"\"_aws\""}"#,
            r#"{"_aws":{"CloudWatchMetrics":[{"Namespace":"Another","Dimensions":[["Stack"]]}]},"Sent":99}"#,
        ] {
            add(line, &mut told);
        }
        assert_eq!(told, None);
        let line = |dimensions: &str, counts: &str| {
            format!(
                r#"{{"_aws":{{"CloudWatchMetrics":[{{"Namespace":"Redial","Dimensions":[[{dimensions}]]}}]}},"Stack":"s",{counts}}}"#
            )
        };
        for line in [
            line(r#""Stack""#, r#""Attempts":3,"Sent":2,"RetryOverhead":[1.5]"#),
            line(r#""Stack""#, r#""Attempts":1,"Sent":1"#),
            line(r#""Stack","Lane""#, r#""Lane":"bulk","Sent":2,"DeadLetters":1"#),
            line(r#""Stack","Lane""#, r#""Lane":"another","Sent":40"#),
            line(r#""Stack","Reason""#, r#""Reason":"rejected","DeadLetters":50"#),
        ] {
            add(&line, &mut told);
        }
        let flow = told.expect("something was told");
        assert_eq!(flow.counted, [4, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!((flow.sent(Lane::Bulk), flow.failed(Lane::Bulk)), (2, 1));
        assert_eq!((flow.sent(Lane::Transactional), flow.failed(Lane::Transactional)), (0, 0));
    }
}
