//! Exchanging a stack's keys while it works: VAPID keys, and the key that endpoints are hashed with.
//!
//! Both live in secrets that workers read by themselves, so a rotation is a row of small steps, after each of which every
//! worker, of whatever age, can do with what it has read. Nothing here keeps a state of its own: where a rotation was
//! interrupted is read from the secret.
//!
//! | file | concept |
//! |---|---|
//! | `secret` | a secret that is exchanged for another only if nobody else did meanwhile |
//! | `functions` | the functions that use it, and starting them anew |
//! | `standing` | how many subscriptions stand on each VAPID key |
//! | `new_key` | a new VAPID key |
//! | `owner` | which stack manages a secret |
//! | `vapid` | the set of VAPID keys: read, with one more, with one less |
//! | `hash_document` | the key of endpoints' hashes with those before and after it, as they are written |
//! | `hashes` | its rotation, step by step |
//!
//! No key is ever printed, and no error holds one.

pub(crate) mod functions;
pub(crate) mod hash_document;
pub(crate) mod hashes;
pub(crate) mod new_key;
pub(crate) mod owner;
pub(crate) mod secret;
pub(crate) mod standing;
pub(crate) mod vapid;
