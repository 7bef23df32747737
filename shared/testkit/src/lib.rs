//! What surrounds Redial, for its tests and benchmarks.
//!
//! Redial is a sender between a cloud and push services, so tests play everything at
//! its edges: who receives ([`push_service`], [`webhook_receiver`], and with a real browser at the end [`autopush`] and
//! [`firefox`]), who runs it ([`runtime_api`]), who collects its spans ([`otlp_collector`]) and who stands between it and
//! the cloud's API and breaks things ([`proxy`]).
//!
//! The other side knows nothing of Redial's own types and uses another cryptographic library: it can agree with Redial only
//! where both agree with the standards. Only [`initialisation`], what its functions say to a bad environment, knows Redial.
//!
//! Everything listens on free ports of the loopback interface, stops when it is dropped, and can be waited
//! on by a condition and a deadline.

pub mod autopush;
pub mod firefox;
pub mod initialisation;
pub mod otlp_collector;
pub mod proxy;
pub mod template;

pub use redial_function_host::runtime_api;
pub use redial_receivers::{https_front, push_service, standard_webhooks, webhook_receiver};

use redial_receivers::{ambient, background, journal, serve};
