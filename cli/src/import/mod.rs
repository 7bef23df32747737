//! Subscriptions by the file, from another sender's store: checked line by line, stored at a rate, and resumable.
//!
//! ```text
//! lines ─► read (a document, or what is wrong) ─► run (batches, paced, several at a time) ─► the book
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `lines` | the lines of an input, and a digest of those that were read |
//! | `read` | from a line to a renewal, or to its errors |
//! | `run` | stores them in batches, and goes on where it was interrupted |
//! | `checkpoint` | the file that says where that was |
//! | `hosts` | where the stack may push to |
//!
//! A line that is stored twice is stored once: so a crash between a batch and its checkpoint costs nothing.

mod checkpoint;
mod hosts;
mod lines;
mod read;
mod run;

pub(crate) use checkpoint::Checkpoint;
pub(crate) use hosts::Hosts;
pub(crate) use lines::{Lines, count};
pub(crate) use read::{Defaults, Reader};
pub(crate) use run::{Ended, Plan, check, run};
