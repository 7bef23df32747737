//! A notification that a browser can show without a service worker: Declarative Web Push (W3C Push API, "declarative push messages").
//!
//! The message's field `notification` is written as the standard's document:
//!
//! ```json
//! {"web_push":8030,"notification":{"title":"…","navigate":"https://…"},"app_badge":3,"mutable":true}
//! ```
//!
//! Values stay as they were written, in one order of names. What Redial adds is in the notification's `data`, which the standard leaves
//! to the sender: `{"redial":{"id":"…","until":<epoch s>,"ack":"…"},"own":<the producer's data>}`. A worker reads it there, whether it
//! got the document or the browser made a notification of it. Where the message is to be acknowledged, the document is `mutable`: a
//! browser that knows the standard then asks the service worker, and shows the notification itself if that fails. Browsers that do not know the
//! standard give the document to the worker, as any payload.
//!
//! `app_badge` stands beside the notification, where the standard has it, and in it, where Safari 18.4 looks.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::endpoint::Endpoint;
use crate::identity::DeliveryId;
use crate::shape::{Object, boolean, integer, string};
use crate::time::Timestamp;

/// By which a browser knows such a document: the number of the RFC of web push.
const WEB_PUSH: u32 = 8030;

/// The most actions. Browsers show two or three.
const MOST_ACTIONS: usize = 8;

/// The largest number that JSON carries exactly everywhere.
const LARGEST: u64 = (1 << 53) - 1;

#[derive(Clone, PartialEq, Eq)]
pub struct Notification {
    /// The members of the standard's `notification`, but `data` and `app_badge`.
    members: String,
    data: Option<String>,
    app_badge: Option<u64>,
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notification(redacted, {} bytes)", self.members.len())
    }
}

/// What Redial adds to a notification.
#[derive(Clone, Copy, Debug)]
pub struct Added<'a> {
    pub id: &'a DeliveryId,
    /// When its TTL is over.
    pub until: Timestamp,
    /// The token with which it is acknowledged.
    pub ack: Option<&'a str>,
}

impl fmt::Display for Added<'_> {
    /// The members of a JSON object: `"id":"m1","until":1800014400,"ack":"…"`. None of their characters would be escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#""id":"{}","until":{}"#, self.id, self.until.as_secs())?;
        self.ack.map_or(Ok(()), |token| write!(f, r#","ack":"{token}""#))
    }
}

/// A member of a JSON object: its name, what is expected, and whether a value is that.
type Member = (&'static str, &'static str, fn(&RawValue) -> bool);

const A_TEXT: &str = "a string of at least one character";
const AN_ADDRESS: &str = "an https URL";

/// Those of a notification; the first two are required.
const MEMBERS: [Member; 12] = [
    ("title", A_TEXT, is_text),
    ("navigate", AN_ADDRESS, is_address),
    ("body", "a string", is_string),
    ("lang", "a language tag, such as \"en-GB\"", is_language),
    ("dir", "\"auto\", \"ltr\" or \"rtl\"", is_direction),
    ("tag", "a string", is_string),
    ("icon", AN_ADDRESS, is_address),
    ("image", AN_ADDRESS, is_address),
    ("badge", AN_ADDRESS, is_address),
    ("silent", "true or false", is_boolean),
    ("renotify", "true or false", is_boolean),
    ("require_interaction", "true or false", is_boolean),
];

/// Those of an action; the first three are required.
const OF_AN_ACTION: [Member; 4] = [
    ("action", A_TEXT, is_text),
    ("title", A_TEXT, is_text),
    ("navigate", AN_ADDRESS, is_address),
    ("icon", AN_ADDRESS, is_address),
];

impl Notification {
    /// Takes the field. What is wrong with it is among the object's errors.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        let mut own = object.object("notification")?;
        let mut members = members(&mut own, &MEMBERS, 2);
        if let Some(actions) = actions(&mut own) {
            members.extend([",\"actions\":[", &actions, "]"]);
        }
        let a_number = "an integer from 0 to 9007199254740991";
        let app_badge = own.optional("app_badge", a_number, integer(0..=LARGEST));
        let data = own.raw("data").map(|data| data.get().to_owned());
        own.finish();
        Some(Self { members, data, app_badge })
    }

    /// The standard's document.
    pub fn document(&self, added: Option<Added<'_>>) -> String {
        let Self { members, data, app_badge } = self;
        let badge = app_badge.map(|number| format!(",\"app_badge\":{number}")).unwrap_or_default();
        let own = data.as_deref().map(Cow::Borrowed);
        let data = match added {
            Some(added) => {
                let own = own.map(|own| format!(",\"own\":{own}")).unwrap_or_default();
                Some(Cow::Owned(format!("{{\"redial\":{{{added}}}{own}}}")))
            }
            None => own,
        };
        let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        let mutable = if added.is_some_and(|it| it.ack.is_some()) { ",\"mutable\":true" } else { "" };
        format!("{{\"web_push\":{WEB_PUSH},\"notification\":{{{members}{badge}{data}}}{badge}{mutable}}}")
    }
}

/// These members as they are written, in this order.
fn members(object: &mut Object<'_>, known: &[Member], required: usize) -> String {
    let mut text = String::new();
    for (at, (name, expected, is)) in known.iter().enumerate() {
        let read = |raw| is(raw).then_some(raw);
        let value = if at < required {
            object.required(name, *expected, read)
        } else {
            object.optional(name, *expected, read)
        };
        let Some(value) = value else { continue };
        let comma = if text.is_empty() { "" } else { "," };
        text.extend([comma, "\"", name, "\":", value.get()]);
    }
    text
}

