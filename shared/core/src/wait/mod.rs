//! Waits that are longer than a queue can delay: buckets of messages that wait together, and the release that ends
//! a wait.

pub mod bucket;
mod release;

pub use bucket::{Shard, WaitBucket};
pub use release::Release;
