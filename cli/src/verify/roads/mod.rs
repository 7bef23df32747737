//! `redial verify --roads`: one message down every road of the deployed stack, to a receiver that is deployed for it.
//!
//! The messages belong to a tenant of the run's own, whose signing secret the receiver has, and to a browser of its own, whose private
//! key it has. They are put on the stack's own queues, as a producer does; how each ended is read from the ledger and the
//! dead-letter store.

mod counted;
mod receiver;
mod receiver_deployed;
#[cfg(feature = "local")]
mod receiver_hosted;
mod recipient;
mod road;
mod view;
mod walk;

use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use redial_adapters::system::System;
use redial_core::{identity::Tenant, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

#[cfg(feature = "local")]
use self::receiver_hosted::HostedReceiver;
use self::{
    receiver::Receiver,
    recipient::{Subscription, refuses_pushes},
    road::{Channel, End, Road, roads},
    view::View,
    walk::walk,
};
use crate::{
    confirm::Confirm,
    cost,
    doctor::{Report, Stack},
    failure::Failure,
    interrupt::interrupted,
    origin,
    stack::Target,
    terminal::say,
};

/// Stands for the receiver's URL while it does not exist.
const FUTURE_ID: &str = "receiver";

#[derive(Debug, Args)]
#[command(next_help_heading = "Roads")]
pub(super) struct Roads {
    /// Also send one message down every road, to a receiver that is deployed for it and removed again
    #[arg(long)]
    pub(super) roads: bool,
    /// Also wait 16 minutes in Step Functions
    #[arg(long, requires = "roads")]
    long_wait: bool,
    /// Also wait until CloudWatch has counted the messages, up to 20 minutes
    #[arg(long, requires = "roads")]
    metrics: bool,
    /// For a stack on an emulator, whose function URLs have no TLS: an https origin that leads to the emulator, or to --receiver-port
    #[arg(long, value_name = "ORIGIN", requires = "roads")]
    receiver_at: Option<String>,
    /// For a stack whose functions run on this machine: the port of 127.0.0.1 where the receiver listens
    #[cfg(feature = "local")]
    #[arg(long, value_name = "PORT", requires = "receiver_at")]
    receiver_port: Option<u16>,
    #[command(flatten)]
    confirm: Confirm,
}

/// The parameter of the stack and of the receiver.
const BOUNDARY: &str = "PermissionsBoundary";

/// How one message ended.
pub(super) struct Walked {
    road: Road,
    end: Result<End, String>,
    after: Duration,
}

impl Walked {
    fn is_as_expected(&self) -> bool {
        self.end.as_ref().ok() == Some(&self.road.expected)
    }

    fn found(&self) -> String {
        self.end.as_ref().map_or_else(Clone::clone, End::in_words)
    }

    fn line(&self) -> String {
        let label = if self.is_as_expected() { "ok" } else { "fault" };
        let (Road { name, proves, .. }, after) = (&self.road, self.after.as_secs());
        format!("{label:<9}{name:<15}{} after {after} s: {proves}", self.found())
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "road": self.road.name,
            "proves": self.road.proves,
            "expected": self.road.expected.in_words(),
            "found": self.found(),
            "ok": self.is_as_expected(),
            "seconds": self.after.as_secs(),
        })
    }
}

/// What a run has: the receiver's stack, the tenant and the subscription of the messages.
struct Run<'a> {
    stack: &'a Stack,
    receiver: Receiver,
    tenant: String,
    subscription: Subscription,
}

impl Roads {
    /// States what will be done and what it costs, and asks; nothing was done before.
    pub(super) fn ask(&self, stack: &Stack) -> Result<(), Failure> {
        let target = &stack.target;
        self.can_be_received(target)?;
        let region = target.sdk.region().map_or("", |region| region.as_ref());
        let url = self.address(&format!("https://{FUTURE_ID}.lambda-url.{region}.on.aws"));
        let refused = refuses_pushes(stack, &url);
        let roads = self.roads(System.now(), refused.is_none());
        let messages = roads.len();
        if let Some(why) = refused {
            say(&format!("no pushes will be sent: {why}"));
        }
        let receiver = if target.are_functions_here() {
            "runs on this machine, as the stack's functions do"
        } else {
            "is deployed as a stack of its own (a function, its URL, role and log group) and removed at the end"
        };
        say(&format!(
            "{messages} messages will be sent through {}, to a receiver that {receiver}. It costs {:.4} USD at list prices.",
            target.name,
            cost::of_single_messages(messages as u64),
        ));
        if self.metrics {
            let usd = counted::most_usd(target, &roads.iter().collect::<Vec<_>>());
            say(&format!("CloudWatch's metrics of them cost {usd:.4} USD at most."));
        }
        self.confirm.ask("Send them?", "nothing was deployed or sent")
    }

