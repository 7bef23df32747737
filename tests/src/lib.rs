//! End-to-end tests of Redial: the deployed template on the embedded emulator, the functions' real binaries, and a push service
//! that decrypts. They are in `e2e/`, and those of the command line in `cli/tests`; this library is what both share.

pub mod canary;
pub mod files;
#[cfg(test)]
mod guarantees;
pub mod hosted;
pub mod json;
#[cfg(test)]
mod log_events;
pub mod mapping;
#[cfg(test)]
mod module_graph;
pub mod other_emulator;
pub mod permissions;
pub mod prelude;
pub mod resources;
pub mod steps;
pub mod test_stack;
