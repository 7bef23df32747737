//! The choice of what a stack is deployed to.

use clap::{Args, ValueEnum};

use crate::local::{Emulator, FunctionsIn, LOCALSTACK_ENDPOINT};

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
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Redial's own, installed under target/ and started for this stack
    Embedded,
    /// A LocalStack that is already running
    Localstack,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Functions {
    /// As processes of this machine: LocalStack needs no Docker
    Here,
    /// In LocalStack's Lambda, which needs Docker
    Lambda,
}

impl DeployTo {
    pub(super) fn emulator(self) -> Emulator {
        match self.emulator {
            Kind::Embedded => Emulator::Embedded,
            Kind::Localstack => Emulator::LocalStack {
                endpoint: self.endpoint,
                functions: match self.functions {
                    Functions::Here => FunctionsIn::Here,
                    Functions::Lambda => FunctionsIn::Lambda,
                },
            },
        }
    }
}
