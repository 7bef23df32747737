//! Planted defects: each breaks one rule of the production code, and the search has to find it.
//!
//! A mutant is a text of a source file and what takes its place. They are planted in a copy of the sources under `target/mutants`, so
//! the production code knows nothing of them.

mod api;
mod audiences;
mod bodies;
mod claims;
mod ends;
mod grafts;
pub mod mutant;
pub mod nursery;
mod operators;
mod protection;
mod quarantine;
mod records;
mod storage;
mod waits;

pub use mutant::Mutant;

/// All of them, by the part that they are planted in.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let of_parts = [
        claims::MUTANTS,
        records::MUTANTS,
        waits::MUTANTS,
        ends::MUTANTS,
        quarantine::MUTANTS,
        audiences::MUTANTS,
        storage::MUTANTS,
        protection::MUTANTS,
        operators::MUTANTS,
        api::MUTANTS,
    ];
    of_parts.into_iter().flatten()
}
