//! `redial verify --roads`: one message down every road of the deployed stack, to a receiver that is deployed for it.
//!
//! The messages belong to a tenant of the run's own, whose signing secret the receiver has. They are put on the stack's own
//! queues, as a producer does; how each ended is read from the ledger and the dead-letter store.

mod receiver;
mod road;

use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use redial_adapters::system::System;
use redial_core::{
    identity::{DeliveryId, Tenant},
    lane::Lane,
};
use redial_engine::ports::Clock as _;
use serde_json::Value;

use self::{
    receiver::Receiver,
    road::{End, Road, roads},
};
use crate::{
    aws_error::classified,
    confirm::Confirm,
    cost,
    doctor::{Report, Stack},
    failure::Failure,
    interrupt::interrupted,
    stack::Target,
    status::standing,
    terminal::say,
};

/// Between two looks at a delivery.
const PAUSE: Duration = Duration::from_secs(1);

/// How often an ended delivery is looked at for the dead letter that follows it.
const LOOKS_AFTER_THE_END: u32 = 20;

#[derive(Debug, Args)]
#[command(next_help_heading = "Roads")]
pub(super) struct Roads {
    /// Also send one message down every road, to a receiver that is deployed for it and removed again
    #[arg(long)]
    pub(super) roads: bool,
    /// Also wait 16 minutes in Step Functions
    #[arg(long, requires = "roads")]
    long_wait: bool,
    /// For a stack on an emulator, whose function URLs have no TLS: an https origin that leads to the emulator
    #[arg(long, value_name = "ORIGIN", requires = "roads")]
    receiver_at: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

impl Roads {
    /// States what will be done and what it costs, and asks; nothing was done before.
    pub(super) fn ask(&self, target: &Target) -> Result<(), Failure> {
        if target.is_emulated() && self.receiver_at.is_none() {
            return Err(Failure::input(
                "--roads: an emulator's function URLs have no TLS, which webhooks need: give --receiver-at, an https \
                 origin that leads to the emulator",
            ));
        }
        let messages = roads(System.now(), self.long_wait).len();
        say(&format!(
            "{messages} messages will be sent through {}, to a receiver that is deployed as a stack of its own (a \
             function, its URL, role and log group) and removed at the end. It costs {:.4} USD at list prices.",
            target.name,
            cost::of_single_messages(messages as u64),
        ));
        self.confirm.ask("Send them?", "nothing was deployed or sent")
    }

    pub(super) fn is_possible(&self) -> Result<(), Failure> {
        self.confirm.is_possible("send messages")
    }

    /// Deploys, sends, waits, and removes what was made: also after a failure, and on Ctrl-C.
    pub(super) async fn run(&self, stack: &Stack) -> Report {
        let mut report = Report::new("roads");
        let run = format!("{}-{}", System.now().as_secs(), std::process::id());
        let tenant = format!("redial-verify-{run}");
        let receiver = Receiver::new(&stack.target.sdk, format!("{}-verify-{run}", stack.name));
        say(&format!("deploying the receiver {}; Ctrl-C removes it", receiver.name));
        let is_whole = tokio::select! {
            () = self.walked(stack, &receiver, &tenant, &mut report) => true,
            () = interrupted() => false,
        };
        if !is_whole {
            report = Report::new("roads");
            let found = format!("interrupted: not every message of the tenant {tenant} has ended");
            report.fault(found, format!("verify again; redial dead-letters purge --tenant {tenant}"));
        }
        say(&format!("removing the receiver {}", receiver.name));
        if let Err(error) = receiver.remove().await {
            report.fault(
                format!("the receiver {} was not removed: {}", receiver.name, error.in_words()),
                format!("aws cloudformation delete-stack --stack-name {}", receiver.name),
            );
        }
        report
    }

    async fn walked(&self, stack: &Stack, receiver: &Receiver, tenant: &str, report: &mut Report) {
        let target = &stack.target;
        let url = match self.deployed(target, receiver, tenant).await {
            Ok(url) => url,
            Err(words) => {
                return report.fault(
                    format!("the receiver {} could not be deployed: {words}", receiver.name),
                    "remove the reason, and verify again; it takes permissions for CloudFormation, IAM, Lambda and Logs",
                );
            }
        };
        let now = System.now();
        let roads = roads(now, self.long_wait);
        let number = roads.len();
        let ends = roads.iter().map(async |road| (road, walk(target, road, tenant, &url).await));
        let mut ends: FuturesUnordered<_> = ends.collect();
        let mut found = Vec::new();
        while let Some((road, end)) = ends.next().await {
            say(&line(road, &end, System.now().since(now)));
            found.push((road, end));
        }
        for (road, end) in &found {
            judge(road, end, report);
        }
        report.well(format!("all {number} messages ended as they have to"));
        if let Err(words) = tidied(target, tenant, &found).await {
            report.warning(
                format!("the dead letters of the tenant {tenant} remain: {words}"),
                format!("redial dead-letters purge --tenant {tenant}"),
            );
        }
    }

