//! Which local stack a command is about.

use std::path::PathBuf;

use clap::Args;

pub(super) const DEFAULT_NAME: &str = "redial";

#[derive(Debug, Args)]
pub(super) struct Which {
    /// The stack's name
    #[arg(long, default_value = DEFAULT_NAME, value_parser = stack_name)]
    pub(super) name: String,
    /// Folder where stacks keep their state [default: target/redial/stacks of the checkout; of a release, redial/stacks in the user's cache]
    #[arg(long, value_name = "DIR", env = "REDIAL_STATE_DIR")]
    pub(super) state_dir: Option<PathBuf>,
}

/// A name that CloudFormation takes, and that stays within a folder.
fn stack_name(text: &str) -> Result<String, String> {
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if begins_well && text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Ok(text.to_owned());
    }
    Err("expected a letter, then letters, digits and hyphens, 64 characters at most".to_owned())
}
