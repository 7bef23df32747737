//! `redial local listen`: a push service and a receiver of webhooks on this machine, which a local stack may send to.
//!
//! ```text
//! OwnReceiver (ports, certificate: in the stack's folder) ─► PushService, WebhookReceiver ─► Arrival ─► a line each
//!                                     subscriptions of both ─► the stack's table
//! ```
//!
//! Nothing is played by Redial's own code: pushes are opened by another implementation of the standards, and the signatures of webhooks are
//! checked by the library of Standard Webhooks.

mod answers;
mod arrival;

use std::{path::Path, time::Duration};

use redial_adapters::{
    control_dynamo::DynamoControl,
    subscriptions_dynamo::DynamoSubscriptions,
    system::System,
    webhook_keys::{WebhookKeys, new_secret},
};
use redial_console::{failure::Failure, terminal::say};
use redial_core::{
    endpoint::Endpoint,
    identity::{SubscriptionId, SubscriptionKey, Tenant},
    push_target::{PushKeys, PushTarget},
    recipient::Recipient,
    subscription::Subscription,
    webhook::{SigningSecrets, WebhookSecret, WebhookTarget},
};
use redial_engine::ports::{Clock as _, SubscriptionHealth as _};
use redial_receivers::{
    push_service::{PushService, Received, Subscriber},
    serve::Port,
    standard_webhooks::{self, SignedRequest},
    webhook_receiver::{Request, WebhookReceiver},
};
use tokio::sync::mpsc;

pub(crate) use answers::Answers;
use arrival::Arrival;

use crate::local::{self, Known, OwnReceiver, Progress, call};

/// The path of webhooks.
const HOOK: &str = "/webhooks";

/// How long is waited for what comes before looking again.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// What is listened for.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) tenant: Tenant,
    /// The subscription of a browser, and that of a webhook's receiver.
    pub(crate) push: SubscriptionId,
    pub(crate) webhook: SubscriptionId,
    pub(crate) answers: Answers,
    /// A line of JSON for each.
    pub(crate) json: bool,
}

#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error(
        "port {port} of this machine, which the stack {stack} may send to, is taken: end the other `redial local listen`, or take the stack \
         down and up again"
    )]
    PortTaken { port: u16, stack: String },
    #[error("{0} is stored already, and leads elsewhere: name another one with {1}")]
    LeadsElsewhere(SubscriptionKey, &'static str),
}

/// Both receivers, and what is stored of them.
struct Receivers {
    push: PushService,
    browser: Subscriber,
    webhooks: WebhookReceiver,
    secret: WebhookSecret,
}

/// Listens until it is dropped.
pub(crate) async fn listen(known: &Known, state: Option<&Path>, listening: Listening) -> Result<(), Failure> {
    let own = local::own_receiver(&known.name, state)?;
    let receivers = Receivers::start(known, &own, &listening.answers)?;
    receivers.store(known, &listening).await?;
    let Listening { tenant, push, webhook, json, .. } = &listening;
    say(&format!(
        "pushes to {push} and webhooks to {webhook} of tenant {tenant} arrive here; Ctrl-C ends it"
    ));
    say(&format!("from another terminal: redial send --tenant {tenant} --to {push} --payload hello"));

    let (found, mut arrivals) = mpsc::unbounded_channel();
    let pushed = receivers.watch_pushes(push, found.clone());
    let posted = receivers.watch_webhooks(webhook, found);
    let shown = async {
        while let Some(mut arrival) = arrivals.recv().await {
            // The receivers write down what they would answer in an hour.
            arrival.answered.take_if(|_| listening.answers.hang);
            arrival.print(*json)?;
        }
        Ok(())
    };
    tokio::select! {
        () = pushed => Ok(()),
        ended = posted => ended,
        shown = shown => shown,
    }
}

impl Receivers {
    fn start(known: &Known, own: &OwnReceiver, answers: &Answers) -> Result<Self, Failure> {
        let taken = |port| ListenError::PortTaken { port, stack: known.name.clone() };
        let certificates = own.certificates();
        let port = Port::take(own.push_port).map_err(|_| taken(own.push_port))?;
        let push = PushService::start_with(port, &certificates)?;
        let webhooks = WebhookReceiver::start_with(own.webhook_port, &certificates)
            .map_err(|_| taken(own.webhook_port))?;
        let browser = push.subscribe(&local::public_point(&known.stack.vapid_public_key));
        push.script(&browser.endpoint, answers.script());
        webhooks.script(HOOK, answers.script());
        if let Some(always) = answers.always() {
            push.always(&browser.endpoint, always.clone());
            webhooks.always(HOOK, always);
        }
        let secret = new_secret().expect("invariant: the system has randomness");
        Ok(Self { push, browser, webhooks, secret })
    }

