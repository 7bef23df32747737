//! Which events to print.
//!
//! CloudWatch gets the filter as a pattern, and every event is tested here again: emulators support such patterns only partly,
//! and then return everything. A pattern quotes an id, a tenant or a label; none of these can contain a quote, nor an asterisk,
//! which a pattern would take for a wildcard.

use redial_core::{
    dead_letter::DeadLetterKey,
    identity::{DeliveryId, Tenant},
    reason::Reason,
    verdict::{Retry, Verdict},
};

use super::event::{Event, Field, Kind};

/// The labels of all verdicts.
pub(crate) const VERDICTS: [&str; 5] = [
    Verdict::Sent.label(),
    Verdict::SignAgain.label(),
    Verdict::Retry(Retry { reason: Reason::NotSent, in_doubt: false, retry_after: None }).label(),
    Verdict::Gone { confirmed: true }.label(),
    Verdict::Failed(Reason::NotSent).label(),
];

/// By default every event except the HTTP API's requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    tenant: Option<String>,
    id: Option<DeliveryId>,
    verdicts: Vec<&'static str>,
    requests: bool,
}

impl Filter {
    /// Events with that tenant, that id and one of these verdicts, as far as they are given. A tenant may be the one of messages
    /// whose tenant could not be parsed. `None` if the tenant or a verdict is invalid.
    pub(crate) fn new(tenant: Option<&str>, id: Option<DeliveryId>, verdicts: &[String]) -> Option<Self> {
        let is_tenant = |name: &str| name == DeadLetterKey::NO_TENANT || Tenant::parse(name).is_some();
        if !tenant.is_none_or(is_tenant) {
            return None;
        }
        let label = |given: &String| VERDICTS.into_iter().find(|label| label == given);
        let verdicts = verdicts.iter().map(label).collect::<Option<Vec<_>>>()?;
        Some(Self { tenant: tenant.map(str::to_owned), id, verdicts, requests: false })
    }

    /// Includes the HTTP API's requests, which are many.
    pub(crate) fn with_requests(self, requests: bool) -> Self {
        Self { requests, ..self }
    }

    pub(super) fn matches(&self, event: &Event) -> bool {
        self.has(event.kind)
            && self.terms().iter().all(|(field, values)| {
                event.text_of(field.name()).is_some_and(|value| values.contains(&value))
            })
    }

    /// As a filter pattern of CloudWatch Logs.
    pub(super) fn pattern(&self) -> String {
        let filters = self.terms();
        let kinds: Vec<&str> = Kind::ALL
            .into_iter()
            .filter(|kind| self.has(*kind) && filters.iter().all(|(field, _)| kind.has(*field)))
            .map(Kind::label)
            .collect();
        let mut terms = vec![one_of("event", &kinds)];
        terms.extend(filters.iter().map(|(field, values)| one_of(field.name(), values)));
        format!("{{ {} }}", terms.join(" && "))
    }

    fn has(&self, kind: Kind) -> bool {
        self.requests || kind != Kind::Request
    }

    fn terms(&self) -> Vec<(Field, Vec<&str>)> {
        let tenant = self.tenant.as_deref().map(|tenant| (Field::Tenant, vec![tenant]));
        let id = self.id.as_ref().map(|id| (Field::Id, vec![id.as_str()]));
        let verdicts = (!self.verdicts.is_empty()).then(|| (Field::Verdict, self.verdicts.clone()));
        [tenant, id, verdicts].into_iter().flatten().collect()
    }
}

