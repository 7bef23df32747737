//! What deliveries cost: counted calls and units, times list prices.
//!
//! | file | concept |
//! |---|---|
//! | `counts` | what ten messages need on each road; the end-to-end tests count the same and compare |
//! | `prices` | list prices with their date, and an operator's own over them |
//! | `bill` | the one times the other, line by line |

mod bill;
pub mod counts;
mod prices;

pub(crate) use bill::{Bill, Line, Traffic};
pub(crate) use prices::Prices;
