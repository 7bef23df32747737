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
mod clients;
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

pub(crate) use clients::http_client;
pub use clients::{REGION, sdk_config};
pub use description::{Description, Functions, Queues};
pub use error::LocalError;
pub(crate) use error::call;
pub use options::{Emulator, LOCALSTACK_ENDPOINT, Options, Progress};
pub use redial_adapters::config::Tables;
pub use registry::{Known, known, take_down};
pub use stack::Stack;
pub(crate) use vapid_key::VapidKey;

/// A Python that has what `infra/local/requirements.txt` lists, installed if need be. Blocks for as long as that takes.
pub fn python(progress: &Progress) -> Result<std::path::PathBuf, LocalError> {
    emulator_install::python_with_emulator(&registry::redial_dir(&options::workspace(None)?), progress)
}
