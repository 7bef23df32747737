//! Whether a subscription is sent to.

/// A subscription's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum State {
    /// Messages are sent to it.
    Active,
    /// Its endpoint is gone: nothing is sent, and it is about to be removed.
    Gone,
    /// Its endpoint went with an unusual number of others: nothing is sent, and an operator decides.
    Quarantined,
    /// A webhook's receiver that answered 410, or failed for days without one success: nothing is sent until it is
    /// enabled again.
    Disabled,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Gone, Self::Quarantined, Self::Disabled];

    /// Its name in the table and on the command line.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Gone => "gone",
            Self::Quarantined => "quarantined",
            Self::Disabled => "disabled",
        }
    }

    /// The state of that name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.label() == label)
    }
}
