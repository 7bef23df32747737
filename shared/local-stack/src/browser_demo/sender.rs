//! The sender behind the page: it has an API key, and talks to the API as a shop's server would.

use std::time::Duration;

use hyper::StatusCode;
use redial_adapters::{
    access_dynamo::{Created, DynamoAccess, new_key},
    system::System,
};
use redial_core::{
    access::{Credential, Scope, SecretDigest, StoredKey},
    identity::Tenant,
};
use redial_engine::ports::Clock as _;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use super::site::{Answered, BackOffice};
use crate::local::{LocalError, Stack, http_client};

/// A function's cold start is in it.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    #[error("the stack has no HTTP API")]
    NoApi,
    #[error("the client of the HTTP API")]
    Client(#[from] LocalError),
    #[error("no API key: {0}")]
    Key(String),
}

/// Talks to the API of a local stack in the name of a tenant.
pub struct Sender {
    client: Client,
    api: String,
    key: String,
    tenant: Tenant,
}

impl Sender {
    /// Makes an API key for everything.
    ///
    /// # Errors
    /// [`SenderError`], if there is no API or its key cannot be stored.
    pub async fn open(stack: &Stack, tenant: Tenant) -> Result<Self, SenderError> {
        let api = stack.description().api_url.clone().ok_or(SenderError::NoApi)?;
        let dynamodb = aws_sdk_dynamodb::Client::new(&stack.sdk_config());
        let access = DynamoAccess::new(dynamodb, stack.description().tables.control.clone());
        let key = new_key().map_err(|error| SenderError::Key(error.to_string()))?;
        let now = System.now();
        let stored = StoredKey {
            id: key.id().clone(),
            tenant: tenant.clone(),
            scopes: Scope::ALL.into(),
            credential: Credential::Key(SecretDigest::of(&key)),
            label: Some("demo".to_owned()),
            created_at: now,
            expires_at: None,
            revoked_at: None,
        };
        match access.create(&stored, now).await {
            Ok(Created::Yes) => Ok(Self { client: http_client()?, api, key: key.expose(), tenant }),
            Ok(Created::Has(_) | Created::Taken) => Err(SenderError::Key("its id is taken".to_owned())),
            Err(error) => Err(SenderError::Key(error.to_string())),
        }
    }

    /// What the API answers to `GET` on a path.
    pub async fn get(&self, path: &str) -> Answered {
        self.ask(self.client.get(format!("{}{path}", self.api))).await
    }

    /// What it answers to `POST` of a document.
    pub async fn post(&self, path: &str, document: &Value) -> Answered {
        let request = self.client.post(format!("{}{path}", self.api));
        let request = request.header("content-type", "application/json").body(document.to_string());
        self.ask(request).await
    }

    /// No answer is a problem like another for the page.
    async fn ask(&self, request: RequestBuilder) -> Answered {
        let answering = async {
            let answer = request.bearer_auth(&self.key).timeout(PATIENCE).send().await?;
            let status = answer.status();
            Ok::<_, reqwest::Error>((status, answer.bytes().await?))
        };
        match answering.await {
            Ok((status, body)) => (status, serde_json::from_slice(&body).unwrap_or_default()),
            Err(_) => (StatusCode::BAD_GATEWAY, json!({"title": "the API does not answer"})),
        }
    }
}

impl BackOffice for Sender {
    fn api(&self) -> &str {
        &self.api
    }

    async fn session(&self) -> Answered {
        let wish = json!({});
        let (token, keys) = tokio::join!(self.post("/v1/subscription-tokens", &wish), self.get("/v1/keys"));
        if let Some(refused) = [&token, &keys].into_iter().find(|(status, _)| !status.is_success()) {
            return refused.clone();
        }
        let (token, keys) = (token.1, keys.1);
        let listed = keys["keys"].as_array().into_iter().flatten();
        let Some(current) = listed.into_iter().find(|key| key["id"] == keys["current"]) else {
            return (StatusCode::BAD_GATEWAY, json!({"title": "the API names no key to subscribe with"}));
        };
        let session = json!({
            "api": self.api,
            "tenant": self.tenant.as_str(),
            "subscription": token["subscription"],
            "token": token["token"],
            "vapid_key_id": current["id"],
            "public_key": current["public_key"],
        });
        (StatusCode::OK, session)
    }

    async fn send(&self, order: Value) -> Answered {
        let message = json!({
            "to": {"subscription": order["subscription"]},
            "payload": order["payload"],
            "ttl": order["ttl"],
            "urgency": order["urgency"],
            "acks": true,
        });
        self.post("/v1/messages", &message).await
    }

    async fn status(&self, id: &str) -> Answered {
        self.get(&format!("/v1/messages/{id}")).await
    }
}
