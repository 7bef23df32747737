//! What the rotations of all keys share: secrets that workers read by themselves, and the functions that use them.
//!
//! A rotation is a sequence of small steps. After each, every worker, old or new, can work with what it has read. Nothing here
//! keeps a state of its own: an interrupted rotation continues from what the secret holds. No key is ever printed, and no error
//! holds one.

pub(crate) mod functions;
pub(crate) mod secret;

pub(crate) use functions::longest_timeout;
