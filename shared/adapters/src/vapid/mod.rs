//! VAPID (RFC 8292): a push service verifies that a push comes from the application that made the subscription.
//!
//! A browser subscribes with one public key, and its push service refuses every other, so an operator who rotates keys has several, each
//! with an id. They are parsed once, and a signed token is used for every push to an origin until its renewal: signing each message and
//! parsing the key each time would be half of a push's cost.
//!
//! | file | concept |
//! |---|---|
//! | `key` | one private key, in three formats |
//! | `key_pair` | a new one |
//! | `keys` | all of them by id, with a default and a current one; as they are written in a secret, and rotated there |
//! | `subject` | the contact for push services |
//! | `token` | the signed token, and how long it is used |
//! | `signer` | cached tokens; keys are loaded again after a 401 or for an unknown id |
//! | `source` | where the keys come from |
//! | `listing` | their public halves, for pages that subscribe browsers |
//!
//! No type of this module prints a key, and no error holds one.

pub(crate) mod key;
mod key_pair;
mod keys;
mod listing;
mod signer;
mod source;
mod subject;
mod token;

pub use key::{VapidKey, VapidKeyError};
pub use key_pair::VapidKeyPair;
pub use keys::{NotRetired, PublishedKey, VapidDocument, VapidIdTaken, VapidKeys, VapidKeysError};
pub use listing::{LoadPublicKeys, VapidListing};
pub use signer::{RELOAD_INTERVAL, Reload, UnknownVapidKey, VapidSigner};
pub use source::{LoadVapidKeys, VapidKeySource, VapidLoadError};
pub use subject::{VapidSubject, VapidSubjectError};
pub use token::{RENEW_BEFORE, TOKEN_LIFETIME};
