//! `redial schema`.

use clap::Args;
use redial_core::message::SCHEMA;

use crate::{failure::Failure, terminal::print_as_it_is};

/// Prints the JSON Schema of a message
///
/// It is JSON Schema 2020-12. Editors complete and check messages by it, and producers can check theirs before sending; what
/// it accepts and what `redial send` accepts is the same but for what no schema can say, such as a date that is in no
/// calendar.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial schema > message.v1.json
  redial schema | jq '.properties | keys'")]
pub(crate) struct Schema {}

impl Schema {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        Ok(print_as_it_is(SCHEMA.as_bytes())?)
    }
}
