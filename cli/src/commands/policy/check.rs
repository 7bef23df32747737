//! `redial policy check`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use redial_console::checkout;
use redial_core::policy::catalogue;

use crate::{
    failure::Failure,
    input,
    policy::{MOST_BYTES, lines_of},
    terminal::print,
};

/// Checks policies in files: every field, all errors at once
///
/// Without a PATH it checks infra/policies of this checkout, presets and the operator's own: what the functions are built
/// with. Exit status 2 if any of them is not valid.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy check
  redial policy check mine.json
  redial policy check infra/policies/")]
pub(crate) struct Check {
    /// Files, or folders with .json files in them
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Check {
    pub(super) fn run(self) -> Result<(), Failure> {
        let paths = if self.paths.is_empty() { packaged()? } else { self.paths };
        let mut files = Vec::new();
        for path in &paths {
            files.extend(policies_in(path)?);
        }
        let mut wrong = Vec::new();
        for file in &files {
            let shown = file.display().to_string();
            let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            match catalogue::named(name, &input::read_text(file, MOST_BYTES)?) {
                Ok(_) => print(&format!("{shown}: ok"))?,
                Err(errors) => wrong.extend(lines_of(&shown, &errors)),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Failure::Input(wrong)) }
    }
}

fn packaged() -> Result<Vec<PathBuf>, Failure> {
    let checkout = checkout::find(None)?.ok_or_else(|| {
        Failure::input("no infra/policies in this folder or above it: run this inside a checkout of Redial, or name a PATH")
    })?;
    let own = checkout.join("infra/policies");
    let own = std::env::current_dir()
        .ok()
        .and_then(|here| own.strip_prefix(here).ok().map(Path::to_owned))
        .unwrap_or(own);
    Ok(vec![own.join("presets"), own])
}

fn policies_in(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| Failure::input(format!("{} cannot be read: {error}", path.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|ending| ending == "json") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
