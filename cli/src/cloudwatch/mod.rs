//! What is asked of CloudWatch, in its JSON protocol, each call signed.
//!
//! The calls are made by hand because the SDK's own crate brings a CBOR codec whose licence is not among those that may come
//! into this repository; the signature is the SDK's.
//!
//! | file | concept |
//! |---|---|
//! | `call` | one call and its answer |
//! | `alarms` | alarms as they are now |
//! | `metrics` | the latest values of metrics, and their sums |

mod alarms;
mod call;
mod metrics;

pub(crate) use alarms::{Alarm, alarms};
pub(crate) use call::client;
pub(crate) use metrics::{Asked, Points, metrics};
