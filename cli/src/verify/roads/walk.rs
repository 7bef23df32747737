//! One message down its road: sent as a producer sends it, and followed in the ledger until it has ended.

use std::time::Duration;

use redial_core::{identity::DeliveryId, lane::Lane};
use serde_json::Value;

use super::{
    road::{End, Road},
    view::View,
};
use crate::{aws_error::classified, failure::Failure, stack::Target, status::standing};

/// Between two looks at a delivery.
const PAUSE: Duration = Duration::from_secs(1);

/// How often an ended delivery is looked at for the dead letter that follows it.
const LOOKS_AFTER_THE_END: u32 = 20;

/// Sends the road's message, and waits until it has ended as it has to, or the road's time is over; then how it is.
pub(super) async fn walk(
    target: &Target,
    road: &Road,
    tenant: &str,
    message: &Value,
    view: &View,
) -> Result<End, String> {
    let queue = match road.lane {
        Lane::Transactional => &target.queues.ingest,
        Lane::Bulk => &target.queues.bulk,
    };
    let sqs = aws_sdk_sqs::Client::new(&target.sdk);
    let sent = sqs.send_message().queue_url(queue).message_body(message.to_string()).send().await;
    classified("sqs:SendMessage", sent).map_err(|error| error.in_words())?;
    let id = DeliveryId::parse(road.name).ok_or("the message's id is not valid")?;
    let mut last = Ok(End { state: None, reason: None, attempt: None, dead_letters: 0 });
    let ended = async {
        let mut looks_after_the_end = 0;
        while last.as_ref().ok() != Some(&road.expected) && looks_after_the_end < LOOKS_AFTER_THE_END {
            if let Ok(end) = &last {
                view.note(road, end);
            }
            tokio::time::sleep(PAUSE).await;
            match standing(target, tenant, &id).await {
                Ok(Some(standing)) => {
                    looks_after_the_end += u32::from(standing.is_final());
                    last = Ok(end(&standing.to_json()));
                }
                Ok(None) => {}
                Err(failure) => last = Err(words(failure)),
            }
        }
    };
    let _in_time = tokio::time::timeout(road.limit, ended).await;
    last
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Input(lines) => lines.join("; "),
        Failure::Failed(error) => error.to_string(),
        Failure::Reported => "the delivery cannot be read".to_owned(),
    }
}

/// Of the JSON that `redial status` prints.
pub(super) fn end(status: &Value) -> End {
    let text = |name: &str| status[name].as_str().map(str::to_owned);
    let state = text("state");
    // The ledger keeps the reason of the last attempt that failed.
    let reason = text("reason").filter(|_| state.as_deref() == Some("failed"));
    // The ledger counts from 0.
    let attempt = status["attempt"].as_u64().map(|attempt| attempt + 1);
    let dead_letters = status["dead_letters"].as_array().map_or(0, Vec::len);
    End { state, reason, attempt, dead_letters }
}
