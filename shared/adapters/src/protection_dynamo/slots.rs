//! Blocks of slots of a token bucket: [`Request::judge`] as conditional writes.
//!
//! A block of a bucket in use costs one write, whose condition is that slots are free soon enough; any number of workers can make it at
//! the same time without failing each other. A block of an idle bucket costs three calls: that write fails, a read shows why, and a
//! second write starts the bucket. The time from which slots are free never goes back, so a start that fails has been overtaken
//! by another worker's, and then the first write succeeds, or no slot is free soon enough.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::protection::token_bucket::{Answer, Request};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::DynamoProtection;
use crate::aws_error;
use crate::table::attributes::{Item, Read, expiry, key, ms, n, s};

/// How long a bucket is kept after its last leased slot.
const KEPT: Duration = Duration::from_secs(3600);

/// Two suffice, unless the item expires between two calls.
const ROUNDS: usize = 3;

impl DynamoProtection {
    pub(super) async fn lease_block(&self, request: &Request) -> Result<Answer, PortError> {
        let key = key(format!("bucket#{}", request.key), "slots");
        for _ in 0..ROUNDS {
            if let Some(begin) = self.next_block(&key, request).await? {
                return Ok(Answer::Leased { begin });
            }
            let free_from = self.table.get(key.clone()).await?.and_then(|item| item.time("free_from"));
            let answer = request.judge(free_from);
            let is_idle = free_from.is_none_or(|at| at < request.now);
            match answer {
                Answer::Empty { .. } => return Ok(answer),
                Answer::Leased { begin } if is_idle => {
                    if self.restart(&key, request, begin).await? {
                        return Ok(answer);
                    }
                }
                // Another worker has started it meanwhile.
                Answer::Leased { .. } => {}
            }
        }
        Err(aws_error::of_code("UpdateItem", "ConditionalCheckFailedException"))
    }

    /// Takes the block after the last leased one, if that begins soon enough and not before now.
    async fn next_block(&self, key: &Item, request: &Request) -> Result<Option<Timestamp>, PortError> {
        let values = [(":span", n(request.span.as_millis())), (":now", ms(request.now))];
        let expression = "SET #free_from = #free_from + :span";
        let update = self.table.update(key.clone(), expression, values).return_values(ReturnValue::AllNew);
        let update = match request.latest {
            Some(latest) => update
                .condition_expression("#free_from >= :now AND #free_from <= :latest")
                .expression_attribute_values(":latest", ms(latest)),
            None => update.condition_expression("#free_from >= :now"),
        };
        let Some(item) = self.table.send(update).await?.attributes() else { return Ok(None) };
        let free_from =
            item.time("free_from").ok_or_else(|| aws_error::of_code("UpdateItem", "AnswerTooShort"))?;
        // The bucket's expiry is extended when half of it is over: one write in half an hour.
        let expires_at = item.expires_at();
        if expires_at.is_none_or(|at| at < free_from.plus(KEPT / 2)) {
            self.keep_until(key.clone(), free_from.plus(KEPT)).await;
        }
        Ok(Some(free_from.minus(request.span)))
    }

    /// Takes a block from `begin` on, if all earlier blocks are over.
    async fn restart(&self, key: &Item, request: &Request, begin: Timestamp) -> Result<bool, PortError> {
        let free_from = begin.plus(request.span);
        let values = [
            (":free_from", ms(free_from)),
            (":expires_at", expiry(free_from.plus(KEPT))),
            (":now", ms(request.now)),
            (":number", s("N")),
        ];
        let expression = "SET #free_from = :free_from, #expires_at = :expires_at";
        let condition = "attribute_not_exists(#free_from) OR #free_from < :now OR NOT attribute_type(#free_from, :number)";
        self.table.update_if(key.clone(), expression, condition, values).await
    }
}