    /// Stores both subscriptions. What another program has stored under these ids is left alone.
    async fn store(&self, known: &Known, listening: &Listening) -> Result<(), Failure> {
        let book = subscriptions(known).await?;
        let Subscriber { endpoint, p256dh, auth } = &self.browser;
        let browser = Recipient::WebPush(PushTarget {
            endpoint: Endpoint::parse(endpoint)?,
            keys: PushKeys::parse(p256dh, auth)?,
            vapid_key_id: None,
        });
        let receiver = Recipient::Webhook(WebhookTarget {
            secrets: SigningSecrets::new(vec![(self.secret.clone(), None)])
                .expect("invariant: one is not too many"),
            ..WebhookTarget::at(Endpoint::parse(&self.webhooks.url(HOOK))?)
        });
        for (id, recipient, option) in
            [(&listening.push, browser, "--id"), (&listening.webhook, receiver, "--webhook-id")]
        {
            let key = SubscriptionKey { tenant: listening.tenant.clone(), id: id.clone() };
            let origin = |of: &Recipient| of.endpoint().origin();
            let stored = book.get(&key).await?;
            if stored.is_some_and(|stored| origin(&stored.recipient) != origin(&recipient)) {
                return Err(ListenError::LeadsElsewhere(key, option).into());
            }
            book.put(&Subscription::new(key, recipient), System.now()).await?;
        }
        Ok(())
    }

    async fn watch_pushes(&self, id: &SubscriptionId, found: mpsc::UnboundedSender<Arrival>) {
        let mut seen = 0;
        while !found.is_closed() {
            let Ok(all) = self.push.wait_for(&self.browser.endpoint, seen + 1, LOOK_AGAIN).await else {
                continue;
            };
            for received in all.iter().skip(seen) {
                let _ended = found.send(of_push(id, received));
            }
            seen = all.len();
        }
    }

    async fn watch_webhooks(
        &self,
        id: &SubscriptionId,
        found: mpsc::UnboundedSender<Arrival>,
    ) -> Result<(), Failure> {
        let mut seen = 0;
        let mut python = None;
        while !found.is_closed() {
            let Ok(all) = self.webhooks.wait_for(HOOK, seen + 1, LOOK_AGAIN).await else { continue };
            if python.is_none() {
                let progress = Progress::to(say);
                let installed = tokio::task::spawn_blocking(move || local::python(&progress)).await;
                python = Some(installed.expect("the installation does not panic")?);
            }
            let python = python.as_ref().expect("it was just set");
            let new: Vec<&Request> = all.iter().skip(seen).map(AsRef::as_ref).collect();
            let signed: Vec<SignedRequest> =
                new.iter().map(|request| SignedRequest::of(self.secret.expose(), request)).collect();
            let problems = standard_webhooks::verify(python, &signed).await?;
            for (request, problem) in new.into_iter().zip(problems) {
                let _ended = found.send(of_webhook(id, request, problem));
            }
            seen = all.len();
        }
        Ok(())
    }
}

async fn subscriptions(known: &Known) -> Result<DynamoSubscriptions, Failure> {
    let sdk = local::sdk_config(&known.stack.endpoint, &known.key);
    let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
    let secrets = aws_sdk_secretsmanager::Client::new(&sdk);
    let id = &known.stack.webhook_key_secret;
    let secret = secrets.get_secret_value().secret_id(id).send().await.map_err(call("GetSecretValue"))?;
    let keys = WebhookKeys::parse(secret.secret_string().unwrap_or_default())?;
    let tables = known.stack.tables.clone();
    let control = DynamoControl::new(dynamodb.clone(), tables.control);
    Ok(DynamoSubscriptions::new(dynamodb, tables.subscriptions, tables.audiences, control, keys))
}

fn of_push(id: &SubscriptionId, received: &Received) -> Arrival {
    Arrival {
        at_ms: received.at_ms,
        kind: "push",
        subscription: id.clone(),
        answered: arrival::status(received.answered),
        body: received.plaintext.clone().unwrap_or_default(),
        problems: received.problems.iter().map(|problem| format!("{problem:?}")).collect(),
    }
}

fn of_webhook(id: &SubscriptionId, request: &Request, problem: Option<String>) -> Arrival {
    Arrival {
        at_ms: request.at_ms,
        kind: "webhook",
        subscription: id.clone(),
        answered: request.answered,
        body: request.body.to_vec(),
        problems: problem.into_iter().map(|problem| format!("signature: {problem}")).collect(),
    }
}
