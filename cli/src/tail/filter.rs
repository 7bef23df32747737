//! Which events to print.
//!
//! CloudWatch gets the filter as a pattern, and every event is tested here again: emulators support such patterns only partly,
//! and then return everything. A pattern quotes an id, a tenant, a label or a tag; none of these can contain a quote, nor an asterisk,
//! which a pattern would take for a wildcard. The tags of a line are one text, in which a pattern finds a tag as a part of another, too:
//! here it is found only as a whole.

use clap::{Args, builder::PossibleValuesParser};
use redial_core::{
    identity::DeliveryId,
    page,
    reason::Reason,
    tag::MessageTag,
    verdict::{Retry, Verdict},
};

use super::event::{Event, ID, KINDS, Kind, TAGS, TENANT, VERDICT};
use crate::arguments;

/// The labels of all verdicts.
pub(crate) const VERDICTS: [&str; 5] = [
    Verdict::Sent.label(),
    Verdict::SignAgain.label(),
    Verdict::Retry(Retry { reason: Reason::NotSent, in_doubt: false, retry_after: None }).label(),
    Verdict::Gone { confirmed: true }.label(),
    Verdict::Failed(Reason::NotSent).label(),
];

// Events with that tenant, that id and one of these verdicts, as far as they are given. A tenant may be the one of messages
// whose tenant could not be parsed.
#[derive(Args, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    /// Only this tenant; _unknown for messages whose tenant could not be parsed
    #[arg(long, value_parser = arguments::tenant_or_unknown)]
    tenant: Option<String>,
    /// Only this delivery
    #[arg(long, value_parser = arguments::delivery)]
    id: Option<DeliveryId>,
    /// Only attempts with this verdict; may be repeated
    #[arg(long, value_parser = PossibleValuesParser::new(VERDICTS))]
    verdict: Vec<String>,
    /// Only events of messages with this tag; may be repeated, then with all of them
    #[arg(long, value_name = "TAG", value_parser = arguments::tag)]
    tag: Vec<MessageTag>,
    /// Show the HTTP API's requests, too: method, route, status, credential
    #[arg(long, conflicts_with_all = ["id", "verdict", "tag"])]
    requests: bool,
}

impl Filter {
    /// Attempts with one of these verdicts.
    pub(super) fn of_verdicts(verdicts: &[&str]) -> Self {
        Self { verdict: verdicts.iter().map(|it| (*it).to_owned()).collect(), ..Self::default() }
    }

    pub(super) fn matches(&self, event: &Event) -> bool {
        self.has(event.kind)
            && says_something_new(event)
            && (self.agrees_with(event) || event.attempts().iter().any(|attempt| self.agrees_with(attempt)))
    }

    /// What to show of an event that matches: the attempts of a line that has lists of them.
    pub(super) fn shown(&self, event: Event) -> Vec<Event> {
        let mut attempts = event.attempts();
        if attempts.is_empty() {
            return vec![event];
        }
        if !self.agrees_with(&event) {
            attempts.retain(|attempt| self.agrees_with(attempt));
        }
        attempts
    }

    fn agrees_with(&self, event: &Event) -> bool {
        let has = |tag: &MessageTag| {
            event.text_of(TAGS).is_some_and(|tags| tags.split(' ').any(|one| one == tag.as_str()))
        };
        self.tag.iter().all(has)
            && self
                .terms()
                .iter()
                .all(|(field, values)| event.text_of(field).is_some_and(|value| values.contains(&value)))
    }

    /// As a filter pattern of CloudWatch Logs. The line of a page has no id of a recipient, but that of its run, which is in each.
    pub(super) fn pattern(&self) -> String {
        let filters = self.terms();
        let kinds: Vec<&str> = KINDS
            .into_iter()
            .filter(|(kind, _, has)| self.has(*kind) && filters.iter().all(|(field, _)| has.contains(field)))
            .filter(|(_, _, has)| self.tag.is_empty() || has.contains(&TAGS))
            .map(|(_, label, _)| label)
            .collect();
        let mut terms = vec![one_of("event", &kinds)];
        let run = self.id.as_ref().and_then(page::run_in);
        terms.extend(filters.iter().map(|(field, values)| match &run {
            Some(run) if *field == ID => format!("({} || $.run = \"{run}\")", one_of(field, values)),
            Some(_) | None => one_of(field, values),
        }));
        terms.extend(self.tag.iter().map(|tag| format!("$.{TAGS} = \"*{tag}*\"")));
        format!("{{ {} }}", terms.join(" && "))
    }

