//! What a browser and its push server say to each other: one JSON object a websocket text, distinguished by `messageType`.
//!
//! Written after what Firefox sends and reads, and not after a specification, because there is none. Fields that a test has no
//! use for (`broadcasts`, `channelIDs`) are passed over.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use serde_json::{Value, json};

use super::Code;
use crate::push_service::Accepted;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The first words; with the name that it was given before, if any.
    Hello {
        uaid: Option<String>,
    },
    /// A page subscribes: the channel's name, and the public key of who may send.
    Register {
        channel: String,
        key: Option<String>,
    },
    Unregister {
        channel: String,
    },
    Ack(Vec<Update>),
    Nack {
        version: String,
        code: u64,
    },
    Ping,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) channel: String,
    pub(super) version: String,
    pub(super) code: Code,
}

impl Said {
    /// `None` for what is not of this protocol.
    pub(super) fn read(text: &str) -> Option<Self> {
        let said: Value = serde_json::from_str(text).ok()?;
        let object = said.as_object()?;
        let field = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(kind) = object.get("messageType") else {
            return object.is_empty().then_some(Self::Ping);
        };
        Some(match kind.as_str()? {
            "hello" => Self::Hello { uaid: field("uaid").filter(|uaid| !uaid.is_empty()) },
            "register" => Self::Register { channel: field("channelID")?, key: field("key") },
            "unregister" => Self::Unregister { channel: field("channelID")? },
            "ack" => {
                let updates = object.get("updates")?.as_array()?;
                Self::Ack(updates.iter().map(update).collect::<Option<_>>()?)
            }
            "nack" => Self::Nack { version: field("version")?, code: object.get("code")?.as_u64()? },
            "ping" => Self::Ping,
            _ => Self::Other,
        })
    }
}

fn update(update: &Value) -> Option<Update> {
    let field = |name: &str| update.get(name)?.as_str().map(str::to_owned);
    // Firefox wrote no code before it distinguished them: it meant the good one.
    let code = update.get("code").map_or(Some(100), Value::as_u64)?;
    Some(Update { channel: field("channelID")?, version: field("version")?, code: Code::from_number(code) })
}

pub(super) fn hello(uaid: &str) -> String {
    json!({"messageType": "hello", "uaid": uaid, "status": 200, "use_webpush": true, "broadcasts": {}})
        .to_string()
}

pub(super) fn registered(channel: &str, endpoint: &str) -> String {
    json!({"messageType": "register", "channelID": channel, "status": 200, "pushEndpoint": endpoint})
        .to_string()
}

/// The page's `subscribe()` is rejected.
pub(super) fn not_registered(channel: &str) -> String {
    json!({"messageType": "register", "channelID": channel, "status": 400, "pushEndpoint": ""}).to_string()
}

pub(super) fn unregistered(channel: &str) -> String {
    json!({"messageType": "unregister", "channelID": channel, "status": 200}).to_string()
}

pub(super) fn pong() -> String {
    "{}".to_owned()
}

/// A push without a body has neither `data` nor `headers`.
pub(super) fn notification(channel: &str, message: &Accepted) -> String {
    let mut said = json!({
        "messageType": "notification",
        "channelID": channel,
        "version": message.message,
        "ttl": message.ttl_s,
    });
    if !message.body.is_empty() {
        said["data"] = Value::from(B64.encode(&message.body));
        said["headers"] = json!({"encoding": message.encoding});
    }
    said.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;

    #[test]
    fn what_firefox_says_is_understood_and_what_is_not_of_the_protocol_is_not() {
        let ack =
            |code: Code| Some(Said::Ack(vec![Update { channel: "c".into(), version: "v".into(), code }]));
        let key = Some("BA".to_owned());
        for (text, said) in [
            (
                r#"{"messageType":"hello","broadcasts":{"remote-settings/monitor_changes":null},"use_webpush":true}"#,
                Some(Said::Hello { uaid: None }),
            ),
            (r#"{"messageType":"hello","uaid":"abc"}"#, Some(Said::Hello { uaid: Some("abc".into()) })),
            (
                r#"{"channelID":"c","messageType":"register","key":"BA"}"#,
                Some(Said::Register { channel: "c".into(), key }),
            ),
            (
                r#"{"channelID":"c","messageType":"unregister","code":200}"#,
                Some(Said::Unregister { channel: "c".into() }),
            ),
            ("{}", Some(Said::Ping)),
            (r#"{"messageType":"broadcast_subscribe","broadcasts":{}}"#, Some(Said::Other)),
            (
                r#"{"messageType":"nack","version":"v","code":302}"#,
                Some(Said::Nack { version: "v".into(), code: 302 }),
            ),
            (r#"{"messageType":"ack","updates":[{"channelID":"c","version":"v"}]}"#, ack(Code::Decrypted)),
            ("", None),
            ("[]", None),
            (r#"{"a":1}"#, None),
            (r#"{"messageType":1}"#, None),
            (r#"{"messageType":"register"}"#, None),
        ] {
            assert_eq!(Said::read(text), said, "{text}");
        }
        for (number, code) in [
            (100, Code::Decrypted),
            (101, Code::NotDecrypted),
            (102, Code::NotDelivered),
            (7, Code::Other(7)),
        ] {
            let update = format!(r#"{{"channelID":"c","version":"v","code":{number}}}"#);
            let text = format!(r#"{{"messageType":"ack","updates":[{update}]}}"#);
            assert_eq!(Said::read(&text), ack(code), "{number}");
        }
    }

    #[test]
    fn a_notification_has_its_body_in_base64url_and_none_where_there_is_none() {
        let mut message = Accepted {
            message: "m".into(),
            ttl_s: 60,
            topic: None,
            encoding: Some("aes128gcm".into()),
            body: Bytes::from_static(&[0xfb, 0xff]),
        };
        let said: Value = serde_json::from_str(&notification("c", &message)).expect("JSON");
        let expected = json!({"messageType": "notification", "channelID": "c", "version": "m", "ttl": 60,
            "data": "-_8", "headers": {"encoding": "aes128gcm"}});
        assert_eq!(said, expected);
        message.body = Bytes::new();
        let said: Value = serde_json::from_str(&notification("c", &message)).expect("JSON");
        assert_eq!((said.get("data"), said.get("headers")), (None, None));
    }
}