    /// That the stack could reach a receiver, and this machine run it if need be.
    fn can_be_received(&self, target: &Target) -> Result<(), Failure> {
        #[cfg(feature = "local")]
        if target.are_functions_here() {
            if self.receiver_at.is_none() || self.receiver_port.is_none() {
                return Err(Failure::input(
                    "--roads: this stack's functions run on this machine, and so does the receiver: give --receiver-port, a free \
                     port, and --receiver-at, an https origin that leads to it",
                ));
            }
            if let Some(hindrance) = HostedReceiver::hindrance() {
                return Err(Failure::input(format!(
                    "--roads: the receiver is code in Node.js, which Lambda runs on AWS and this machine cannot: {hindrance}"
                )));
            }
            return Ok(());
        }
        if target.is_emulated() && self.receiver_at.is_none() {
            return Err(Failure::input(
                "--roads: an emulator's function URLs have no TLS, which webhooks need: give --receiver-at, an https \
                 origin that leads to the emulator",
            ));
        }
        Ok(())
    }

    /// The receiver of a run, of this name.
    fn receiver(&self, target: &Target, name: String) -> Receiver {
        #[cfg(feature = "local")]
        if let (true, Some(port), Some(origin)) =
            (target.are_functions_here(), self.receiver_port, &self.receiver_at)
        {
            return Receiver::hosted(HostedReceiver::new(port, origin), name);
        }
        Receiver::deployed(target, name)
    }

    pub(super) fn is_possible(&self) -> Result<(), Failure> {
        if let Some(text) = &self.receiver_at {
            origin::parse("--receiver-at", text)?;
        }
        self.confirm.is_possible("send messages")
    }

    fn roads(&self, now: Timestamp, with_pushes: bool) -> Vec<Road> {
        let mut roads = roads(now, self.long_wait);
        roads.retain(|road| with_pushes || road.channel != Channel::Push);
        roads
    }

    /// Where the stack finds a function URL.
    fn address(&self, url: &str) -> String {
        self.receiver_at.as_ref().map_or_else(|| url.to_owned(), |origin| through(origin, url))
    }

