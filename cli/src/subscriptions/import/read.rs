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

use super::{hosts::Hosts, lines::Line};

/// For lines that leave them out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Defaults {
    pub(super) consent: Option<Consent>,
    pub(super) vapid_key_id: Option<VapidKeyId>,
}

#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) tenant: Tenant,
    pub(super) hosts: Hosts,
    pub(super) defaults: Defaults,
}

impl Reader {
    /// Its browser was not seen: `seen_at` is empty.
    pub(super) fn read(&self, line: &Line, now: Timestamp) -> Result<Renewal, Vec<String>> {
        let text = line.text.as_ref().map_err(|problem| vec![(*problem).to_owned()])?;
        let rules = Rules {
            push_hosts: &self.hosts.push_hosts,
            egress_allow: &self.hosts.egress_allow,
            is_on_curve,
            now,
        };
        let (id, mut document) = document::parse_with_id(text, &rules)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        document.consent = document.consent.or_else(|| self.defaults.consent.clone());
        if document.consent.is_none() {
            return Err(vec![document::consent_is_missing().to_string()]);
        }
        let target = &mut document.target;
        target.vapid_key_id = target.vapid_key_id.take().or_else(|| self.defaults.vapid_key_id.clone());
        let key = SubscriptionKey { tenant: self.tenant.clone(), id };
        Ok(Renewal { key, document, seen_at: None })
    }
}

#[cfg(test)]
mod tests {
    use redial_core::endpoint::Origin;

    use super::*;
    use crate::subscriptions::import::reader_tests::reader;

    fn line(more: &str) -> Line {
        // RFC 8291, Appendix A.
        let keys = r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#;
        let text = format!(r#"{{"id":"s1","endpoint":"https://push.example/x","keys":{keys}{more}}}"#);
        Line { number: 1, text: Ok(text) }
    }

    const CONSENT: &str = r#","consent":{"at":"2026-01-01T00:00:00Z","prompt_version":"v1","action":"granted","origin":"https://shop.example"}"#;

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("valid")
    }

    #[test]
    fn a_line_needs_consent_and_its_own_wins_over_the_default() {
        let mut reader = reader();
        let errors = reader.read(&line(""), now()).expect_err("no consent");
        assert_eq!(
            errors,
            [r#"consent: expected {"at", "prompt_version", "action", "origin"}, found nothing"#]
        );
        let default = Consent {
            at: now(),
            prompt_version: "import".to_owned(),
            action: "granted".to_owned(),
            origin: Origin::parse("https://shop.example").expect("valid"),
        };
        reader.defaults.consent = Some(default.clone());
        reader.defaults.vapid_key_id = VapidKeyId::parse("theirs");
        let renewal = reader.read(&line(""), now()).expect("valid");
        assert_eq!((renewal.document.consent, renewal.seen_at), (Some(default), None));
        assert_eq!(renewal.document.target.vapid_key_id, VapidKeyId::parse("theirs"));
        let renewal = reader.read(&line(CONSENT), now()).expect("valid");
        assert_eq!(renewal.document.consent.expect("its own").prompt_version, "v1");
        let own = reader.read(&line(&format!(r#"{CONSENT},"vapid_key_id":"own""#)), now()).expect("valid");
        assert_eq!(own.document.target.vapid_key_id, VapidKeyId::parse("own"));
    }

    #[test]
    fn a_point_off_the_curve_and_another_host_are_refused() {
        let Ok(text) = line(CONSENT).text else { panic!("text") };
        let off = Line {
            number: 1,
            text: Ok(text.replace("NtoIAiw4", "NtoIAiw8").replace("push.example", "a.example")),
        };
        let errors = reader().read(&off, now()).expect_err("two are wrong");
        assert_eq!(
            errors,
            [
                "endpoint: expected an address of a push service that may be pushed to, found another address",
                "keys.p256dh: expected a point of the curve P-256, found another point",
            ]
        );
    }
}
