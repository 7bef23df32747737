//! Which messages ask for acknowledgements.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::rngs::StdRng;

/// In a share of the scenarios, the ids whose messages ask for acknowledgements: copies of a message are alike.
pub(super) fn draw<'a>(rng: &mut StdRng, ids: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    if !rng.random_bool(0.2) {
        return BTreeSet::new();
    }
    let ids: BTreeSet<&str> = ids.collect();
    ids.into_iter().filter(|_| rng.random_bool(0.7)).map(str::to_owned).collect()
}
