//! What the receivers got: pushes as the push service saw them, webhooks with every signature checked by a library that is not
//! Redial's.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use redial_receivers::{
    push_service::{Answered, Problem, Received},
    standard_webhooks::{self, SignedRequest},
    webhook_receiver::Request,
};

use super::{
    harness::Harness,
    mix::{Delivery, Receiver, tenant},
    scenarios::SEND_TIMEOUT,
};
use crate::local::{self, Progress};
use redial_console::failure::Failure;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Post {
    pub(super) at_ms: u64,
    /// What it was answered in time; `None` for one that was not.
    pub(super) status: Option<u16>,
    /// What the browser sees.
    pub(super) plaintext: Option<Vec<u8>>,
    /// The VAPID key that it was signed with.
    pub(super) vapid_key: Option<Vec<u8>>,
    /// What is wrong with it, by name, except for the key: see `wrong_key`.
    pub(super) problems: Vec<String>,
    /// Signed by another key than the subscription's.
    pub(super) wrong_key: bool,
}

impl Post {
    pub(super) fn of_push(received: &Received) -> Self {
        let (wrong_key, problems): (Vec<_>, Vec<_>) =
            received.problems.iter().partition(|problem| **problem == Problem::VapidKeyNotTheSubscriptions);
        Self {
            at_ms: received.at_ms,
            status: match received.answered {
                Answered::Status(status) => Some(status),
                Answered::Late { status, after } if after < SEND_TIMEOUT => Some(status),
                Answered::Late { .. } | Answered::Reset => None,
            },
            plaintext: received.plaintext.clone(),
            vapid_key: received.vapid_key.clone(),
            problems: problems.into_iter().map(|problem| format!("{problem:?}")).collect(),
            wrong_key: !wrong_key.is_empty(),
        }
    }
}

/// The requests of all webhooks, by the deliveries' ids.
pub(super) async fn of_webhooks(
    harness: &Harness,
    deliveries: &[Delivery],
) -> Result<HashMap<String, Vec<Post>>, Failure> {
    let own = harness.webhook_keys.secrets_of(&tenant()).swap_remove(0);
    let mut webhooks: Vec<(&Delivery, Vec<Arc<Request>>)> = Vec::new();
    let mut signed = Vec::new();
    for delivery in deliveries {
        let Receiver::Webhook { path, secret, .. } = &delivery.receiver else { continue };
        let requests = harness.webhooks.requests(path);
        // An address that comes with its message has no secret of its own.
        let secret = if delivery.is_stored { secret } else { &own };
        signed.extend(requests.iter().map(|request| SignedRequest::of(secret.expose(), request)));
        webhooks.push((delivery, requests));
    }
    let python = tokio::task::spawn_blocking(|| local::python(&Progress::silent()));
    let python = python.await.expect("invariant: looking for Python does not panic")?;
    let mut problems = standard_webhooks::verify(&python, &signed).await?.into_iter();

    let mut posts = HashMap::with_capacity(webhooks.len());
    for (delivery, requests) in webhooks {
        let mut stamps = BTreeSet::new();
        let of_delivery = requests
            .iter()
            .zip(problems.by_ref())
            .map(|(request, problem)| {
                let mut problems: Vec<String> = problem.into_iter().collect();
                if request.header("webhook-id") != Some(&delivery.id) {
                    problems.push("another webhook-id".to_owned());
                }
                if !stamps.insert(request.header("webhook-timestamp").map(str::to_owned)) {
                    problems.push("the timestamp of the attempt before".to_owned());
                }
                Post {
                    at_ms: request.at_ms,
                    status: request.answered,
                    plaintext: Some(request.body.to_vec()),
                    problems,
                    ..Post::default()
                }
            })
            .collect();
        posts.insert(delivery.id.clone(), of_delivery);
    }
    Ok(posts)
}
