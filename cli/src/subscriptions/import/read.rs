//! From a line to a subscription, or to all of its errors.

use redial_adapters::seal::is_on_curve;
use redial_core::{
    identity::{SubscriptionKey, Tenant, VapidKeyId},
    subscription::{
        Consent, Renewal,
        document::{self, Rules},
    },
    time::Timestamp,
};

use super::hosts::Hosts;

#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) tenant: Tenant,
    pub(super) hosts: Hosts,
    /// Of lines that have none, as the next.
    pub(super) consent: Option<Consent>,
    pub(super) vapid_key_id: Option<VapidKeyId>,
}

impl Reader {
    /// Its browser was not seen: `seen_at` is empty.
    pub(super) fn read(&self, text: &str, now: Timestamp) -> Result<Renewal, Vec<String>> {
        let rules = Rules {
            push_hosts: &self.hosts.push_hosts,
            egress_allow: &self.hosts.egress_allow,
            is_on_curve,
            now,
        };
        let (id, mut document) = document::parse_with_id(text, &rules)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        document.consent = document.consent.or_else(|| self.consent.clone());
        if document.consent.is_none() {
            return Err(vec![document::consent_is_missing().to_string()]);
        }
        let target = &mut document.target;
        target.vapid_key_id = target.vapid_key_id.take().or_else(|| self.vapid_key_id.clone());
        let key = SubscriptionKey { tenant: self.tenant.clone(), id };
        Ok(Renewal { key, document, seen_at: None, permit: None })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use redial_core::endpoint::{Origin, PushHosts};

    use super::*;

    pub(in crate::subscriptions::import) fn reader() -> Reader {
        let push_hosts = PushHosts::parse("push.example").expect("valid");
        Reader {
            tenant: Tenant::parse("acme").expect("valid"),
            hosts: Hosts { push_hosts, egress_allow: Vec::new() },
            consent: None,
            vapid_key_id: None,
        }
    }

    /// A line about a browser's subscription, with these fields besides.
    pub(in crate::subscriptions::import) fn line(id: &str, endpoint: &str, more: &str) -> String {
        // RFC 8291, Appendix A.
        let keys = r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#;
        format!(r#"{{"id":"{id}","endpoint":"https://push.example/{endpoint}","keys":{keys}{more}}}"#)
    }

    pub(in crate::subscriptions::import) const CONSENT: &str = r#","consent":{"at":"2026-01-01T00:00:00Z","prompt_version":"v1","action":"granted","origin":"https://shop.example"}"#;

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("valid")
    }

    #[test]
    fn a_line_needs_consent_and_its_own_fields_win_over_the_defaults() {
        let mut reader = reader();
        let origin = Origin::parse("https://shop.example").expect("valid");
        let (prompt_version, action) = ("import".to_owned(), "granted".to_owned());
        let theirs = VapidKeyId::parse("theirs");
        let errors = reader.read(&line("s1", "x", ""), now()).expect_err("no consent");
        assert_eq!(
            errors,
            [r#"consent: expected {"at", "prompt_version", "action", "origin"}, found nothing"#]
        );
        let consent = Some(Consent { at: now(), prompt_version, action, origin });
        (reader.consent, reader.vapid_key_id) = (consent, theirs.clone());
        for (more, prompt_version, vapid_key_id) in [
            ("", "import", theirs.clone()),
            (CONSENT, "v1", theirs),
            (&format!(r#"{CONSENT},"vapid_key_id":"own""#), "v1", VapidKeyId::parse("own")),
        ] {
            let Renewal { document, seen_at, .. } =
                reader.read(&line("s1", "x", more), now()).expect("valid");
            assert_eq!(document.consent.expect("given").prompt_version, prompt_version, "{more}");
            assert_eq!((document.target.vapid_key_id, seen_at), (vapid_key_id, None), "{more}");
        }
    }
}
