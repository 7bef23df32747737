//! End-to-end tests of Redial: the deployed template on the embedded emulator, the functions' real binaries, and a push service
//! that decrypts. They are in `e2e/`; this library is what they share.

pub mod deployment;
pub mod hosted;
pub mod mapping;
pub mod scenery;
