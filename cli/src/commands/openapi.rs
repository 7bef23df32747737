//! `redial openapi`.

use clap::Args;
use redial_engine::http_api;

use crate::{failure::Failure, terminal::print_as_it_is};

/// Prints the description of the HTTP API
///
/// It is OpenAPI 3.1, with the schema of messages inside: for making clients, and for reading. The address of a stack's own API is
/// its output ApiUrl.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial openapi > redial.openapi.json
  redial openapi | jq '.paths | keys'")]
pub(crate) struct Openapi {}

impl Openapi {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        Ok(print_as_it_is(http_api::openapi().as_bytes())?)
    }
}
