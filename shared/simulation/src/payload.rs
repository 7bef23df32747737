//! What payloads say.

use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use serde_json::Value;

/// What long payloads are filled with.
const FILLING: u8 = b'x';

/// The end of a long payload, as JSON escapes it: each byte takes six.
pub fn filling(bytes: usize) -> String {
    let escaped = format!("\\u{FILLING:04x}");
    format!("/{}/{bytes}", escaped.repeat(bytes))
}

/// What a payload says: `acme/m1/0`, of which delivery it is, and of which content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    pub key: DeliveryKey,
    pub content: u32,
    /// With which token it may be acknowledged.
    pub ack: Option<String>,
}

/// Reads a payload, or the envelope around it.
pub fn read_payload(payload: &[u8]) -> Option<Payload> {
    let text = std::str::from_utf8(payload).ok()?;
    if text.starts_with('{') {
        let envelope: Value = serde_json::from_str(text).ok()?;
        let inner = read_payload(envelope["payload"].as_str()?.as_bytes())?;
        return Some(Payload { ack: Some(envelope["ack"].as_str()?.to_owned()), ..inner });
    }
    let mut parts = text.split('/');
    let key = DeliveryKey { tenant: Tenant::parse(parts.next()?)?, id: DeliveryId::parse(parts.next()?)? };
    let content = parts.next()?.parse().ok()?;
    // A long one counts what it is filled with.
    if let Some(filling) = parts.next()
        && (parts.next()?.parse().ok() != Some(filling.len()) || filling.bytes().any(|byte| byte != FILLING))
    {
        return None;
    }
    Some(Payload { key, content, ack: None })
}