fn one_of(field: &str, values: &[&str]) -> String {
    let terms: Vec<String> = values.iter().map(|value| format!("$.{field} = \"{value}\"")).collect();
    format!("({})", terms.join(" || "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::event::tests::event, *};

    fn filter(tenant: Option<&str>, id: Option<&str>, verdicts: &[&str]) -> Filter {
        let id = id.map(|id| DeliveryId::parse(id).expect("valid"));
        let verdicts: Vec<String> = verdicts.iter().map(|it| (*it).to_owned()).collect();
        Filter::new(tenant, id, &verdicts).expect("valid")
    }

    #[test]
    fn the_labels_are_those_of_all_verdicts() {
        // A verdict that is added needs an arm here, and a label above.
        let place = |verdict: &Verdict| match verdict {
            Verdict::Sent => 0,
            Verdict::SignAgain => 1,
            Verdict::Retry(_) => 2,
            Verdict::Gone { .. } => 3,
            Verdict::Failed(_) => 4,
        };
        let gone = Verdict::Gone { confirmed: false };
        assert_eq!(VERDICTS[place(&gone)], gone.label());
        assert_eq!(VERDICTS, ["sent", "sign_again", "retry", "gone", "failed"]);
    }

    #[test]
    fn without_options_every_kind_matches_except_requests() {
        let all = Filter::default();
        assert_eq!(
            all.pattern(),
            "{ ($.event = \"attempt\" || $.event = \"breaker\" || $.event = \"dead_letter\" || \
             $.event = \"quarantined\" || $.event = \"panic\" || $.event = \"policy_ignored\" || $.event = \"limit_ignored\" || $.event = \"infrastructure\") }"
        );
        let with = Filter::default().with_requests(true);
        assert!(with.pattern().contains("|| $.event = \"request\")"));
        for kind in Kind::ALL {
            let event = event(&format!(r#"{{"event":"{}"}}"#, kind.label()));
            assert_eq!((all.matches(&event), with.matches(&event)), (kind != Kind::Request, true));
        }
    }

    #[test]
    fn a_pattern_has_only_kinds_with_the_fields() {
        assert_eq!(
            filter(Some("acme"), Some("order-17"), &["failed", "gone"]).pattern(),
            "{ ($.event = \"attempt\") && ($.tenant = \"acme\") && ($.correlation_id = \"order-17\") && \
             ($.verdict = \"failed\" || $.verdict = \"gone\") }"
        );
        let of_id = filter(None, Some("order-17"), &[]).pattern();
        assert!(of_id.starts_with(
            "{ ($.event = \"attempt\" || $.event = \"dead_letter\" || $.event = \"panic\") && "
        ));
    }

    #[test]
    fn every_option_must_match_and_one_of_the_verdicts() {
        let attempt =
            event(r#"{"event":"attempt","tenant":"acme","correlation_id":"order-17","verdict":"gone"}"#);
        assert!(filter(Some("acme"), Some("order-17"), &["failed", "gone"]).matches(&attempt));
        assert!(!filter(Some("acme2"), Some("order-17"), &[]).matches(&attempt));
        assert!(!filter(Some("acme"), Some("order-1"), &[]).matches(&attempt));
        assert!(!filter(None, None, &["sent"]).matches(&attempt));
        let trouble = event(r#"{"event":"infrastructure","operation":"UpdateItem","code":"Throttling"}"#);
        assert!(!filter(Some("acme"), None, &[]).matches(&trouble));
    }

    #[test]
    fn the_tenant_of_unparsed_messages_is_a_valid_option() {
        assert!(filter(Some("_unknown"), None, &[]).pattern().contains("$.tenant = \"_unknown\""));
        assert_eq!(Filter::new(None, None, &["accepted".to_owned()]), None);
    }

    proptest! {
        #[test]
        fn nothing_breaks_out_of_the_quotes(
            tenant in proptest::option::of(".{0,70}"),
            id in proptest::option::of(".{0,70}"),
            verdict in proptest::option::of(".{0,20}"),
        ) {
            let given = id.as_deref().map(DeliveryId::parse);
            prop_assume!(given != Some(None));
            let verdicts: Vec<String> = verdict.into_iter().collect();
            if let Some(filter) = Filter::new(tenant.as_deref(), given.flatten(), &verdicts) {
                let pattern = filter.pattern();
                for (place, part) in pattern.split('"').enumerate() {
                    let is_quoted = place % 2 == 1;
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    prop_assert!(!is_quoted || (!part.is_empty() && part.chars().all(plain)), "{}", pattern);
                }
                prop_assert!(pattern.len() <= 1_024, "{}", pattern);
            }
        }
    }
}
