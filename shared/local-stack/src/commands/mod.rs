//! The commands of this crate: arguments and output.

mod demo;
mod emulator;
mod interruption;
mod listen;
mod local;
mod logs;
mod which;

pub use demo::Demo;
pub use local::Local;