    /// Deploys, sends, waits, and removes what was made: also after a failure, and on Ctrl-C.
    pub(super) async fn run(&self, stack: &Stack) -> (Vec<Report>, Vec<Walked>) {
        let mut report = Report::new("roads");
        let mut counted = Report::new("metrics");
        let id = format!("{}-{}", System.now().as_secs(), std::process::id());
        let run = Run {
            stack,
            receiver: self.receiver(&stack.target, format!("{}-verify-{id}", stack.name)),
            tenant: format!("redial-verify-{id}"),
            subscription: Subscription::generate(),
        };
        let (receiver, tenant) = (&run.receiver, &run.tenant);
        say(&format!("starting the receiver {}; Ctrl-C removes it", receiver.name));
        let began = System.now();
        let whole = tokio::select! {
            walked = self.walked(&run, &mut report) => Some(walked),
            () = interrupted() => None,
        };
        if whole.is_none() {
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
        let mut reports = vec![report];
        if self.metrics && whole.is_some() {
            let sent: Vec<&Road> = whole.iter().flatten().map(|walked| &walked.road).collect();
            let is_whole = tokio::select! {
                () = counted::check(stack, &sent, began, &mut counted) => true,
                () = interrupted() => false,
            };
            if !is_whole {
                counted = Report::new("metrics");
                counted.unchecked("everything", "it was interrupted");
            }
            reports.push(counted);
        }
        (reports, whole.unwrap_or_default())
    }

    async fn walked(&self, run: &Run<'_>, report: &mut Report) -> Vec<Walked> {
        let Run { stack, receiver, tenant, subscription } = run;
        let target = &stack.target;
        let url = match self.deployed(run).await {
            Ok(url) => url,
            Err(words) => {
                report.fault(
                    format!("the receiver {} could not be started: {words}", receiver.name),
                    "remove the reason, and verify again; on AWS it takes permissions for CloudFormation, IAM, Lambda and Logs",
                );
                return Vec::new();
            }
        };
        let refused = refuses_pushes(stack, &url);
        let now = System.now();
        let roads = self.roads(now, refused.is_none());
        if let Some(why) = refused {
            report.unchecked("pushes", why);
        }
        let view = View::new();
        let ends = roads.into_iter().map(async |road| {
            let message = road.message(tenant, &url, subscription);
            let end = walk(target, &road, tenant, &message, &view).await;
            Walked { road, end, after: System.now().since(now) }
        });
        let mut ends: FuturesUnordered<_> = ends.collect();
        let mut found = Vec::new();
        while let Some(walked) = ends.next().await {
            view.ended(&walked.road, &walked.line());
            found.push(walked);
        }
        drop(ends);
        drop(view);
        for walked in &found {
            judge(walked, report);
        }
        report.well(format!("all {} messages ended as they have to", found.len()));
        if let Err(words) = tidied(target, tenant, &found).await {
            report.warning(
                format!("the dead letters of the tenant {tenant} remain: {words}"),
                format!("redial dead-letters purge --tenant {tenant}"),
            );
        }
        found
    }

    async fn deployed(
        &self,
        Run { stack, receiver, tenant, subscription }: &Run<'_>,
    ) -> Result<String, String> {
        let target = &stack.target;
        let of_run = Tenant::parse(tenant).ok_or("the tenant's name is not valid")?;
        let keys = target.webhook_keys().await.map_err(|error| error.to_string())?;
        let secret = keys.secrets_of(&of_run).first().map(|secret| secret.expose());
        let public = target.public_keys().published().await.map_err(|error| error.to_string())?;
        let public: Vec<String> = public.into_iter().flatten().map(|key| key.public_base64url).collect();
        let private = subscription.private();
        let parameters = [
            ("Secret", &*secret.ok_or("the stack has no webhook key")?),
            ("PushKey", private.expose()),
            ("PushAuth", subscription.auth().expose()),
            ("VapidKeys", &*public.join(",")),
            ("Audience", self.receiver_at.as_deref().unwrap_or_default().trim_end_matches('/')),
            // An account that asks for a boundary lets no role be made without it.
            (BOUNDARY, stack.parameters.get(BOUNDARY).map_or("", String::as_str)),
        ];
        let url = receiver.start(parameters).await?;
        Ok(if target.are_functions_here() { url } else { self.address(&url) })
    }
}

/// The emulator's path to a function URL, at another origin.
fn through(origin: &str, url: &str) -> String {
    let id = url.trim_start_matches("https://").split('.').next().unwrap_or_default();
    format!("{}/_aws/lambda-url/{id}", origin.trim_end_matches('/'))
}

fn judge(walked: &Walked, report: &mut Report) {
    if walked.is_as_expected() {
        return;
    }
    let Road { name, proves, expected, .. } = &walked.road;
    report.fault(
        format!("the road {name}: {}; expected {}: {proves}", walked.found(), expected.in_words()),
        "look for the delivery's lines in the log of dispatch, and for a finding of another check",
    );
}

/// Removes the dead letters that the roads made.
async fn tidied(target: &Target, tenant: &str, found: &[Walked]) -> Result<(), String> {
    let store = target.dead_letters();
    for Walked { road, .. } in found {
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

    use super::{walk::end, *};
    use crate::doctor::finds;

    #[test]
    fn a_road_that_ends_otherwise_is_a_fault_that_says_both() {
        let now = Timestamp::from_secs(1_795_255_200);
        let roads = roads(now, true);
        let mut retried: Vec<Road> = roads.into_iter().filter(|road| road.name == "retried").collect();
        let mut walked = Walked { road: retried.remove(0), end: Err(String::new()), after: Duration::ZERO };
        let status =
            |attempt: u64, state: &str| end(&json!({"state": state, "attempt": attempt - 1, "reason": "x"}));
        for (found, expected) in [
            (Ok(status(2, "sent")), ""),
            (Ok(status(1, "sent")), "fault: the road retried: sent, attempt 1; expected sent, attempt 2"),
            (Ok(status(2, "failed")), "fault: the road retried: failed (x), attempt 2; expected sent"),
            (Err("denied".to_owned()), "fault: the road retried: denied; expected sent, attempt 2"),
        ] {
            walked.end = found;
            finds(expected, |report| judge(&walked, report));
            assert_eq!(walked.to_json()["ok"], expected.is_empty());
        }
    }

    #[test]
    fn every_road_sends_a_valid_message() {
        let now = Timestamp::from_secs(1_795_255_200);
        let subscription = Subscription::generate();
        for road in roads(now, true) {
            let message = road.message("redial-verify-1", "https://r.example", &subscription).to_string();
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
