//! Webhooks' signatures, checked as their receivers would: by the Python package `standardwebhooks`, which has nothing in
//! common with what signed them.

use std::io;
use std::path::Path;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::webhook_receiver::Request;

/// Reads a list of requests, and answers with a list of what is wrong with each, null for nothing.
const SCRIPT: &str = r#"
import base64, json, sys
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

def problem(request):
    try:
        body = base64.b64decode(request["body"])
        Webhook(request["secret"]).verify(body, request["headers"], json_parse=False)
    except WebhookVerificationError as error:
        return str(error)

print(json.dumps([problem(request) for request in json.load(sys.stdin)]))
"#;

/// A request as it was received, and the secret that its receiver knows.
#[derive(Clone, Debug)]
pub struct SignedRequest {
    /// `whsec_…`
    pub secret: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl SignedRequest {
    /// What arrived, to a receiver that knows this secret.
    pub fn of(secret: String, request: &Request) -> Self {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Self {
            secret,
            headers: request
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
                .collect(),
            body: request.body.to_vec(),
        }
    }
}

/// What the library says of each request: nothing, or what is wrong with it. `python` is one that has the library.
pub async fn verify(python: &Path, requests: &[SignedRequest]) -> io::Result<Vec<Option<String>>> {
    let asked: Vec<Value> = requests
        .iter()
        .map(|request| {
            let headers: serde_json::Map<String, Value> =
                request.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            json!({"secret": request.secret, "headers": headers, "body": STANDARD.encode(&request.body)})
        })
        .collect();
    let mut child = Command::new(python)
        .args(["-I", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(Value::from(asked).to_string().as_bytes()).await?;
    drop(stdin);
    let done = child.wait_with_output().await?;
    serde_json::from_slice(&done.stdout)
        .map_err(|_| io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
}
