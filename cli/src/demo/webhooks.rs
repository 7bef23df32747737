//! What webhooks' receivers got, with every signature checked by a library that is not Redial's.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use redial_testkit::{
    standard_webhooks::{self, SignedRequest},
    webhook_receiver::Request,
};

use super::{
    evidence::Post,
    mix::{Delivery, Receiver, tenant},
    world::World,
};
use crate::{
    failure::Failure,
    local::{self, Progress},
};

/// The requests of all webhooks, by the deliveries' ids.
pub(super) async fn posts(
    world: &World,
    deliveries: &[Delivery],
) -> Result<HashMap<String, Vec<Post>>, Failure> {
    let own = world.webhook_keys.secrets_of(&tenant()).swap_remove(0);
    let mut webhooks: Vec<(&Delivery, Vec<Arc<Request>>)> = Vec::new();
    let mut signed = Vec::new();
    for delivery in deliveries {
        let Receiver::Webhook { path, secret, .. } = &delivery.receiver else { continue };
        let requests = world.webhooks.requests(path);
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
