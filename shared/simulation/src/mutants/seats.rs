//! A tenant's most concurrent attempts.

use super::mutant::Mutant;

const ASKED: &str = "shared/engine/src/protection/admit/seats.rs";
const MOST: &str = "no more attempts of a tenant are under way together than it may have";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a window's seats are each worker's",
        rule: MOST,
        file: ASKED,
        find: "let free_from = match self.store.lease(window.request(tenant, most, seats)).await? {",
        replace: "if seats <= most.get() {\n            return Ok((seats, false));\n        }\n        let free_from = match self.store.lease(window.request(tenant, most, seats)).await? {",
    },
    Mutant {
        name: "what finds no seat is sent without one",
        rule: MOST,
        file: ASKED,
        find: "let waiting = mine.split_off(mine.len().min(free as usize));",
        replace: "let waiting = mine.split_off(mine.len().min((free as usize).max(1)));",
    },
    Mutant {
        name: "a window ends for the attempts that reach into the next",
        rule: MOST,
        file: ASKED,
        find: "has = has.min(held.seats);",
        replace: "has = if has == u32::MAX { held.seats } else { has };",
    },
];
