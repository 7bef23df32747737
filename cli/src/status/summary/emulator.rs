//! What CloudWatch's metrics are for on AWS, read from an emulator, which has no metrics of queues and makes none of what functions
//! log in the embedded metric format.
//!
//! The embedded emulator lists the messages of its queues: an age is counted as SQS counts it, from the sending, for messages
//! that wait or are in flight; of a message only its times are read. The lines of metrics are in the functions' logs. The
//! emulator may write a function's last lines only with its next invocation, so the numbers may lag.

use std::{collections::HashMap, time::Duration};

use redial_adapters::telemetry::{LANE, NAMESPACE, STACK};
use redial_core::{lane::Lane, metric::Metric, time::Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{
    flow::{self, Flow},
    metrics::Ages,
    queues::{Place, name_in},
};
use crate::{
    tail::{CloudWatchLogs, Logs as _, Range, groups},
    target::Target,
};

const TIMEOUT: Duration = Duration::from_secs(20);

const PATH: &str = "/_ministack/sqs/messages";

/// Queues by account, region and URL.
#[derive(Deserialize)]
struct Queues {
    messages: HashMap<String, HashMap<String, HashMap<String, Vec<Message>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Message {
    /// In seconds.
    sent_timestamp: i64,
    is_visible: bool,
    receive_count: u64,
}

/// The age of each queue's oldest message; `None` on AWS and on other emulators.
pub(super) async fn ages(target: &Target, now: Timestamp) -> Option<Ages> {
    let endpoint = target.sdk.endpoint_url().filter(|_| target.is_emulated())?;
    let url = format!("{}{PATH}", endpoint.trim_end_matches('/'));
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(TIMEOUT).build().ok()?;
    let response = client.get(url).send().await.ok()?.error_for_status().ok()?;
    let queues: Queues = serde_json::from_str(&response.text().await.ok()?).ok()?;
    Some(Place::ALL.map(|place| age(&queues, place.name(target), now)))
}

fn age(queues: &Queues, name: &str, now: Timestamp) -> Option<Duration> {
    let queues = queues.messages.values().flat_map(HashMap::values).flatten();
    let messages = queues.filter(|(url, _)| name_in(url) == name).flat_map(|(_, messages)| messages);
    let counts = |message: &&Message| message.is_visible || message.receive_count > 0;
    let oldest = messages.filter(counts).map(|message| message.sent_timestamp).min()?;
    Some(now.since(Timestamp::from_secs(oldest)))
}

/// The metrics in the logs; `None` on AWS, if the logs cannot be read, or if nothing was logged.
pub(super) async fn flow(target: &Target, now: Timestamp) -> Option<Flow> {
    if !target.is_emulated() {
        return None;
    }
    let since = now.minus(flow::PERIOD);
    let logs = CloudWatchLogs::new(&target.sdk);
    let mut flow = None;
    for group in groups(target).await.ok()? {
        let mut token: Option<String> = None;
        loop {
            let range = Range { group: &group.name, since, pattern: "", token: token.as_deref() };
            let page = logs.page(range).await.ok()?;
            page.lines.iter().for_each(|line| add(&line.text, &mut flow));
            token = page.next;
            if token.is_none() {
                break;
            }
        }
    }
    flow
}

/// Adds the counts of a line, if it is one of metrics.
fn add(line: &str, flow: &mut Option<Flow>) {
    // Most lines are of attempts, which need no parsing.
    if !line.contains("\"_aws\"") {
        return;
    }
    let Ok(line) = serde_json::from_str::<Value>(line) else { return };
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
        if directive["Namespace"] != NAMESPACE {
            continue;
        }
        let flow = flow.get_or_insert_default();
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
    fn the_oldest_message_that_waits_or_is_in_flight_counts() {
        let queues = r#"{"messages": {"000000000000": {"us-east-1": {
            "http://localhost:4566/000000000000/a-ingest": [
                {"SentTimestamp": 100, "VisibleAt": 900, "IsVisible": false, "ReceiveCount": 0, "Body": "s3cret"},
                {"SentTimestamp": 300, "VisibleAt": 300, "IsVisible": true, "ReceiveCount": 0},
                {"SentTimestamp": 200, "VisibleAt": 900, "IsVisible": false, "ReceiveCount": 1}
            ],
            "http://localhost:4566/000000000000/a-bulk": []
        }}}}"#;
        let queues: Queues = serde_json::from_str(queues).expect("as the emulator has it");
        let age = |name| age(&queues, name, Timestamp::from_secs(500));
        assert_eq!((age("a-ingest"), age("a-bulk"), age("b")), (Some(Duration::from_secs(300)), None, None));
    }

    #[test]
    fn lines_of_metrics_are_added_up_and_others_are_ignored() {
        let mut flow = None;
        for line in [
            "START RequestId: 1",
            r#"{"event":"attempt","verdict":"sent","note":"\"_aws\""}"#,
            r#"{"_aws":{"CloudWatchMetrics":[{"Namespace":"Another","Dimensions":[["Stack"]]}]},"Sent":99}"#,
        ] {
            add(line, &mut flow);
        }
        assert_eq!(flow, None);
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
            add(&line, &mut flow);
        }
        let flow = flow.expect("lines of metrics");
        assert_eq!(flow.counted, [4, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!((flow.sent(Lane::Bulk), flow.failed(Lane::Bulk)), (2, 1));
        assert_eq!((flow.sent(Lane::Transactional), flow.failed(Lane::Transactional)), (0, 0));
    }
}
