//! Blocks of slots: [`Request::judge`] in DynamoDB's words.
//!
//! Of a bucket that is in use a block costs one write, whose condition says that slots are free soon enough, and which any
//! number of workers make at the same time without failing each other. Of an idle one it costs three calls: that write fails, a
//! read says why, and another write begins anew at `now`. The moment from which slots are free never goes back, so a
//! beginning that fails has been overtaken by another, and the first write succeeds then, or no slot is free soon enough.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use redial_core::protection::token_bucket::{Answer, Request};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::DynamoProtection;
use super::item::Key;
use crate::attributes::{Read, expiry, ms, n, s};
use crate::aws_error;

/// How long after its last leased slot a bucket is forgotten.
const KEPT: Duration = Duration::from_secs(3600);

/// Two suffice, unless the item expires between two calls.
const ROUNDS: usize = 3;

impl DynamoProtection {
    pub(super) async fn lease_block(&self, request: &Request) -> Result<Answer, PortError> {
        let key = Key::slots(&request.key);
        for _ in 0..ROUNDS {
            if let Some(begin) = self.next_block(&key, request).await? {
                return Ok(Answer::Leased { begin });
            }
            let free_from = self.get(&key).await?.and_then(|item| item.time("free_from"));
            let answer = request.judge(free_from);
            let is_idle = free_from.is_none_or(|at| at < request.now);
            match answer {
                Answer::Empty { .. } => return Ok(answer),
                Answer::Leased { .. } if is_idle => {
                    if self.begins_anew(&key, request).await? {
                        return Ok(answer);
                    }
                }
                // Another has begun meanwhile.
                Answer::Leased { .. } => {}
            }
        }
        Err(aws_error::of_code("UpdateItem", "ConditionalCheckFailedException"))
    }

    /// Takes the block after the last leased one, if that begins soon enough and not before now.
    async fn next_block(&self, key: &Key, request: &Request) -> Result<Option<Timestamp>, PortError> {
        let update = self
            .updating(key)
            .update_expression("SET #free_from = #free_from + :span")
            .expression_attribute_names("#free_from", "free_from")
            .expression_attribute_values(":span", n(request.span.as_millis()))
            .expression_attribute_values(":now", ms(request.now))
            .return_values(ReturnValue::AllNew);
        let update = match request.latest {
            Some(latest) => update
                .condition_expression("#free_from >= :now AND #free_from <= :latest")
                .expression_attribute_values(":latest", ms(latest)),
            None => update.condition_expression("#free_from >= :now"),
        };
        let Some(item) = self.updated(update).await? else { return Ok(None) };
        let free_from =
            item.time("free_from").ok_or_else(|| aws_error::of_code("UpdateItem", "AnswerTooShort"))?;
        self.keep(key, free_from, item.number("expires_at")).await;
        Ok(Some(free_from.minus(request.span)))
    }

    /// Takes a block that begins now, if all that was leased before ended before.
    async fn begins_anew(&self, key: &Key, request: &Request) -> Result<bool, PortError> {
        let free_from = request.now.plus(request.span);
        let update = self
            .updating(key)
            .update_expression("SET #free_from = :free_from, #expires_at = :expires_at")
            .condition_expression(
                "attribute_not_exists(#free_from) OR #free_from < :now OR NOT attribute_type(#free_from, :number)",
            )
            .expression_attribute_names("#free_from", "free_from")
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":free_from", ms(free_from))
            .expression_attribute_values(":expires_at", expiry(free_from.plus(KEPT)))
            .expression_attribute_values(":now", ms(request.now))
            .expression_attribute_values(":number", s("N"));
        Ok(self.updated(update).await?.is_some())
    }

    /// Moves a bucket's expiry on when half of the time is over for which it was to be kept: a write in half an hour.
    async fn keep(&self, key: &Key, free_from: Timestamp, expires_at: Option<i64>) {
        if expires_at.is_some_and(|at| Timestamp::from_secs(at) >= free_from.plus(KEPT / 2)) {
            return;
        }
        let update = self
            .updating(key)
            .update_expression("SET #expires_at = :expires_at")
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":expires_at", expiry(free_from.plus(KEPT)));
        self.updated_beside(update).await;
    }
}
