//! Where the template and the functions of a local stack come from: a checkout, which builds the functions, or a release, whose archive
//! has the functions beside `redial`, and whose `redial` has the template.

use std::{
    fs,
    path::{Path, PathBuf},
};

use redial_console::checkout;

use super::{LocalError, Progress, bootstraps, bootstraps::FUNCTIONS};

const TEMPLATE: &str = include_str!("../../../../infra/template.yaml");
const DEFINITION: &str = include_str!("../../../../infra/wait.asl.json");

/// The folder beside `redial` in the archive of a release.
const FUNCTIONS_BESIDE: &str = "functions";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Checkout(PathBuf),
    /// With the folder that has a program named as each function.
    Release {
        functions: PathBuf,
    },
}

impl Source {
    /// The given checkout; else the one that the current folder lies in, the release that this program is of, or the checkout that it was
    /// compiled in.
    pub(super) fn find(given: Option<&Path>) -> Result<Self, LocalError> {
        let found = checkout::around(given).map_err(LocalError::file(given.unwrap_or(Path::new("."))))?;
        if let Some(checkout) = found {
            return Ok(Self::Checkout(checkout));
        }
        if let Some(functions) = functions_beside_this_program().filter(|_| given.is_none()) {
            return Ok(Self::Release { functions });
        }
        checkout::compiled_in().filter(|_| given.is_none()).map(Self::Checkout).ok_or(LocalError::NoWorkspace)
    }

    /// Where everything of ours lies. That of a checkout is removed by `cargo clean`.
    pub(super) fn redial_dir(&self) -> Result<PathBuf, LocalError> {
        match self {
            Self::Checkout(checkout) => Ok(checkout.join("target/redial")),
            Self::Release { .. } => cache_dir().map(|cache| cache.join("redial")).ok_or(LocalError::NoCache),
        }
    }

    pub(super) fn template(&self) -> Result<String, LocalError> {
        self.of_infra("template.yaml", TEMPLATE)
    }

    /// The state machine's.
    pub(super) fn definition(&self) -> Result<String, LocalError> {
        self.of_infra("wait.asl.json", DEFINITION)
    }

    fn of_infra(&self, name: &str, of_release: &str) -> Result<String, LocalError> {
        match self {
            Self::Checkout(checkout) => {
                let path = checkout.join("infra").join(name);
                fs::read_to_string(&path).map_err(LocalError::file(&path))
            }
            Self::Release { .. } => Ok(of_release.to_owned()),
        }
    }

    /// The functions' programs: from `prebuilt`, a folder with one named as each function, or the release's, or built. Blocks.
    pub(super) fn binaries(
        &self,
        prebuilt: Option<&Path>,
        progress: &Progress,
    ) -> Result<Vec<(&'static str, PathBuf)>, LocalError> {
        match (self, prebuilt) {
            (_, Some(folder)) => Ok(bootstraps::in_folder(folder).collect()),
            (Self::Release { functions }, None) => Ok(bootstraps::in_folder(functions).collect()),
            (Self::Checkout(checkout), None) => bootstraps::build(checkout, progress),
        }
    }
}

fn functions_beside_this_program() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.canonicalize().ok()?.parent()?.join(FUNCTIONS_BESIDE);
    FUNCTIONS.iter().all(|function| folder.join(function).is_file()).then_some(folder)
}

/// As the XDG Base Directory Specification has it: `$XDG_CACHE_HOME`, else `~/.cache`.
fn cache_dir() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(std::env::home_dir()?.join(".cache")))
}
