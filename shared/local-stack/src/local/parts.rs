//! Servers that keep a stack's queues, waits and tables in place of the embedded emulator, which its user starts and stops: where they are,
//! and whether they go together.
//!
//! The embedded emulator stays in front of them (`emulator_parts.py`): CloudFormation, IAM, secrets and logs are its own, callers have one
//! endpoint and one key, and calls of a service are forwarded to its part. Functions run as processes of this machine ([`super::hosting`]),
//! because the emulator's own Lambda reads its own queues.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A service that a part can be of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    Sqs,
    StepFunctions,
    DynamoDb,
}

impl Service {
    /// Of the command line.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Sqs => "--sqs",
            Self::StepFunctions => "--step-functions",
            Self::DynamoDb => "--dynamodb",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqs => "SQS",
            Self::StepFunctions => "Step Functions",
            Self::DynamoDb => "DynamoDB",
        }
    }
}

/// Where the parts listen: `http://HOST:PORT`. What is not given is the embedded emulator's own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Parts {
    sqs: Option<String>,
    step_functions: Option<String>,
    dynamodb: Option<String>,
}

/// Why servers cannot be the parts of one stack.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub enum PartsError {
    #[error(
        "--emulator parts: give the address of at least one part, with --sqs, --step-functions or --dynamodb"
    )]
    None,
    #[error("{option}: expected an address such as http://localhost:4566, found {found}")]
    Address { option: &'static str, found: String },
    #[error(
        "--step-functions {step_functions}: a wait ends with a message that Step Functions sends to the SQS beside it, so --sqs has to \
         be the same address; found {}", sqs.as_deref().unwrap_or("none, which is the embedded emulator's")
    )]
    Apart { step_functions: String, sqs: Option<String> },
}

impl Parts {
    /// Refuses addresses that cannot be used together.
    pub fn new(
        sqs: Option<String>,
        step_functions: Option<String>,
        dynamodb: Option<String>,
    ) -> Result<Self, PartsError> {
        let address = |service: Service, given: Option<String>| {
            given.map(|url| address(&url).ok_or(PartsError::Address { option: service.option(), found: url }))
        };
        let parts = Self {
            sqs: address(Service::Sqs, sqs).transpose()?,
            step_functions: address(Service::StepFunctions, step_functions).transpose()?,
            dynamodb: address(Service::DynamoDb, dynamodb).transpose()?,
        };
        match (&parts.sqs, &parts.step_functions, &parts.dynamodb) {
            (None, None, None) => Err(PartsError::None),
            (sqs, Some(step_functions), _)
                if !sqs.as_deref().is_some_and(|sqs| are_one(sqs, step_functions)) =>
            {
                Err(PartsError::Apart { step_functions: step_functions.clone(), sqs: sqs.clone() })
            }
            (_, _, _) => Ok(parts),
        }
    }

    /// Tables at a DynamoDB, and everything else in the embedded emulator.
    pub(super) fn tables_at(endpoint: Option<&str>) -> Self {
        Self { dynamodb: endpoint.map(str::to_owned), ..Self::default() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Service, &str)> {
        let all = [
            (Service::Sqs, &self.sqs),
            (Service::StepFunctions, &self.step_functions),
            (Service::DynamoDb, &self.dynamodb),
        ];
        all.into_iter().filter_map(|(service, endpoint)| Some((service, endpoint.as_deref()?)))
    }

    /// The addresses as the emulator is given them: empty for its own services.
    pub(super) fn arguments(&self) -> [&str; 3] {
        [&self.sqs, &self.step_functions, &self.dynamodb].map(|part| part.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.all().map(|(service, endpoint)| format!("{} at {endpoint}", service.name())).collect();
        f.write_str(&parts.join(", "))
    }
}

/// `http://HOST:PORT`, without a path.
fn address(url: &str) -> Option<String> {
    let authority = url.strip_prefix("http://")?.trim_end_matches('/');
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    (is_host && port.parse::<u16>().is_ok()).then(|| format!("http://{authority}"))
}

/// Whether two addresses are one server's, as far as their texts tell.
fn are_one(one: &str, other: &str) -> bool {
    let plain = |url: &str| url.to_ascii_lowercase().replace("//localhost", "//127.0.0.1");
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sqs: &str, step_functions: &str, dynamodb: &str) -> Result<Parts, String> {
        let given = |url: &str| Some(url.to_owned()).filter(|url| !url.is_empty());
        Parts::new(given(sqs), given(step_functions), given(dynamodb)).map_err(|error| error.to_string())
    }

    #[test]
    fn step_functions_without_the_sqs_beside_it_is_refused() {
        let one = "http://localhost:4566";
        let refused = |sqs: &str, found: &str| {
            let error = parts(sqs, one, "").expect_err("its messages would go to other queues");
            assert!(
                error.starts_with("--step-functions http://localhost:4566: ") && error.ends_with(found),
                "{error}"
            );
        };
        refused("", "found none, which is the embedded emulator's");
        refused("http://localhost:9324", "found http://localhost:9324");
        for sqs in [one, "http://localhost:4566/", "http://127.0.0.1:4566"] {
            parts(sqs, one, "").expect("it is one server");
        }
    }

    #[test]
    fn an_address_that_cannot_be_a_part_s_is_named_with_its_option() {
        assert!(parts("", "", "").expect_err("no part").contains("at least one part"));
        for wrong in [
            "localhost:8000",
            "https://localhost:8000",
            "http://",
            "http://a/b",
            "http://a:x",
            "http://u@a:1",
        ] {
            let error = parts("", "", wrong).expect_err(wrong);
            assert!(error.starts_with("--dynamodb: ") && error.ends_with(wrong), "{error}");
        }
        let whole = parts("http://a:1/", "", "http://b").expect("two parts");
        assert_eq!(whole.arguments(), ["http://a:1", "", "http://b"]);
        assert_eq!(whole.to_string(), "SQS at http://a:1, DynamoDB at http://b");
    }
}
