//! Access control of the HTTP API.
//!
//! A sender sends an API key, or signs with the credentials of an AWS principal; either is looked up, and its stored row has the tenant
//! and the scopes. A browser sends a token, which is stored nowhere: it carries what it is for, when it ends and which key its sender
//! made it with, and a MAC that only the stack can make.
//!
//! An accepted credential becomes a [`Grant`]. The caller never learns why another one was refused: unknown, revoked, expired and
//! forged keys get the same answer. Of an API key only a digest is stored; secrets and MACs are compared in constant time.

mod api_key;
mod base62;
mod grant;
mod iam;
mod token;

pub use api_key::{ApiKey, ApiKeyId, SecretDigest};
pub use grant::{Credential, Grant, Principal, Scope, Standing, StoredKey};
pub use iam::IamArn;
pub use token::{AckToken, SubscriptionToken, TokenKeys};
