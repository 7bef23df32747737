//! A row that stacks have in common, of which kind it is, and a line of JSON with all of it.

use std::fmt;

use serde_json::{Map, Value, json};

use super::typed;
use crate::table::attributes::{Item, Read as _};

redial_core::labels! {
    /// What is taken over from another stack.
    pub enum Kind {
        /// Or what a deleted or erased one has left.
        Subscription = "subscription",
        Policies = "policies",
        Limit = "limit",
        Quota = "quota",
        /// The webhook that a tenant's events are posted to.
        Callback = "callback",
        /// Or a grant of an AWS principal.
        ApiKey = "api_key",
        /// Which grant a principal has.
        Principal = "principal",
        /// The mark of a `ref` that was erased.
        ErasedRef = "erased_ref",
    }
}

/// It holds endpoints, keys and digests of API keys.
#[derive(Clone, PartialEq)]
pub struct Row {
    pub kind: Kind,
    pub(super) item: Item,
}

impl Row {
    /// `None` for what each stack has for itself.
    pub(super) fn of(item: Item) -> Option<Self> {
        Some(Self { kind: kind(item.text("pk")?, item.text("sk"))?, item })
    }

    /// The key that it is found by, for reports. It has no value of the row.
    pub fn name(&self) -> String {
        let part = |name: &str| self.item.text(name).unwrap_or_default();
        match part("sk") {
            "" => part("pk").to_owned(),
            sk => format!("{} {sk}", part("pk")),
        }
    }

    /// One line, without a line feed. With it, anyone can push to the browser that it is about.
    pub fn expose_line(&self) -> String {
        let item: Map<String, Value> =
            self.item.iter().filter_map(|(name, value)| Some((name.clone(), typed::write(value)?))).collect();
        json!({"kind": self.kind.label(), "item": item}).to_string()
    }

    /// `Err` says what was expected; it holds nothing of the line.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = r#"expected {"kind", "item"}, as `redial replica export` writes it"#;
        let parsed: Value = serde_json::from_str(line).map_err(|_| EXPECTED)?;
        let attributes = parsed["item"].as_object().ok_or(EXPECTED)?;
        let read = |(name, value): (&String, &Value)| Some((name.clone(), typed::read(value)?));
        let item: Item = attributes.iter().map(read).collect::<Option<_>>().ok_or(EXPECTED)?;
        let row = Self::of(item).ok_or(EXPECTED)?;
        if parsed["kind"] == row.kind.label() { Ok(row) } else { Err(EXPECTED) }
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A subscription's key has no second part.
fn kind(pk: &str, sk: Option<&str>) -> Option<Kind> {
    let Some(sk) = sk else { return Some(Kind::Subscription) };
    match (pk, sk) {
        ("limits", _) => Some(Kind::Limit),
        ("quotas", _) => Some(Kind::Quota),
        ("callbacks", _) => Some(Kind::Callback),
        (_, "policies") if pk.starts_with("tenant#") => Some(Kind::Policies),
        (_, "key") if pk.starts_with("access#iam#") => Some(Kind::Principal),
        (_, "key") if pk.starts_with("access#") => Some(Kind::ApiKey),
        _ if pk.starts_with("erased#") => Some(Kind::ErasedRef),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::attributes::{b, item, n, s};
    use aws_sdk_dynamodb::types::AttributeValue;

    /// With each attribute of `subscriptions_dynamo::item`, and one that a later release may add.
    fn whole() -> Item {
        let texts = "pk tenant id kind endpoint state p256dh auth vapid_key_id consent_prompt consent_action consent_origin \
                     sealed topic policy rate failing_tenant later";
        let times = "created_at updated_at flagged_at gone_at consent_at last_seen_at moved_at authorized_at ends_at \
                     took_over_at enabled_at failing_since failures";
        let mut whole: Item =
            texts.split_whitespace().map(|name| (name.to_owned(), s(format!("of {name}")))).collect();
        whole.extend(times.split_whitespace().zip(1..).map(|(name, at)| (name.to_owned(), n(at))));
        whole.extend(item([
            ("tags", AttributeValue::L(vec![s("news"), s("sport")])),
            ("permitted", AttributeValue::L(vec![s("idempotency-key")])),
            ("holds", AttributeValue::Bool(true)),
            ("later_map", AttributeValue::M(item([("a", b([0, 255])), ("b", AttributeValue::Null(true))]))),
            ("later_set", AttributeValue::Ss(vec!["x".to_owned()])),
        ]));
        whole
    }

    #[test]
    fn a_row_with_every_attribute_reads_back_from_its_line() {
        let row = Row::of(whole()).expect("a subscription");
        let line = row.expose_line();
        assert!(!line.contains('\n'));
        let read = Row::parse(&line).expect("its own line");
        assert_eq!((read.kind, read.item.len()), (Kind::Subscription, whole().len()));
        assert!(read == row);
        assert_eq!(format!("{row:?}"), "Row { kind: Subscription, .. }");
    }

    #[test]
    fn only_what_stacks_have_in_common_is_a_row() {
        for (pk, sk, expected) in [
            ("limits", "tenant#acme", Some(Kind::Limit)),
            ("quotas", "acme", Some(Kind::Quota)),
            ("callbacks", "acme", Some(Kind::Callback)),
            ("tenant#acme", "policies", Some(Kind::Policies)),
            ("tenant#acme", "subscriptions#03", None),
            ("access#4Xb0m2Qp9Lk7", "key", Some(Kind::ApiKey)),
            ("access#iam#00ff", "key", Some(Kind::Principal)),
            ("access-of#acme", "4Xb0m2Qp9Lk7", None),
            ("erased#acme", "00ff", Some(Kind::ErasedRef)),
            ("origin#https://push.example", "state", None),
            ("vapid", "public", None),
            ("waits", "w60", None),
        ] {
            assert_eq!(kind(pk, Some(sk)), expected, "{pk} {sk}");
        }
    }

    #[test]
    fn a_line_of_another_form_is_refused_without_its_values() {
        for line in [
            "s3cret",
            "{}",
            r#"{"kind":"limit","item":{"pk":{"S":"s3cret"}}}"#,
            r#"{"kind":"subscription","item":{"pk":{"S":"acme#s1"},"x":{"S":1}}}"#,
            r#"{"kind":"subscription","item":{"pk":"s3cret"}}"#,
        ] {
            let error = Row::parse(line).expect_err("refused");
            assert!(error.starts_with("expected {\"kind\"") && !error.contains("s3cret"));
        }
    }
}
