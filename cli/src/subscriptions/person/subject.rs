use clap::{ArgGroup, Args};
use redial_adapters::{person_dynamo::DynamoPersons, secrets::SecretsManager};
use redial_core::{
    endpoint::HashKeys,
    erasure::Person,
    identity::{SubscriptionId, Tenant},
    message::ProducerRef,
    time::Timestamp,
};
use redial_engine::ports::{Found, SubscriptionBook as _};
use ring::digest::{SHA256, digest};

use crate::{
    arguments,
    failure::Failure,
    stack::{Target, variable},
};

#[derive(Debug, Args)]
#[command(next_help_heading = "Whom it is about", group = ArgGroup::new("whom").required(true).multiple(true))]
pub(super) struct SubjectArgs {
    /// The id of a subscription
    #[arg(long, value_name = "ID", value_parser = arguments::subscription, group = "whom")]
    subscription: Option<SubscriptionId>,
    /// The `ref` of messages, up to 128 bytes
    #[arg(long = "ref", id = "producer_ref", value_name = "REF", value_parser = producer_ref, group = "whom")]
    producer_ref: Option<ProducerRef>,
}

fn producer_ref(text: &str) -> Result<ProducerRef, &'static str> {
    ProducerRef::parse(text).filter(|_| !text.is_empty()).ok_or("a text of 1 to 128 bytes")
}

impl SubjectArgs {
    /// Whom it is about, and when the subscription was first stored, if it is stored.
    pub(super) async fn person(
        self,
        tenant: Tenant,
        target: &Target,
    ) -> Result<(Person, Option<Timestamp>), Failure> {
        let Self { subscription, producer_ref } = self;
        let hash_keys = Some(hash_keys(target).await?);
        let mut person =
            Person { tenant, subscription, producer_ref, endpoint: None, hashes: Vec::new(), hash_keys };
        let mut created_at = None;
        if let Some(key) = person.key() {
            match target.subscriptions_without_secrets().find(&key).await? {
                Found::Stored(stored) => {
                    let endpoint = stored.recipient.endpoint().clone();
                    person.hashes = person.hash_keys.iter().flat_map(|keys| keys.all_of(&endpoint)).collect();
                    person.endpoint = Some(endpoint);
                    created_at = stored.created_at;
                }
                Found::Deleted { endpoint_hash, at: _ } => person.hashes.extend(endpoint_hash),
                Found::Unknown => {}
            }
        }
        Ok((person, created_at))
    }

    /// The options for a file that stays behind: without the `ref`.
    pub(super) fn options(&self, tenant: &Tenant) -> String {
        let mut options = format!("--tenant {tenant}");
        if let Some(id) = &self.subscription {
            options.push_str(&format!(" --subscription {id}"));
        }
        if let Some(text) = &self.producer_ref {
            let digest = digest(&SHA256, text.expose().as_bytes());
            options.push_str(&format!(" --ref sha256:{}", hex(&digest.as_ref()[..12])));
        }
        options
    }

    /// Whom it is about, in a question.
    pub(super) fn in_words(&self, tenant: &Tenant) -> String {
        let subscription = self.subscription.as_ref().map(|id| format!("subscription {id}"));
        let producer_ref = self.producer_ref.as_ref().map(|_| "messages with that ref".to_owned());
        let both: Vec<String> = subscription.into_iter().chain(producer_ref).collect();
        format!("{} of {tenant}", both.join(" and "))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn persons(target: &Target) -> DynamoPersons {
    DynamoPersons::new(target.dynamodb(), &target.tables)
}

/// The keys that endpoints are hashed with: those of the functions.
async fn hash_keys(target: &Target) -> Result<HashKeys, Failure> {
    const WHAT: &str = "the keys of hashes cannot be read, by which an endpoint is recognised";
    let dispatch = target.whole_configuration(&target.dispatch).await.map_err(|error| error.failure(WHAT))?;
    let parsed = |text: &str| HashKeys::parse(text).map_err(|_| Failure::Failed(WHAT.into()));
    if let Some(text) = variable(&dispatch, "ENDPOINT_HASH_KEY") {
        return parsed(text);
    }
    let Some(id) = variable(&dispatch, "ENDPOINT_HASH_SECRET_ID") else {
        return Err(Failure::Failed(WHAT.into()));
    };
    let secrets = SecretsManager::new(aws_sdk_secretsmanager::Client::new(&target.sdk));
    let secret = secrets.fetch(id).await.map_err(Failure::from)?;
    parsed(secret.expose())
}
