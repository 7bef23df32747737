//! The whole of Redial on one machine: the deployed template, on an emulator, with the functions that run on Lambda.
//!
//! ```text
//! Stack::up ─► emulator_install (once) ─► emulator_process ─┐
//!          └─► bootstraps (cargo build, zip) ───────────────┴─► package ─► emulator_differences ─► deploy ─► Description
//! ```
//!
//! A LocalStack without Docker cannot run the functions: then `hosting` does, in a process of this machine. It does as well if queues,
//! waits or tables are kept by `parts` instead of by the emulator.
//!
//! What is deployed is `infra/template.yaml` itself, so that what works here works there; where the emulator is
//! not AWS, `emulator_differences` says so and copes. A [`Stack`] ends with the value, or with the process, however that
//! dies (a LocalStack keeps what was deployed to it); one that was set free ([`Stack::set_free`]) runs until it is taken down by its name.
//!
//! An emulator answers only what is signed with its stack's key, and a stack's folder is its owner's alone: otherwise every user of
//! the machine, and every page in a browser on it, could run code through the stack.
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
mod guarded_process;
mod hosting;
mod in_container;
mod key;
mod localstack;
mod made_at_parts;
mod options;
mod own_receiver;
mod package;
mod parameters;
mod part_probe;
mod parts;
mod pip;
mod private_folder;
mod programs;
mod registry;
mod source;
mod stack;
mod vapid_key;

pub(crate) use clients::http_client;
pub use clients::{REGION, sdk_config};
pub use description::{Description, FunctionHost, Functions, Queues};
pub use error::LocalError;
pub(crate) use error::call;
pub(crate) use hosting::serve as host_functions;
pub use key::StackKey;
pub use options::{Emulator, FunctionsIn, LOCALSTACK_ENDPOINT, Options, Progress};
pub(crate) use own_receiver::OwnReceiver;
pub use parts::{Parts, PartsError};
pub(crate) use programs::end_all as end_programs;
pub use redial_adapters::config::Tables;
pub use registry::{Known, ended, find, known, lost, note, of_ended, take_down};
pub(crate) use registry::{abandoned, are_functions_hosted, findings, own_receiver};
pub use stack::Stack;
pub(crate) use stack::remove_leftovers;
pub(crate) use vapid_key::{VapidKey, public_point};

/// A Python that has what `infra/local/requirements.txt` lists, installed if need be. Blocks for as long as that takes.
pub fn python(progress: &Progress) -> Result<std::path::PathBuf, LocalError> {
    emulator_install::python_with_emulator(&source::Source::find(None)?.redial_dir()?, progress)
}
