//! Redial on one machine: the local stack, and the demos that run on one. Exports `redial local` and `redial demo`.

pub mod browser_demo;
pub mod commands;
mod demo;
mod listen;
mod local;
mod node_function;

pub use local::{
    Description, Emulator, FunctionHost, Functions, FunctionsIn, Known, LOCALSTACK_ENDPOINT, LocalError,
    Options, Parts, PartsError, Progress, Queues, REGION, Stack, StackKey, Tables, ended, find, known, lost,
    note, of_ended, python, sdk_config, take_down,
};
pub use node_function::NodeFunction;
