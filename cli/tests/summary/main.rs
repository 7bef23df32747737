//! A stack at a glance, on stacks.
//!
//! | file | what |
//! |---|---|
//! | `glance` | a stack whose functions are placeholders, so that what is put somewhere stays there |
//! | `works` | the real functions: what waits, what is parked and who fails, as they leave it |
//! | `refused` | a caller who may read nothing, and what is refused before any stack is asked |
//! | `world` | those stacks |

mod glance;
mod refused;
mod works;
mod world;
