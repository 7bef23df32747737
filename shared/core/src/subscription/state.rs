use crate::label::labels;

labels! {
    /// Whether messages are sent to a subscription.
    pub enum State {
        Active = "active",
        /// Its endpoint is gone: nothing is sent, and it will be removed.
        Gone = "gone",
        /// Its endpoint went with an unusual number of others: nothing is sent, and an operator decides.
        Quarantined = "quarantined",
        /// A webhook's receiver that answered 410, or failed for days without one success: nothing is sent until it is
        /// enabled again.
        Disabled = "disabled",
    }
}