    fn has(&self, kind: Kind) -> bool {
        self.requests || kind != Kind::Request
    }

    fn terms(&self) -> Vec<(&'static str, Vec<&str>)> {
        let tenant = self.tenant.iter().map(String::as_str).collect();
        let id = self.id.iter().map(DeliveryId::as_str).collect();
        let verdicts = self.verdict.iter().map(String::as_str).collect();
        let mut terms = vec![(TENANT, tenant), (ID, id), (VERDICT, verdicts)];
        terms.retain(|(_, values): &(_, Vec<&str>)| !values.is_empty());
        terms
    }
}

/// Whether an invocation had successes without a line of their own.
fn says_something_new(event: &Event) -> bool {
    event.kind != Kind::Successes || event.number("logged") < event.number("sent")
}

fn one_of(field: &str, values: &[&str]) -> String {
    let terms: Vec<String> = values.iter().map(|value| format!("$.{field} = \"{value}\"")).collect();
    format!("({})", terms.join(" || "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::event::tests::{RUN, event, of_page},
        *,
    };

    fn filter(tenant: Option<&str>, id: Option<&str>, verdicts: &[&str]) -> Filter {
        Filter {
            tenant: tenant.map(str::to_owned),
            id: id.map(|id| DeliveryId::parse(id).expect("valid")),
            verdict: verdicts.iter().map(|it| (*it).to_owned()).collect(),
            tag: Vec::new(),
            requests: false,
        }
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
            "{ ($.event = \"attempt\" || $.event = \"sent_by_page\" || $.event = \"held_back\" || $.event = \"breaker\" || $.event = \"dead_letter\" || \
             $.event = \"quarantined\" || $.event = \"panic\" || $.event = \"policy_ignored\" || $.event = \"limit_ignored\" || $.event = \"audience_expired\" || $.event = \"quota_exceeded\" || $.event = \"infrastructure\" || $.event = \"successes\") }"
        );
        let with = Filter { requests: true, ..Filter::default() };
        assert!(with.pattern().contains("|| $.event = \"request\" ||"));
        for (kind, label, _) in KINDS {
            let event = event(&format!(r#"{{"event":"{label}","sent":9,"logged":0}}"#));
            assert_eq!((all.matches(&event), with.matches(&event)), (kind != Kind::Request, true));
        }
    }

    #[test]
    fn successes_match_where_some_have_no_line() {
        let of = |logged: u32| event(&format!(r#"{{"event":"successes","sent":9,"logged":{logged}}}"#));
        assert_eq!([0, 8, 9].map(|logged| Filter::default().matches(&of(logged))), [true, true, false]);
        assert!(!filter(Some("acme"), None, &[]).matches(&of(0)), "it is of all tenants");
    }

    #[test]
    fn a_pattern_has_only_kinds_with_the_fields() {
        assert!(filter(Some("_unknown"), None, &[]).pattern().contains("$.tenant = \"_unknown\""));
        assert_eq!(
            filter(Some("acme"), Some("order-17"), &["failed", "gone"]).pattern(),
            "{ ($.event = \"attempt\" || $.event = \"sent_by_page\") && ($.tenant = \"acme\") && ($.correlation_id = \"order-17\") && \
             ($.verdict = \"failed\" || $.verdict = \"gone\") }"
        );
        let of_id = filter(None, Some("order-17"), &[]).pattern();
        assert!(of_id.starts_with(
            "{ ($.event = \"attempt\" || $.event = \"sent_by_page\" || $.event = \"held_back\" || $.event = \"dead_letter\" || $.event = \"panic\" || $.event = \"audience_expired\") && "
        ));
    }

    #[test]
    fn every_option_must_match_and_one_of_the_verdicts() {
        let attempt = r#"{"event":"attempt","tenant":"acme","correlation_id":"order-17","verdict":"gone"}"#;
        let infrastructure = r#"{"event":"infrastructure","operation":"UpdateItem","code":"Throttling"}"#;
        for (text, filter, matches) in [
            (attempt, filter(Some("acme"), Some("order-17"), &["failed", "gone"]), true),
            (attempt, filter(Some("acme2"), Some("order-17"), &[]), false),
            (attempt, filter(Some("acme"), Some("order-1"), &[]), false),
            (attempt, filter(None, None, &["sent"]), false),
            (infrastructure, filter(Some("acme"), None, &[]), false),
        ] {
            assert_eq!(filter.matches(&event(text)), matches, "{filter:?}");
        }
    }

    #[test]
    fn a_tag_is_found_as_a_whole_and_several_only_together() {
        let of = |tags: &[&str]| {
            let tag = tags.iter().map(|tag| MessageTag::parse(tag).expect("a tag")).collect();
            Filter { tag, ..Filter::default() }
        };
        let attempt = event(r#"{"event":"attempt","correlation_id":"order-17","tags":"region:eu order"}"#);
        for (tags, matches) in [
            (&["order"][..], true),
            (&["region:eu", "order"], true),
            (&["order", "refund"], false),
            (&["region"], false),
            (&["eu"], false),
        ] {
            assert_eq!(of(tags).matches(&attempt), matches, "{tags:?}");
        }
        for untagged in [r#"{"event":"attempt","correlation_id":"order"}"#, r#"{"event":"infrastructure"}"#] {
            assert!(!of(&["order"]).matches(&event(untagged)), "{untagged}");
        }
        assert_eq!(
            of(&["region:eu", "order"]).pattern(),
            "{ ($.event = \"attempt\" || $.event = \"sent_by_page\" || $.event = \"held_back\" || $.event = \"dead_letter\") && $.tags = \"*region:eu*\" && \
             $.tags = \"*order*\" }"
        );
        let page = event(&of_page("sent").text.replace(r#""part":3"#, r#""part":3,"tags":"order""#));
        assert!(of(&["order"]).matches(&page) && !of(&["news"]).matches(&page));
        assert_eq!(of(&["order"]).shown(page).len(), 2);
    }

    #[test]
    fn page_recipients_are_found_by_their_own_id_or_the_message_s() {
        let one = format!("{RUN}-3-12");
        for (id, shown) in [
            (None, vec![7, 12]),
            (Some("news"), vec![7, 12]),
            (Some(one.as_str()), vec![12]),
            (Some("order-17"), vec![]),
        ] {
            let filter = filter(Some("acme"), id, &["sent"]);
            let event = of_page("sent");
            assert_eq!(filter.matches(&event), !shown.is_empty(), "{id:?}");
            if filter.matches(&event) {
                let attempts = filter.shown(event);
                let ids: Vec<_> = attempts.iter().filter_map(|it| it.text_of(ID)).collect();
                let expected: Vec<_> = shown.iter().map(|number| format!("{RUN}-3-{number}")).collect();
                assert_eq!(ids, expected, "{id:?}");
            }
        }
        assert!(!filter(None, None, &["failed"]).matches(&of_page("sent")));
        let pattern = filter(None, Some(&one), &[]).pattern();
        assert!(
            pattern.contains(&format!(r#"(($.correlation_id = "{one}") || $.run = "{RUN}")"#)),
            "{pattern}"
        );
        assert!(!filter(None, Some("order-17"), &[]).pattern().contains("$.run"));
    }

    proptest! {
        #[test]
        fn nothing_breaks_out_of_the_quotes(
            tenant in proptest::option::of("[a-z0-9_-]{1,70}|.{0,70}"),
            id in proptest::option::of("[A-Za-z0-9_-]{1,70}|.{0,70}"),
            verdict in proptest::option::of("sent|gone|.{0,20}"),
            tags in proptest::collection::vec("[a-z0-9][a-z0-9_.:-]{0,31}|.{0,40}", 0..4),
        ) {
            let filter = Filter {
                tenant: tenant.and_then(|text| arguments::tenant_or_unknown(&text).ok()),
                id: id.and_then(|text| DeliveryId::parse(&text)),
                verdict: verdict.into_iter().filter(|text| VERDICTS.contains(&text.as_str())).collect(),
                tag: tags.iter().filter_map(|text| MessageTag::parse(text)).collect(),
                requests: false,
            };
            let pattern = filter.pattern();
            for (place, part) in pattern.split('"').enumerate() {
                let is_quoted = place % 2 == 1;
                let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
                // A tag may stand anywhere among others.
                let part = part.strip_prefix('*').and_then(|part| part.strip_suffix('*')).unwrap_or(part);
                prop_assert!(!is_quoted || (!part.is_empty() && part.chars().all(plain)), "{}", pattern);
            }
            prop_assert!(pattern.len() <= 1_024, "{}", pattern);
        }
    }
}
