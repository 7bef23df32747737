//! What Redial's commands share, whichever crate they are in: how they end, where they write, and how they read their
//! arguments.

pub mod checkout;
pub mod duration;
pub mod failure;
pub mod input;
pub mod line;
pub mod origin;
pub mod policies;
pub mod signing;
pub mod table;
pub mod template;
pub mod terminal;
pub mod tone;
pub mod wrapped;
