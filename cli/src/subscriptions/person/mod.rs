//! Everything that is kept about a person: exported, and erased.
//!
//! | file | concept |
//! |---|---|
//! | `subject` | whom it is about, and what is read of the stack to recognise it |
//! | `counts` | what was found, counted |
//! | `export` | what is kept, as lines of JSON |
//! | `erase` | the mark, the pause, and the search that removes what it finds |

mod counts;
mod erase;
mod export;
mod subject;

pub(super) use erase::Erase;
pub(super) use export::Export;
