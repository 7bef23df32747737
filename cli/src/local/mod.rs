//! The whole of Redial on one machine: the deployed template, on an emulator, with the functions that run on Lambda.
//!
//! ```text
//! Stack::up ─► emulator_install (once) ─► emulator_process ─┐
//!          └─► bootstraps (cargo build, zip) ───────────────┴─► package ─► emulator_differences ─► deploy ─► Description
//! ```
//!
//! What is deployed is `infra/template.yaml` itself, so that what works here works there; where the emulator is
//! not AWS, `emulator_differences` says so and copes. A [`Stack`] ends with the value, or with the process, however that
//! dies; one that was set free ([`Stack::set_free`]) runs until it is taken down by its name.
//!
//! Stacks do not meet: each has an emulator, a port and a folder of its own. Only the build and the installed
//! emulator are shared, under locks.

mod bootstraps;
mod deploy;
mod description;
mod emulator_differences;
mod emulator_install;
mod emulator_process;
mod error;
mod events;
mod options;
mod package;
mod registry;
mod stack;
mod vapid_key;

pub use description::{Description, Functions, Queues};
pub use error::LocalError;
pub(crate) use options::workspace;
pub use options::{Emulator, LOCALSTACK_ENDPOINT, Options, Progress};
pub use redial_adapters::config::Tables;
pub use registry::{Known, known, take_down};
pub(crate) use stack::http_client;
pub use stack::{Stack, sdk_config};

/// A Python that has what `infra/local/requirements.txt` lists, installed if need be. Blocks for as long as that takes.
pub fn python(progress: &Progress) -> Result<std::path::PathBuf, LocalError> {
    emulator_install::python_with_emulator(&registry::redial_dir(&workspace(None)?), progress)
}

/// The region that local stacks are in.
pub const REGION: &str = "us-east-1";

/// What an emulator takes for both halves of its credentials. No secret: it grants nothing anywhere.
const ACCESS_KEY: &str = "test";

/// For `map_err` on an AWS call.
fn call<E: std::error::Error>(call: &'static str) -> impl FnOnce(E) -> LocalError {
    move |error| LocalError::Call { call, message: deploy::chain(&error) }
}
