//! List prices, which have a date and a region, and an operator's own that replace them.

use serde::{Deserialize, Serialize};

/// The list prices that come with Redial.
const LIST: &str = include_str!("../../../infra/prices/us-east-1.json");

/// Prices in USD.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prices {
    pub(super) region: String,
    /// Year and month.
    pub(super) as_of: String,
    currency: String,
    pub(super) sqs_million_requests: f64,
    /// What SQS charges besides for a request with messages that have a group id, on a standard queue (fair queues).
    pub(super) sqs_million_fair_requests: f64,
    pub(super) dynamodb_million_write_units: f64,
    pub(super) dynamodb_million_read_units: f64,
    pub(super) dynamodb_gb_month: f64,
    /// Point-in-time recovery.
    pub(super) dynamodb_recovery_gb_month: f64,
    pub(super) lambda_million_invocations: f64,
    pub(super) lambda_million_gb_seconds: f64,
    /// API Gateway's HTTP APIs.
    pub(super) api_million_requests: f64,
    pub(super) logs_gb: f64,
    pub(super) logs_gb_month: f64,
    /// To the internet.
    pub(super) transfer_gb: f64,
    pub(super) states_thousand_transitions: f64,
    pub(super) alarm_month: f64,
    pub(super) metric_month: f64,
    pub(super) dashboard_month: f64,
    pub(super) secret_month: f64,
    pub(super) secrets_thousand_requests: f64,
}

impl Prices {
    pub(super) fn list() -> Self {
        serde_json::from_str(LIST).expect("invariant: the list prices are valid, which a test checks")
    }

    /// The list prices, replaced by those of a JSON object; the error names the field and what is expected.
    pub(super) fn with(text: &str) -> Result<Self, String> {
        let own: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?;
        let own = own.as_object().ok_or("expected a JSON object such as {\"logs_gb\": 0.57}")?;
        let mut prices = serde_json::to_value(Self::list()).expect("prices are plain numbers and strings");
        let list = prices.as_object_mut().expect("prices are an object");
        for (name, value) in own {
            let Some(price) = list.get_mut(name) else {
                let names: Vec<&str> = list.keys().map(String::as_str).collect();
                return Err(format!("{name}: there is no such price; expected one of {}", names.join(", ")));
            };
            let fits = match value.as_f64() {
                Some(number) => price.is_number() && number >= 0.0,
                None => value.is_string() && price.is_string(),
            };
            if !fits {
                let expected = if price.is_number() { "a number of USD, 0 or more" } else { "a string" };
                return Err(format!("{name}: expected {expected}"));
            }
            *price = value.clone();
        }
        serde_json::from_value(prices).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_s_prices_replace_the_list_s() {
        let prices = Prices::with(r#"{"region": "eu-central-1", "logs_gb": 0.63}"#).expect("valid");
        assert_eq!((prices.region.as_str(), prices.logs_gb), ("eu-central-1", 0.63));
        assert_eq!(prices.sqs_million_requests, Prices::list().sqs_million_requests);
    }

    #[test]
    fn an_invalid_price_is_named() {
        for (text, named) in [
            (r#"{"log_gb": 1}"#, "logs_gb"),
            (r#"{"logs_gb": "1"}"#, "logs_gb: expected a number"),
            (r#"{"logs_gb": -1}"#, "logs_gb: expected a number"),
            (r#"{"region": 1}"#, "region: expected a string"),
            ("[]", "a JSON object"),
            ("{", "invalid JSON"),
        ] {
            let error = Prices::with(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
