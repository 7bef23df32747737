//! Which of two stacks' copies of a subscription is kept, when one stack takes over what another has.
//!
//! Time decides, and an erasure decides over time: a person who was erased in one stack does not come back by a copy from the other.
//!
//! | this copy | replaces | if |
//! |---|---|---|
//! | any | none | always |
//! | stored | stored | its browser or its sender decided on it later, or at the same time and it was changed later |
//! | stored | deleted | its browser or its sender decided on it after the deletion |
//! | stored | erased | it was stored again after the erasure |
//! | deleted | stored | no one decided on that after the deletion |
//! | erased | stored | that was not stored again after the erasure |
//! | erased | deleted | always, and never the other way round |
//!
//! A decision counts before any other change: a stack that does not send still ends, by time alone, what is renewed in the other one.
//!
//! Of two copies at most one replaces the other, so that copying in both directions ends with the same in both stacks.

use crate::time::Timestamp;

/// What a stack has under the key of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copy {
    Stored {
        /// When it was stored again; an early release did not write it.
        created_at: Option<Timestamp>,
        /// When its browser or its sender last decided on it; what attempts found out does not count.
        decided_at: Option<Timestamp>,
        /// When anything of it last changed, its health included.
        updated_at: Option<Timestamp>,
    },
    Deleted(Timestamp),
    Erased(Timestamp),
}

impl Copy {
    /// Whether this copy takes the place of the other.
    #[must_use]
    pub fn replaces(self, other: Option<Self>) -> bool {
        let Some(other) = other else { return true };
        match (self, other) {
            (
                Self::Stored { decided_at, updated_at, .. },
                Self::Stored { decided_at: other_decided_at, updated_at: other_updated_at, .. },
            ) => (decided_at, updated_at) > (other_decided_at, other_updated_at),
            (Self::Stored { decided_at, .. }, Self::Deleted(at)) => decided_at > Some(at),
            (Self::Stored { created_at, .. }, Self::Erased(at)) => created_at > Some(at),
            (Self::Deleted(at), Self::Stored { decided_at, .. }) => decided_at <= Some(at),
            (Self::Erased(at), Self::Stored { created_at, .. }) => created_at <= Some(at),
            (Self::Deleted(this), Self::Deleted(other)) | (Self::Erased(this), Self::Erased(other)) => {
                this > other
            }
            (Self::Erased(_), Self::Deleted(_)) => true,
            (Self::Deleted(_), Self::Erased(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    fn stored(created: u64, decided: u64, updated: u64) -> Copy {
        let at = |secs| Some(at(secs));
        Copy::Stored { created_at: at(created), decided_at: at(decided), updated_at: at(updated) }
    }

    #[test]
    fn the_later_change_is_kept_and_an_erasure_over_all_but_a_new_subscription() {
        let (deleted, erased) = (Copy::Deleted(at(5)), Copy::Erased(at(5)));
        let early = Copy::Stored { created_at: None, decided_at: None, updated_at: Some(at(9)) };
        for (this, other, replaces) in [
            (stored(1, 1, 1), None, true),
            (deleted, None, true),
            (erased, None, true),
            (stored(1, 2, 3), Some(stored(1, 2, 2)), true),
            // Renewed in one stack, and stale in the other, where that is not known.
            (stored(1, 2, 2), Some(stored(1, 1, 9)), true),
            (stored(1, 1, 9), Some(stored(1, 2, 2)), false),
            (stored(1, 1, 2), Some(stored(1, 1, 2)), false),
            (stored(1, 1, 1), Some(stored(1, 1, 2)), false),
            // A failed attempt is no decision, a renewal is one.
            (stored(1, 4, 9), Some(deleted), false),
            (stored(1, 6, 6), Some(deleted), true),
            (deleted, Some(stored(1, 5, 9)), true),
            (deleted, Some(stored(1, 6, 6)), false),
            // A renewal does not bring an erased person back.
            (stored(1, 9, 9), Some(erased), false),
            (stored(6, 6, 6), Some(erased), true),
            (early, Some(erased), false),
            (erased, Some(stored(1, 9, 9)), true),
            (erased, Some(stored(6, 6, 6)), false),
            (erased, Some(Copy::Deleted(at(9))), true),
            (Copy::Deleted(at(9)), Some(erased), false),
        ] {
            assert_eq!(this.replaces(other), replaces, "{this:?} and {other:?}");
        }
    }

    #[test]
    fn of_two_copies_at_most_one_replaces_the_other() {
        let times = [None, Some(at(1)), Some(at(2)), Some(at(3))];
        let mut all: Vec<Copy> =
            times.into_iter().flatten().flat_map(|at| [Copy::Deleted(at), Copy::Erased(at)]).collect();
        for created_at in times {
            for decided_at in times.into_iter().filter(|at| *at >= created_at) {
                for updated_at in times.into_iter().filter(|at| *at >= decided_at) {
                    all.push(Copy::Stored { created_at, decided_at, updated_at });
                }
            }
        }
        for this in &all {
            for other in &all {
                let both = this.replaces(Some(*other)) && other.replaces(Some(*this));
                assert!(!both, "{this:?} and {other:?}");
            }
            assert!(!this.replaces(Some(*this)), "{this:?} replaces itself");
        }
    }
}
