use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use redial_console::{
    checkout,
    policies::{MOST_BYTES, lines_of},
};
use redial_core::policy::catalogue;

use crate::{failure::Failure, input, terminal::print};

/// Validates policy files, and reports all errors
///
/// Without a PATH it validates infra/policies of this checkout, presets and the operator's own: what the functions are built
/// with. Exit status 2 if any of them is invalid.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy check
  redial policy check mine.json
  redial policy check infra/policies/")]
pub(crate) struct Check {
    /// Files, or folders with .json files
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Check {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let is_packaged = self.paths.is_empty();
        let paths = if is_packaged { packaged()? } else { self.paths };
        let mut files = Vec::new();
        for path in &paths {
            let found = policies_in(path)?;
            // A checkout need not have policies of its own.
            if found.is_empty() && !is_packaged {
                return Err(Failure::input(format!("no .json files in {}", path.display())));
            }
            files.extend(found);
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
    let here = std::env::current_dir().unwrap_or_default();
    let own = own.strip_prefix(here).map(Path::to_owned).unwrap_or(own);
    Ok(vec![own.join("presets"), own])
}

fn policies_in(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| Failure::input(format!("{} cannot be read: {error}", path.display()));
    let entries: Vec<_> = fs::read_dir(path).and_then(Iterator::collect).map_err(unreadable)?;
    let files = entries.iter().map(fs::DirEntry::path);
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    Ok(files)
}
