//! The choice of what a stack is deployed to.

use clap::{Args, ValueEnum};
use redial_console::failure::Failure;
use redial_core::endpoint::Origin;

use crate::local::{Emulator, FunctionsIn, LOCALSTACK_ENDPOINT, Parts};

#[derive(Debug, Args)]
pub(super) struct DeployTo {
    /// What to deploy to
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    emulator: Kind,
    /// Where LocalStack listens, with --emulator localstack [default: http://localhost:4566]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Where functions run, with --emulator localstack [default: here]
    #[arg(long, value_enum, value_name = "WHERE")]
    functions: Option<Functions>,
    /// SQS that keeps the queues, with --emulator parts
    #[arg(long, value_name = "URL")]
    sqs: Option<String>,
    /// Step Functions that keeps the waits, with --emulator parts: that of the same server as --sqs
    #[arg(long, value_name = "URL")]
    step_functions: Option<String>,
    /// DynamoDB that keeps the tables, with --emulator parts
    #[arg(long, value_name = "URL")]
    dynamodb: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Kind {
    /// Redial's own, installed under target/ and started for this stack
    Embedded,
    /// A LocalStack that is already running
    Localstack,
    /// Redial's own, with the queues, waits or tables of servers that are already running
    Parts,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Functions {
    /// As processes of this machine: LocalStack needs no Docker
    Here,
    /// In LocalStack's Lambda, which needs Docker
    Lambda,
}

impl DeployTo {
    pub(super) fn emulator(self) -> Result<Emulator, Failure> {
        let given = [
            ("--sqs", self.sqs.is_some(), Kind::Parts, "parts"),
            ("--step-functions", self.step_functions.is_some(), Kind::Parts, "parts"),
            ("--dynamodb", self.dynamodb.is_some(), Kind::Parts, "parts"),
            ("--endpoint", self.endpoint.is_some(), Kind::Localstack, "localstack"),
            ("--functions", self.functions.is_some(), Kind::Localstack, "localstack"),
        ];
        let other = given.iter().find(|(_, is_given, of, _)| *is_given && *of != self.emulator);
        if let Some((option, _, _, name)) = other {
            return Err(Failure::input(format!("{option}: it is an option of --emulator {name}")));
        }
        Ok(match self.emulator {
            Kind::Embedded => Emulator::Embedded,
            Kind::Parts => {
                let parts = Parts::new(self.sqs, self.step_functions, self.dynamodb);
                Emulator::Parts(parts.map_err(|error| Failure::input(error.to_string()))?)
            }
            Kind::Localstack => Emulator::LocalStack {
                endpoint: address(self.endpoint)?,
                functions: match self.functions {
                    None | Some(Functions::Here) => FunctionsIn::Here,
                    Some(Functions::Lambda) => FunctionsIn::Lambda,
                },
            },
        })
    }
}

/// Where LocalStack listens.
fn address(given: Option<String>) -> Result<String, Failure> {
    let Some(text) = given else { return Ok(LOCALSTACK_ENDPOINT.to_owned()) };
    let address = Origin::parse(&text).map(|origin| origin.as_str().to_owned());
    address.ok_or_else(|| {
        Failure::input(format!(
            "--endpoint: expected an address such as {LOCALSTACK_ENDPOINT}, found `{text}`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_localstack_is_a_scheme_a_host_and_a_port() {
        assert_eq!(address(None).ok().as_deref(), Some(LOCALSTACK_ENDPOINT));
        for (text, expected) in [
            ("http://localhost:4566/", Some("http://localhost:4566")),
            ("https://localhost.localstack.cloud:4566", Some("https://localhost.localstack.cloud:4566")),
            ("localhost:4566", None),
            ("http://localhost:4566/health", None),
            ("http://localhost:notaport", None),
            ("", None),
        ] {
            assert_eq!(address(Some(text.to_owned())).ok().as_deref(), expected, "{text}");
        }
    }
}
