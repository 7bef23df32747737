//! End-to-end tests of Redial: the deployed template on the embedded emulator, the functions' real binaries, and a push service
//! that decrypts. They are in `e2e/`; this library is what they share.

pub mod canary;
pub mod cloud_logs;
pub mod deployment;
pub mod hosted;
pub mod mapping;
#[cfg(test)]
mod module_graph;
pub mod scenery;
