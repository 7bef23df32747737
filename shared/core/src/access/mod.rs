//! Who may do what through the front door.
//!
//! A sender shows an API key, or calls with the credentials of an AWS principal; either is looked up, and what is stored of it
//! says for which tenant it speaks and for what. A browser shows a token instead, which nobody stores: it carries what it is
//! for and when it ends, and a MAC that only the stack can make.
//!
//! Whatever was shown, a [`Grant`] comes of it or nothing does, and the reasons for nothing are not told apart: an unknown, a
//! revoked, an expired and a forged key are one and the same to whoever shows it. Of an API key only a digest is stored;
//! secrets and MACs are compared in constant time.
//!
//! | file | concept |
//! |---|---|
//! | `scope` | what a key may be for |
//! | `api_key` | the key that a sender shows |
//! | `iam` | the AWS principal that calls instead |
//! | `stored_key` | what is stored of either |
//! | `grant` | what comes of it |
//! | `token` | what browsers show |
//! | `base62` | how numbers are written so that a double click selects them |
//! | `compare` | constant time |

mod api_key;
mod base62;
mod compare;
mod grant;
mod iam;
mod scope;
mod stored_key;
mod token;

pub use api_key::{ApiKey, ApiKeyId, SecretDigest};
pub use grant::{Grant, Principal};
pub use iam::IamArn;
pub use scope::Scope;
pub use stored_key::{Credential, Standing, StoredKey};
pub use token::{AckToken, SubscriptionToken, TokenKeys};