    async fn deployed(&self, target: &Target, receiver: &Receiver, tenant: &str) -> Result<String, String> {
        let of_run = Tenant::parse(tenant).ok_or("the tenant's name is not valid")?;
        let keys = target.webhook_keys().await.map_err(|error| error.to_string())?;
        let secret = keys.secrets_of(&of_run).first().map(|secret| secret.expose());
        let url = receiver.deploy(&secret.ok_or("the stack has no webhook key")?).await?;
        Ok(match &self.receiver_at {
            Some(origin) => through(origin, &url),
            None => url,
        })
    }
}

/// The emulator's path to a function URL, at another origin.
fn through(origin: &str, url: &str) -> String {
    let id = url.trim_start_matches("https://").split('.').next().unwrap_or_default();
    format!("{}/_aws/lambda-url/{id}", origin.trim_end_matches('/'))
}

/// Sends the road's message, and waits until it has ended as it has to, or the road's time is over; then how it is.
async fn walk(target: &Target, road: &Road, tenant: &str, receiver: &str) -> Result<End, String> {
    let queue = match road.lane {
        Lane::Transactional => &target.queues.ingest,
        Lane::Bulk => &target.queues.bulk,
    };
    let body = road.message(tenant, receiver).to_string();
    let sqs = aws_sdk_sqs::Client::new(&target.sdk);
    let sent = sqs.send_message().queue_url(queue).message_body(body).send().await;
    classified("sqs:SendMessage", sent).map_err(|error| error.in_words())?;
    let id = DeliveryId::parse(road.name).ok_or("the message's id is not valid")?;
    let mut last = Ok(End { state: None, reason: None, attempt: None, dead_letters: 0 });
    let ended = async {
        let mut looks_after_the_end = 0;
        while last.as_ref().ok() != Some(&road.expected) && looks_after_the_end < LOOKS_AFTER_THE_END {
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
fn end(status: &Value) -> End {
    let text = |name: &str| status[name].as_str().map(str::to_owned);
    let state = text("state");
    // The ledger keeps the reason of the last attempt that failed.
    let reason = text("reason").filter(|_| state.as_deref() == Some("failed"));
    // The ledger counts from 0.
    let attempt = status["attempt"].as_u64().map(|attempt| attempt + 1);
    let dead_letters = status["dead_letters"].as_array().map_or(0, Vec::len);
    End { state, reason, attempt, dead_letters }
}

fn line(road: &Road, end: &Result<End, String>, after: Duration) -> String {
    let (label, found) = match end {
        Ok(end) if *end == road.expected => ("ok", end.in_words()),
        Ok(end) => ("fault", end.in_words()),
        Err(words) => ("fault", words.clone()),
    };
    format!("{label:<9}{:<15}{found} after {} s: {}", road.name, after.as_secs(), road.proves)
}

fn judge(road: &Road, end: &Result<End, String>, report: &mut Report) {
    let expected = road.expected.in_words();
    let found = match end {
        Ok(end) if *end == road.expected => return,
        Ok(end) => end.in_words(),
        Err(words) => words.clone(),
    };
    report.fault(
        format!("the road {}: {found}; expected {expected}: {}", road.name, road.proves),
        "look for the delivery's lines in the log of dispatch, and for a finding of another check",
    );
}

/// Removes the dead letters that the roads made.
async fn tidied(target: &Target, tenant: &str, found: &[(&Road, Result<End, String>)]) -> Result<(), String> {
    let store = target.dead_letters();
    for (road, _) in found {
        let letters = store.dead_letters_of(tenant, road.name).await.map_err(|error| error.to_string())?;
        let keys: Vec<_> = letters.into_iter().map(|letter| letter.key).collect();
        store.remove(&keys).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redial_core::{
        message::{QueueKind, parse},
        time::Timestamp,
    };
    use serde_json::json;

    use super::*;
    use crate::doctor::finds;

    #[test]
    fn a_road_that_ends_otherwise_is_a_fault_that_says_both() {
        let now = Timestamp::from_secs(1_795_255_200);
        let roads = roads(now, true);
        let retried = roads.iter().find(|road| road.name == "retried").expect("a road");
        let status =
            |attempt: u64, state: &str| end(&json!({"state": state, "attempt": attempt - 1, "reason": "x"}));
        for (found, expected) in [
            (Ok(status(2, "sent")), ""),
            (Ok(status(1, "sent")), "fault: the road retried: sent, attempt 1; expected sent, attempt 2"),
            (Ok(status(2, "failed")), "fault: the road retried: failed (x), attempt 2; expected sent"),
            (Err("denied".to_owned()), "fault: the road retried: denied; expected sent, attempt 2"),
        ] {
            finds(expected, |report| judge(retried, &found, report));
        }
    }

    #[test]
    fn every_road_sends_a_valid_message() {
        let now = Timestamp::from_secs(1_795_255_200);
        for road in roads(now, true) {
            let message = road.message("redial-verify-1", "https://r.example").to_string();
            let parsed = parse(&message, QueueKind::Ingest, "m", now);
            assert!(parsed.is_ok(), "{message}");
        }
    }

    #[test]
    fn an_emulator_s_function_url_is_a_path_of_its_own() {
        let url = "https://abc.lambda-url.us-east-1.on.aws";
        assert_eq!(through("https://localhost:1/", url), "https://localhost:1/_aws/lambda-url/abc");
    }
}
