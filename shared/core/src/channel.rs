//! The two ways in which Redial delivers.

use crate::label::labels;

labels! {
    pub enum Channel {
        /// To a browser, through its push service (RFC 8030).
        WebPush = "web_push",
        /// To an HTTPS address of the receiver's own (Standard Webhooks).
        Webhook = "webhook",
    }
}
