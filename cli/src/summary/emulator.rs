//! How old each queue's oldest message is on the embedded emulator, which has no metrics of queues but shows their messages.
//!
//! An age is counted as SQS counts it: from the sending, of messages that wait or are in flight. Of a message nothing but its
//! times is looked at.

use std::{collections::HashMap, time::Duration};

use redial_core::time::Timestamp;
use serde::Deserialize;

use super::{
    metrics::Ages,
    queues::{Place, name_in},
};
use crate::target::Target;

const TIMEOUT: Duration = Duration::from_secs(20);

const PATH: &str = "/_ministack/sqs/messages";

/// Queues by account, region and URL.
#[derive(Deserialize)]
struct Shown {
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

/// The ages; `None` if this is an emulator of another kind, or none.
pub(super) async fn ages(target: &Target, now: Timestamp) -> Option<Ages> {
    let endpoint = target.sdk.endpoint_url().filter(|_| target.is_emulated())?;
    let url = format!("{}{PATH}", endpoint.trim_end_matches('/'));
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(TIMEOUT).build().ok()?;
    let answer = client.get(url).send().await.ok()?;
    let shown = answer.error_for_status().ok()?.text().await.ok()?;
    let shown: Shown = serde_json::from_str(&shown).ok()?;
    Some(Place::ALL.map(|place| age(&shown, place.name(target), now)))
}

fn age(shown: &Shown, queue: &str, now: Timestamp) -> Option<Duration> {
    let queues = shown.messages.values().flat_map(HashMap::values).flatten();
    let of_it = queues.filter(|(url, _)| name_in(url) == queue).flat_map(|(_, messages)| messages);
    let is_there = |message: &&Message| message.is_visible || message.receive_count > 0;
    let oldest = of_it.filter(is_there).map(|message| message.sent_timestamp).min()?;
    Some(now.since(Timestamp::from_secs(oldest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_waits_or_is_in_flight_counts_and_what_is_delayed_does_not() {
        let shown = r#"{"messages": {"000000000000": {"us-east-1": {
            "http://localhost:4566/000000000000/a-ingest": [
                {"SentTimestamp": 100, "VisibleAt": 900, "IsVisible": false, "ReceiveCount": 0, "Body": "s3cret"},
                {"SentTimestamp": 300, "VisibleAt": 300, "IsVisible": true, "ReceiveCount": 0},
                {"SentTimestamp": 200, "VisibleAt": 900, "IsVisible": false, "ReceiveCount": 1}
            ],
            "http://localhost:4566/000000000000/a-bulk": []
        }}}}"#;
        let shown: Shown = serde_json::from_str(shown).expect("as it is shown");
        let age = |queue| age(&shown, queue, Timestamp::from_secs(500));
        assert_eq!((age("a-ingest"), age("a-bulk"), age("b")), (Some(Duration::from_secs(300)), None, None));
    }
}
