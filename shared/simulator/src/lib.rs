//! What retry policies do before they meet an outage: simulated (`simulate`), and drawn (`plot`). Exports `redial simulate`, and
//! the pictures to `redial policy plot`.

mod command;
pub mod plot;
mod simulate;

pub use command::Simulate;
