//! Names to addresses, and no further than to public ones.
//!
//! The addresses that are checked are the very ones that the connection is made to, so a name that resolves differently the
//! next moment (DNS rebinding) finds no gap between check and use. A name with one good and one bad address is refused
//! whole: a public service has no such name, and trying the good one first would be a gap again.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;

pub(super) type LookedUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks up a name's addresses. A port of 0 stands for the endpoint's.
pub(super) trait Lookup: Send + Sync {
    fn lookup(&self, host: &str) -> LookedUp;
}

/// The operating system's resolver.
#[derive(Debug)]
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> LookedUp {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) })
    }
}

/// At least one of a name's addresses is not public. Does not say which, so that an endpoint's owner cannot map our network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the name resolves to an address that is not public")]
pub(super) struct AddressRefused;

pub(super) struct EgressResolver {
    lookup: Arc<dyn Lookup>,
    public_only: bool,
}

impl EgressResolver {
    /// Returns public addresses only.
    pub(super) fn checked(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, public_only: true }
    }

    /// Returns any address: for exempt origins.
    pub(super) fn exempt(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, public_only: false }
    }
}

impl Resolve for EgressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let looked_up = self.lookup.lookup(name.as_str());
        let public_only = self.public_only;
        Box::pin(async move {
            let addresses = looked_up.await?;
            if addresses.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            if public_only && !addresses.iter().all(|address| is_public(address.ip())) {
                return Err(AddressRefused.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scripted;
    use super::*;

    async fn resolve(resolver: &EgressResolver) -> Result<Vec<SocketAddr>, bool> {
        let name = "push.example".parse().expect("a name");
        resolver.resolve(name).await.map(Iterator::collect).map_err(|error| error.is::<AddressRefused>())
    }

    #[tokio::test]
    async fn one_address_that_is_not_public_refuses_the_whole_name() {
        let resolver = EgressResolver::checked(Scripted::new(&[&["8.8.8.8:0", "10.0.0.1:0"]]));
        assert_eq!(resolve(&resolver).await, Err(true));
    }

    #[tokio::test]
    async fn the_checked_addresses_are_the_connected_ones() {
        let lookup = Scripted::new(&[&["8.8.8.8:0"], &["127.0.0.1:0"], &["8.8.4.4:0"]]);
        let resolver = EgressResolver::checked(lookup.clone());
        assert_eq!(resolve(&resolver).await, Ok(vec!["8.8.8.8:0".parse().expect("an address")]));
        assert_eq!(resolve(&resolver).await, Err(true));
        assert_eq!(resolve(&resolver).await, Ok(vec!["8.8.4.4:0".parse().expect("an address")]));
        assert_eq!(
            *lookup.lookups.lock().expect("no panic"),
            3,
            "one look-up for each resolution, none cached"
        );
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_an_error_of_resolution() {
        assert_eq!(resolve(&EgressResolver::checked(Scripted::new(&[&[]]))).await, Err(false));
    }

    #[tokio::test]
    async fn an_exempt_origin_may_be_anywhere() {
        assert!(resolve(&EgressResolver::exempt(Scripted::new(&[&["127.0.0.1:0"]]))).await.is_ok());
    }
}
