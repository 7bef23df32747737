//! Protecting the provider: what a thousand workers do together so that an outage is absorbed and not amplified.
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
//! | file | decides |
//! |---|---|
//! | `count`, `window` | what attempts came to, and of late |
//! | `breaker` | whether an origin is asked at all |
//! | `pace` | how fast: additive increase, multiplicative decrease |
//! | `budget` | how many retries it gets while it fails |
//! | `origin` | the three together, as they are shared |
//! | `token_bucket` | which worker may send at which time under a limit |
//! | `wake` | when what is held back comes back |
//! | `guard`, `admit`, `told` | one worker's part in it |
//!
//! Everything but the worker's part is values without a clock. A store that fails stops nothing: a worker goes on with what
//! it knows, for protection must not lose what it protects.

pub mod breaker;
pub mod budget;
pub mod count;
pub mod origin;
pub mod pace;
pub mod token_bucket;
pub mod wake;
pub mod window;

pub use breaker::{Cooldowns, Phase};
pub use count::Count;
pub use origin::OriginState;
pub use wake::Rank;
