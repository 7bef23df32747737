//! Spans of attempts, for a collector that speaks OTLP over HTTP with JSON (OTLP 1.5, "OTLP/HTTP", "JSON Protobuf Encoding").
//!
//! Written here, because the function's executable is at its limit, and one message of one signal is all that is needed
//! (`infra/docs/decisions/0030-spans-are-written-here.md`).
//!
//! | file | concept |
//! |---|---|
//! | `collector` | where it is, and what it is to be shown |
//! | `encode` | a span as JSON |
//! | `exporter` | one request an invocation, which is never waited for beyond [`BUDGET`] |

mod collector;
mod encode;
mod exporter;

pub use self::collector::{Collector, CollectorError, CollectorHeaders};
pub use self::exporter::{BUDGET, Spans};
