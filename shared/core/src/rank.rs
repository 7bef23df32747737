//! Which of an origin's messages go first.

use crate::label::labels;

labels! {
    /// Which of an origin's waiting messages go first.
    pub enum Rank {
        First = "first",
        Middle = "middle",
        Last = "last",
    }
}
