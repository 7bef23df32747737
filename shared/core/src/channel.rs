//! The two ways in which Redial delivers.

use crate::label::labels;

labels! {
    pub enum Channel {
        WebPush = "web_push",
        /// To an HTTPS address of the receiver's own (Standard Webhooks).
        Webhook = "webhook",
    }
}
