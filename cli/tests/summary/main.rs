//! `redial status --summary` on stacks.
//!
//! | file | what |
//! |---|---|
//! | `glance` | a stack whose functions are placeholders, so that messages stay where the test puts them |
//! | `works` | the real functions: what they leave waiting, parked and failed |
//! | `refused` | a caller without permissions, and arguments that are refused before any call |
//! | `harness` | those stacks |

mod glance;
mod harness;
mod refused;
mod works;
