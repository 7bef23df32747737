//! The choice of what a stack is deployed to.

use clap::{Args, ValueEnum};
use redial_console::failure::Failure;

use crate::local::{Emulator, FunctionsIn, LOCALSTACK_ENDPOINT, Parts};

#[derive(Debug, Args)]
pub(super) struct DeployTo {
    /// What to deploy to
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    emulator: Kind,
    /// Where LocalStack listens
    #[arg(long, value_name = "URL", default_value = LOCALSTACK_ENDPOINT)]
    endpoint: String,
    /// Where functions run, with --emulator localstack
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Functions::Here)]
    functions: Functions,
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
            ("--sqs", &self.sqs),
            ("--step-functions", &self.step_functions),
            ("--dynamodb", &self.dynamodb),
        ];
        if let Some((option, _)) = given.iter().find(|(_, url)| url.is_some())
            && self.emulator != Kind::Parts
        {
            return Err(Failure::input(format!("{option}: it is an option of --emulator parts")));
        }
        Ok(match self.emulator {
            Kind::Embedded => Emulator::Embedded,
            Kind::Parts => {
                let parts = Parts::new(self.sqs, self.step_functions, self.dynamodb);
                Emulator::Parts(parts.map_err(|error| Failure::input(error.to_string()))?)
            }
            Kind::Localstack => Emulator::LocalStack {
                endpoint: self.endpoint,
                functions: match self.functions {
                    Functions::Here => FunctionsIn::Here,
                    Functions::Lambda => FunctionsIn::Lambda,
                },
            },
        })
    }
}
