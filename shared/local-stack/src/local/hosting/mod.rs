//! The functions of a stack as processes of this machine, where the emulator cannot run them: LocalStack does so in Docker only, and the
//! embedded emulator reads no queues but its own.
//!
//! ```text
//! document ─► split ─┬─► the template without its functions ─► deployed
//!                    └─► plan ── the deployed stack's outputs ─► hosted ─► process ─► serve (in that process)
//! ```
//!
//! What a function is (variables, timeout, event source mappings, schedules, log group) is read from the template, and what
//! CloudFormation makes of references and conditions in it is read from outputs that are added to the template: so nothing of the
//! template's language is interpreted here.

mod hosted;
mod lambda_api;
mod logs;
mod plan;
mod process;
mod serve;
mod split;

pub(super) use plan::{Plan, is_answer};
pub(super) use process::{HostProcess, folder_beside, log_path};
pub(crate) use serve::serve;
pub(super) use split::split;
