//! One worker's part in protecting origins: what it admits, what it learns, and what it shares.
//!
//! The values that this is decided on are in [`redial_core::protection`]. A store that fails stops nothing: a worker goes on with
//! what it knows, for protection must not lose what it protects.

mod admit;
mod contest;
mod guard;
mod hanging;
mod recipients;
mod seats;
mod seen;
mod share;
mod turns;

pub use admit::{Admission, Admitted, Ask, EndpointLimit};
pub use guard::{COUNTERS, Guard, Settings, Transition};
pub use seats::Seat;
pub use seen::{Changes, Posted, ProbeOf, Seen};
