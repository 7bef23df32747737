use crate::label::labels;

labels! {
    /// What a key may be used for. No scope contains another.
    pub enum Scope {
        /// Sending messages.
        Send = "send",
        /// Storing, renewing and deleting subscriptions.
        Subscribe = "subscribe",
        /// Reading the state of deliveries and subscriptions.
        Read = "read",
    }
}
