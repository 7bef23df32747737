//! What the two witnesses say of each delivery: Redial's tables, and the push service.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sfn::types::ExecutionStatus;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use redial_adapters::system::System;
use redial_core::{ledger::Entry, subscription::Subscription};
use redial_engine::ports::{Clock as _, LedgerReader as _, Subscriptions as _};

use super::{
    harness::{Harness, IN_FLIGHT},
    mix::Delivery,
    posts::{self, Post},
};
use crate::local::call;
use redial_console::failure::Failure;

#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) entry: Option<Entry>,
    /// What the push service was sent for it, in the order of arrival.
    pub(super) posts: Vec<Post>,
    pub(super) letter: Option<DeadLetter>,
    /// Its subscription, if that lies in the table.
    pub(super) subscription: Option<Subscription>,
    /// How it waited, if it was seen in parking.
    pub(super) parked: Option<Parked>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DeadLetter {
    pub(super) reason: String,
    pub(super) attempts: u64,
    pub(super) body: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parked {
    /// By the end of an execution of Step Functions.
    Released,
    /// Otherwise.
    WithoutExecution,
}

pub(super) async fn gather(
    harness: &Harness,
    deliveries: &[Delivery],
    parked: &BTreeMap<String, String>,
) -> Result<Vec<Evidence>, Failure> {
    let executions = succeeded_executions(harness).await?;
    let released = |bucket: &String| {
        // Later executions of a bucket have a number after its name.
        let is_of = |name: &String| name == bucket || name.starts_with(&format!("{bucket}-"));
        if executions.iter().any(is_of) { Parked::Released } else { Parked::WithoutExecution }
    };
    let webhooks = posts::of_webhooks(harness, deliveries).await?;
    stream::iter(deliveries)
        .map(|delivery| async {
            let key = delivery.key();
            let (entry, letter, subscription) = futures_util::try_join!(
                async { harness.ledger.get(&key).await.map_err(Failure::from) },
                letter(harness, delivery),
                subscription(harness, delivery),
            )?;
            let posts = match webhooks.get(&delivery.id) {
                Some(posts) => posts.clone(),
                None => {
                    harness.push.received(delivery.receiver.endpoint()).iter().map(Post::of_push).collect()
                }
            };
            let parked = parked.get(&delivery.id).map(released);
            Ok(Evidence { entry, posts, letter, subscription, parked })
        })
        .buffered(IN_FLIGHT)
        .try_collect()
        .await
}

/// The names of all executions that have ended well.
async fn succeeded_executions(harness: &Harness) -> Result<Vec<String>, Failure> {
    let executions = harness
        .sfn
        .list_executions()
        .state_machine_arn(&harness.description().state_machine)
        .status_filter(ExecutionStatus::Succeeded)
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await
        .map_err(call("ListExecutions"))?;
    Ok(executions.into_iter().map(|execution| execution.name).collect())
}

async fn subscription(harness: &Harness, delivery: &Delivery) -> Result<Option<Subscription>, Failure> {
    let Some(key) = delivery.subscription_key() else { return Ok(None) };
    let loaded = harness.subscriptions.load(vec![key]).await.into_iter().next();
    Ok(loaded.transpose()?.flatten())
}

async fn letter(harness: &Harness, delivery: &Delivery) -> Result<Option<DeadLetter>, Failure> {
    let Some(letter) = description(harness, delivery).await? else { return Ok(None) };
    let Some(key) = delivery.dead_letter_key() else { return Ok(Some(letter)) };
    let body = harness.letters.body(&key, System.now()).await?;
    Ok(Some(DeadLetter { body, ..letter }))
}

/// The description of a delivery's dead letter, without its body.
pub(super) async fn description(
    harness: &Harness,
    delivery: &Delivery,
) -> Result<Option<DeadLetter>, Failure> {
    let Some(key) = delivery.dead_letter_key() else { return Ok(None) };
    let got = harness
        .dynamodb
        .get_item()
        .table_name(&harness.description().tables.dead_letters)
        .key("pk", AttributeValue::S(key.partition()))
        .key("sk", AttributeValue::S(key.letter))
        .consistent_read(true)
        .send()
        .await
        .map_err(call("GetItem"))?;
    let Some(item) = got.item else { return Ok(None) };
    let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
    let number = |name: &str| item.get(name)?.as_n().ok()?.parse().ok();
    Ok(Some(DeadLetter {
        reason: text("reason").unwrap_or_default(),
        attempts: number("attempts").unwrap_or_default(),
        body: None,
    }))
}
