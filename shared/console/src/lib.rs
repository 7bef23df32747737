//! What Redial's commands share, whichever crate they are in: how they end, where they write, and how they read what is given to
//! them.

pub mod checkout;
pub mod failure;
pub mod input;
pub mod policies;
pub mod span;
pub mod table;
pub mod terminal;
