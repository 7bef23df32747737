//! A bus of EventBridge's.
//!
//! A call takes up to ten events of 256 KB together. One that succeeds may have failed entries: each event has an answer of its own.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::operation::put_events::PutEventsOutput;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use redial_core::relay::{BusEvent, SOURCE};
use redial_engine::ports::{EventBus, PortError};

use crate::aws_error;
use crate::on_first_use::OnFirstUse;

const PUT: &str = "PutEvents";

/// PutEvents' limits (API reference; Amazon EventBridge User Guide, "Calculating PutEvents event entry size").
const MOST_ENTRIES: usize = 10;
const MOST_BYTES: usize = 262_144;

/// Beside an entry's texts: its time.
const BYTES_OF_TIME: usize = 14;

#[derive(Clone, Debug)]
pub struct EventBridgeBus {
    client: OnFirstUse<Client>,
    /// The bus's ARN. A bus of another account takes nothing but an ARN.
    arn: String,
}

impl EventBridgeBus {
    pub fn new(client: impl Into<OnFirstUse<Client>>, arn: String) -> Self {
        Self { client: client.into(), arn }
    }

    async fn put_some(&self, events: &[BusEvent]) -> Result<PutEventsOutput, PortError> {
        let entry = |event: &BusEvent| {
            PutEventsRequestEntry::builder()
                .event_bus_name(&self.arn)
                .source(SOURCE)
                .detail_type(&event.detail_type)
                .detail(&event.detail)
                .set_time(event.at.map(|at| DateTime::from_millis(at.as_ms())))
                .build()
        };
        let put = self.client.put_events().set_entries(Some(events.iter().map(entry).collect())).send();
        Box::pin(put).await.map_err(|error| aws_error::of_call(PUT, &error))
    }
}

impl EventBus for EventBridgeBus {
    async fn put(&self, events: Vec<BusEvent>) -> Vec<Result<(), PortError>> {
        let mut answers = Vec::with_capacity(events.len());
        let mut rest = events.as_slice();
        while !rest.is_empty() {
            let (some, after) = rest.split_at(fitting(rest));
            let put = self.put_some(some).await;
            answers.extend((0..some.len()).map(|at| match &put {
                Ok(output) => answer(output, at),
                Err(error) => Err(error.clone()),
            }));
            rest = after;
        }
        answers
    }
}

/// How many of these one call takes: at least one.
fn fitting(events: &[BusEvent]) -> usize {
    let mut bytes = 0;
    let fit = events.iter().take(MOST_ENTRIES).take_while(|event| {
        bytes += SOURCE.len() + event.detail_type.len() + event.detail.len() + BYTES_OF_TIME;
        bytes <= MOST_BYTES
    });
    fit.count().max(1)
}

/// Entries are answered in the order of the request.
fn answer(output: &PutEventsOutput, at: usize) -> Result<(), PortError> {
    match output.entries().get(at) {
        None => Err(aws_error::of_code(PUT, "NotAnswered")),
        Some(entry) if entry.event_id().is_some() => Ok(()),
        Some(entry) => Err(aws_error::of_code(PUT, entry.error_code().unwrap_or("NotAnswered"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use http_body_util::Full;
    use redial_core::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::receiver::{Receiver, sdk_at};

    const BUS: &str = "arn:aws:events:us-east-1:210987654321:event-bus/app";

    fn event(number: usize, bytes: usize) -> BusEvent {
        let detail = json!({"id": format!("m{number}"), "filler": "x".repeat(bytes)}).to_string();
        let at = Some(Timestamp::from_ms(1_795_255_200_000));
        BusEvent { detail_type: "delivery.sent".to_owned(), detail, at }
    }

    /// A bus that refuses the events of these numbers, and the calls that it heard.
    async fn refusing(refused: &'static [usize]) -> (EventBridgeBus, Arc<Mutex<Vec<Value>>>, Receiver) {
        let calls: Arc<Mutex<Vec<Value>>> = Arc::default();
        let heard = calls.clone();
        let receiver = Receiver::plain_http(move |request| {
            assert_eq!(request.headers()["x-amz-target"], "AWSEvents.PutEvents");
            let body: Value = serde_json::from_slice(request.body()).expect("JSON");
            let answer = |entry: &Value| {
                let detail = entry["Detail"].as_str().expect("a text");
                match refused.iter().find(|n| detail.contains(&format!("\"m{n}\""))) {
                    Some(_) => json!({"ErrorCode": "ThrottlingException", "ErrorMessage": "s3cret"}),
                    None => json!({"EventId": "e"}),
                }
            };
            let entries: Vec<Value> =
                body["Entries"].as_array().expect("a list").iter().map(answer).collect();
            heard.lock().expect("no panic").push(body);
            let answered = json!({"FailedEntryCount": 1, "Entries": entries});
            async move { io::Result::Ok(http::Response::new(Full::from(answered.to_string()))) }
        })
        .await;
        let bus = EventBridgeBus::new(Client::new(&sdk_at(receiver.port)), BUS.to_owned());
        (bus, calls, receiver)
    }

    #[tokio::test]
    async fn each_event_has_its_own_answer_and_a_call_takes_ten() {
        let (bus, calls, _receiver) = refusing(&[3, 11]).await;
        let answers = bus.put((0..12).map(|n| event(n, 1)).collect()).await;
        let throttled = Err(aws_error::of_code(PUT, "ThrottlingException"));
        for (number, answer) in answers.iter().enumerate() {
            let expected = if [3, 11].contains(&number) { throttled.clone() } else { Ok(()) };
            assert_eq!(*answer, expected, "{number}");
        }
        assert!(answers[3].as_ref().is_err_and(|error| error.throttled));
        let calls = calls.lock().expect("no panic");
        let sizes: Vec<usize> =
            calls.iter().map(|call| call["Entries"].as_array().map_or(0, Vec::len)).collect();
        assert_eq!(sizes, [10, 2]);
        let mut first = calls[0]["Entries"][0].clone();
        assert_eq!(first["Time"].take().as_f64(), Some(1_795_255_200.0));
        let expected = json!({
            "EventBusName": BUS, "Source": "redial", "DetailType": "delivery.sent", "Detail": event(0, 1).detail, "Time": null,
        });
        assert_eq!(first, expected);
    }

    #[test]
    fn a_call_is_within_the_limits_and_takes_at_least_one() {
        let of = |bytes: &[usize]| fitting(&bytes.iter().map(|bytes| event(0, *bytes)).collect::<Vec<_>>());
        assert_eq!(of(&[1; 11]), 10);
        assert_eq!(of(&[100_000; 4]), 2);
        assert_eq!(of(&[300_000, 1]), 1);
    }

    #[test]
    fn an_entry_without_an_answer_is_not_taken() {
        let output = PutEventsOutput::builder().failed_entry_count(0).build();
        assert_eq!(answer(&output, 0), Err(aws_error::of_code(PUT, "NotAnswered")));
    }
}
