//! Protection of providers: workers share limits so that they absorb an outage instead of amplifying it.
//!
//! ```text
//!                    ┌───────────── one worker: guard ─────────────┐          what all share (ports::Protection)
//!   messages ──► admit: breaker? retry budget? limits? ──► attempts │  reads   ┌──────────────────────────────────┐
//!                    │        │                                │    │ ◄─────── │ an origin's state:               │
//!                    │        ▼                                ▼    │          │   breaker, pace, windows         │
//!                    │  held back: wake        learn: counts ───────┼─ adds ─► │ its counters                     │
//!                    │  (no attempt is used)   now and then: look ──┼ exchange │ buckets: from when slots are free│
//!                    └──────────────────────────────────────────────┘          └──────────────────────────────────┘
//! ```
//!
//! All of these are values without a clock. A store that fails stops nothing: a worker continues with the state that it has read, because
//! protection must not lose messages.

pub mod breaker;
pub mod circuit;
pub mod count;
pub mod hanging;
pub mod line;
pub mod origin;
pub mod pace;
pub mod parts;
pub mod patience;
pub mod peers;
pub mod seats;
pub mod spread;
pub mod token_bucket;
pub mod turns;
pub mod votes;
pub mod wake;
pub mod whose;

pub use breaker::{Cooldowns, Phase};
pub use circuit::{AtOrigin, Circuit};
pub use count::Count;
pub use origin::OriginState;
pub use spread::Counted;
pub use whose::{Place, Whose};

pub use crate::rank::Rank;
