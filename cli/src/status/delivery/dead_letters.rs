//! A dead letter as it is printed, without its body.

use redial_adapters::dead_letters_dynamo::Letter;
use redial_core::time::Timestamp;
use serde_json::{Value, json};

pub(super) fn to_json(letter: &Letter) -> Value {
    let reference = letter.described.as_ref().map(|described| &described.reference);
    json!({
        "letter": letter.key.letter,
        "described": reference.is_some(),
        "kind": reference.map(|it| it.kind),
        "reason": reference.map(|it| it.reason.as_str()),
        "detail": reference.and_then(|it| it.detail.as_deref()),
        "status": reference.and_then(|it| it.status),
        "attempts": reference.map(|it| it.attempts),
        "at": reference.map(|it| Timestamp::from_ms(it.at).to_rfc3339()),
        "body_until": letter.body_until.map(Timestamp::to_rfc3339),
    })
}

/// One line: `lineage-0: retries_exhausted (…), 6 attempts, last status 503, at …`.
pub(super) fn in_words(letter: &Letter) -> String {
    let name = letter.key.letter.clone();
    let Some(described) = &letter.described else { return name };
    let it = &described.reference;
    let mut words = format!("{name}: {}", it.reason);
    words.extend(it.detail.as_ref().map(|detail| format!(" ({detail})")));
    let plural = if it.attempts == 1 { "" } else { "s" };
    words.push_str(&format!(", {} attempt{plural}", it.attempts));
    words.extend(it.status.map(|status| format!(", last status {status}")));
    words.push_str(&format!(", at {}", Timestamp::from_ms(it.at).to_rfc3339()));
    words
}

#[cfg(test)]
pub(super) mod tests {
    use redial_adapters::dead_letters_dynamo::Described;
    use redial_core::dead_letter::{DeadLetterKey, Kind, Reference};

    use super::*;

    /// One with a description of one attempt, and without a body.
    pub(crate) fn dead_letter(name: &str, reason: &str) -> Letter {
        let text = |text: &str| text.to_owned();
        let reference = Reference {
            v: Reference::VERSION,
            kind: Kind::Failed,
            tenant: text("acme"),
            id: text("d1"),
            letter: text(name),
            lineage: 0,
            channel: text("web_push"),
            subscription: None,
            endpoint_hash: None,
            reason: text(reason),
            detail: None,
            status: None,
            attempts: 1,
            first_sent: 0,
            at: 5_000,
            retention_days: 14,
        };
        Letter {
            key: DeadLetterKey { tenant: text("acme"), id: text("d1"), letter: text(name) },
            described: Some(Described { reference, replayed_at: None, kept_until: None }),
            body_until: None,
            lane: None,
        }
    }

    #[test]
    fn a_dead_letter_is_printed_with_the_fields_that_it_has() {
        let mut letter = dead_letter("lineage-0", "retries_exhausted");
        assert_eq!(in_words(&letter), "lineage-0: retries_exhausted, 1 attempt, at 1970-01-01T00:00:05.000Z");
        let it = &mut letter.described.as_mut().expect("described").reference;
        (it.attempts, it.status, it.detail) = (6, Some(503), Some("busy".to_owned()));
        assert_eq!(
            in_words(&letter),
            "lineage-0: retries_exhausted (busy), 6 attempts, last status 503, at 1970-01-01T00:00:05.000Z"
        );
        letter.described = None;
        assert_eq!(in_words(&letter), "lineage-0");
    }

    #[test]
    fn json_has_every_field_before_the_description_is_stored() {
        let mut letter = dead_letter("lineage-0", "retries_exhausted");
        letter.body_until = Some(Timestamp::from_ms(7_000));
        assert_eq!(
            to_json(&letter),
            json!({
                "letter": "lineage-0", "described": true, "kind": "failed", "reason": "retries_exhausted",
                "detail": null, "status": null, "attempts": 1, "at": "1970-01-01T00:00:05.000Z",
                "body_until": "1970-01-01T00:00:07.000Z",
            })
        );
        letter.described = None;
        let shown = to_json(&letter);
        assert_eq!(
            (&shown["described"], &shown["kind"], &shown["at"]),
            (&json!(false), &json!(null), &json!(null))
        );
        assert_eq!(shown["body_until"], "1970-01-01T00:00:07.000Z");
    }
}
