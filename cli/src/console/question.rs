//! What the page may ask for: the path and the parameters of a request. They are parsed as the commands parse their arguments.

use redial_core::{
    identity::{DeliveryId, Tenant},
    ledger::listing::Filter,
};

use crate::{arguments, when::When};

#[derive(Clone, Debug)]
pub(super) enum Question {
    /// What it is a console of.
    About,
    /// `redial status --summary`
    Summary { since: Option<When> },
    /// `redial breakers list`
    Breakers { all: bool },
    /// `redial tail` of attempts that did not succeed
    Failures { only_final: bool },
    /// `redial dead-letters list`
    DeadLetters,
    /// `redial status ID`
    Delivery { tenant: String, id: DeliveryId },
    /// `redial status --state`
    Deliveries { tenant: Tenant, filter: Filter, since: Option<When> },
}

/// Where the data is.
const DATA: &str = "/data/";

impl Question {
    /// `None`: it is no path of data. An error names the parameter and the form expected.
    pub(super) fn of(path: &str, query: &str) -> Option<Result<Self, String>> {
        let name = path.strip_prefix(DATA)?;
        let parameters = Parameters(query);
        Some(match name {
            "about" => Ok(Self::About),
            "summary" => parameters.since().map(|since| Self::Summary { since }),
            "breakers" => Ok(Self::Breakers { all: parameters.get("all") == Some("true") }),
            "failures" => Ok(Self::Failures { only_final: parameters.get("final") == Some("true") }),
            "dead-letters" => Ok(Self::DeadLetters),
            "delivery" => parameters.delivery(),
            "deliveries" => parameters.deliveries(),
            _ => return None,
        })
    }
}

/// Everything that is expected is written without percent-encoding, and anything else is refused.
struct Parameters<'a>(&'a str);

impl<'a> Parameters<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(it, _)| *it == name).map(|(_, value)| value)
    }

    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, &'static str>) -> Result<T, String> {
        let text = self.get(name).unwrap_or_default();
        let found = if text.is_empty() { "nothing" } else { "something else" };
        parse(text).map_err(|expected| format!("{name}: expected {expected}; found {found}"))
    }

    fn since(&self) -> Result<Option<When>, String> {
        self.get("since").map(|_| self.parsed("since", When::parse)).transpose()
    }

    fn delivery(&self) -> Result<Question, String> {
        let tenant = self.parsed("tenant", arguments::tenant_or_unknown)?;
        let id = self.parsed("id", arguments::delivery)?;
        Ok(Question::Delivery { tenant, id })
    }

    fn deliveries(&self) -> Result<Question, String> {
        let tenant = self.parsed("tenant", arguments::tenant)?;
        let state =
            |text: &str| Filter::from_label(text).ok_or("a state that can be listed: retrying, parked, …");
        let filter = self.parsed("state", state)?;
        Ok(Question::Deliveries { tenant, filter, since: self.since()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str, query: &str) -> String {
        match Question::of(path, query) {
            None => "none".to_owned(),
            Some(Ok(question)) => format!("{question:?}"),
            Some(Err(words)) => words,
        }
    }

    #[test]
    fn a_question_is_parsed_as_the_command_parses_its_arguments() {
        for (path, query, expected) in [
            ("/", "", "none"),
            ("/data/nothing", "", "none"),
            ("/data/breakers", "all=true", "Breakers { all: true }"),
            ("/data/breakers", "all=yes", "Breakers { all: false }"),
            ("/data/failures", "final=true", "Failures { only_final: true }"),
            (
                "/data/delivery",
                "tenant=acme&id=o-1",
                "Delivery { tenant: \"acme\", id: DeliveryId(\"o-1\") }",
            ),
            ("/data/delivery", "tenant=acme", "id: expected 1 to 64 letters, digits, _ and -; found nothing"),
        ] {
            assert_eq!(parsed(path, query), expected, "{path}?{query}");
        }
    }

    #[test]
    fn what_is_refused_is_not_repeated() {
        for (path, query) in [
            ("/data/delivery", "tenant=S3cret&id=x"),
            ("/data/delivery", "tenant=acme&id=https%3A%2F%2FS3cret"),
            ("/data/deliveries", "tenant=acme&state=S3cret"),
            ("/data/summary", "since=S3cret"),
        ] {
            let words = parsed(path, query);
            assert!(words.contains(": expected ") && !words.contains("S3cret"), "{words}");
        }
    }
}