/// The elements of the array.
fn actions(object: &mut Object<'_>) -> Option<String> {
    let raw = object.raw("actions")?;
    let expected = || format!("an array of at most {MOST_ACTIONS} objects");
    let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        object.refuse("actions", expected(), Some(raw));
        return None;
    };
    if elements.len() > MOST_ACTIONS {
        object.error("actions", expected(), format!("{} elements", elements.len()));
        return None;
    }
    let mut texts = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let path = object.path_of(&format!("actions[{at}]"));
        let mut action = Object::parse(element.get(), &path, object.errors())?;
        texts.push(format!("{{{}}}", members(&mut action, &OF_AN_ACTION, 3)));
        action.finish();
    }
    Some(texts.join(","))
}

fn is_text(raw: &RawValue) -> bool {
    string(raw).is_some_and(|text| !text.is_empty())
}

fn is_string(raw: &RawValue) -> bool {
    string(raw).is_some()
}

fn is_boolean(raw: &RawValue) -> bool {
    boolean(raw).is_some()
}

fn is_direction(raw: &RawValue) -> bool {
    string(raw).is_some_and(|text| matches!(text.as_str(), "auto" | "ltr" | "rtl"))
}

/// A language tag by its form (RFC 5646): subtags of up to eight letters and digits.
fn is_language(raw: &RawValue) -> bool {
    let is_subtag =
        |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|it| it.is_ascii_alphanumeric());
    string(raw).is_some_and(|text| text.split('-').all(is_subtag))
}

fn is_address(raw: &RawValue) -> bool {
    string(raw).is_some_and(|text| Endpoint::parse(&text).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fixtures;
    use crate::message::{QueueKind, parse};

    /// A notification with these members beside the required ones.
    fn notification(rest: &str) -> String {
        format!(r#""notification":{{"navigate":"https://shop.example/o/17", "title" : "Shipped"{rest}}}"#)
    }

    fn read(field: &str) -> Notification {
        *fixtures::message(&format!(",{field}")).notification.expect("a notification")
    }

    fn refused(field: &str) -> String {
        let body = format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}},{field}}}"#);
        parse(&body, QueueKind::Ingest, "sqs-1", Timestamp::default()).expect_err("it is refused").to_string()
    }

    #[test]
    fn the_document_is_the_standard_s() {
        let plain = read(&notification(""));
        let members = r#""title":"Shipped","navigate":"https://shop.example/o/17""#;
        assert_eq!(plain.document(None), format!(r#"{{"web_push":8030,"notification":{{{members}}}}}"#));

        let whole = read(&notification(
            r#","app_badge":3,"data":{"order": 17},"actions":[{"title":"Track","action":"track",
            "navigate":"https://shop.example/t/17"}],"body":"\u00e9","lang":"fr-CA","dir":"ltr","silent":true"#,
        ));
        let id = DeliveryId::parse("m1").expect("an id");
        let added = Added { id: &id, until: Timestamp::from_secs(1_800_014_400), ack: Some("k1.a.b") };
        let document: Value = serde_json::from_str(&whole.document(Some(added))).expect("JSON");
        let expected = serde_json::json!({
            "web_push": 8030,
            "notification": {
                "title": "Shipped", "navigate": "https://shop.example/o/17", "body": "é", "lang": "fr-CA",
                "dir": "ltr", "silent": true, "app_badge": 3,
                "actions": [{"action": "track", "title": "Track", "navigate": "https://shop.example/t/17"}],
                "data": {"redial": {"id": "m1", "until": 1_800_014_400, "ack": "k1.a.b"}, "own": {"order": 17}},
            },
            "app_badge": 3,
            "mutable": true,
        });
        assert_eq!(document, expected);
        let without = Added { ack: None, ..added };
        let document: Value = serde_json::from_str(&plain.document(Some(without))).expect("JSON");
        assert_eq!(
            document["notification"]["data"],
            serde_json::json!({"redial": {"id": "m1", "until": 1_800_014_400}})
        );
        assert!(document.get("mutable").is_none() && document.get("app_badge").is_none());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_expected() {
        for (field, expected) in [
            (r#""notification":"hello""#, "notification: expected a JSON object, found a string"),
            (
                r#""notification":{"navigate":"https://a.example/"}"#,
                "notification.title: expected a string of at least one character, found nothing",
            ),
            (
                r#""notification":{"title":"x"}"#,
                "notification.navigate: expected an https URL, found nothing",
            ),
            (
                r#""notification":{"title":"","navigate":"/orders"}"#,
                "notification.title: expected a string of at least one character, found a string; notification.navigate: expected an https URL, found a string",
            ),
            (
                &notification(r#","dir":"up""#),
                "notification.dir: expected \"auto\", \"ltr\" or \"rtl\", found a string",
            ),
            (
                &notification(r#","lang":"en_GB""#),
                "notification.lang: expected a language tag, such as \"en-GB\", found a string",
            ),
            (
                &notification(r#","app_badge":-1"#),
                "notification.app_badge: expected an integer from 0 to 9007199254740991, found an integer",
            ),
            (&notification(r#","sound":"x""#), "notification.sound: expected no such field, found a string"),
            (
                &notification(
                    r#","actions":[{"action":"a","title":"A","navigate":"https://a.example/"},{"action":"b","title":"B"}]"#,
                ),
                "notification.actions[1].navigate: expected an https URL, found nothing",
            ),
            (
                &notification(r#","actions":{}"#),
                "notification.actions: expected an array of at most 8 objects, found an object",
            ),
        ] {
            assert!(refused(field).contains(expected), "{field}: {}", refused(field));
        }
    }

    #[test]
    fn debug_shows_nothing_of_it() {
        let shown = format!("{:?}", read(&notification(r#","body":"s3cret""#)));
        assert!(shown.starts_with("Notification(redacted, ") && !shown.contains("s3cret"), "{shown}");
    }
}
