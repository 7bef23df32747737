//! Names to addresses, and no further than to public ones.
//!
//! The addresses that are checked are the very ones that the connection is made to, so a name that resolves differently the
//! next moment (DNS rebinding) finds no gap between check and use. A name with one good and one bad address is refused
//! whole: a public service has no such name, and trying the good one first would be a gap again. A refused name fails as one that does
//! not exist, so that an endpoint's owner cannot ask which names our network has.

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

pub(super) struct EgressResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    /// Not for exempt origins.
    pub(super) public_only: bool,
}

impl Resolve for EgressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let looked_up = self.lookup.lookup(name.as_str());
        let public_only = self.public_only;
        Box::pin(async move {
            let addresses = looked_up.await?;
            let is_refused = public_only && !addresses.iter().all(|address| is_public(address.ip()));
            if addresses.is_empty() || is_refused {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scripted;
    use super::*;

    /// The addresses, or the error as it reads.
    async fn resolve(resolver: &EgressResolver) -> Result<Vec<String>, String> {
        let resolved = resolver.resolve("push.example".parse().expect("a name")).await;
        let resolved = resolved.map_err(|error| error.to_string())?;
        Ok(resolved.map(|address| address.to_string()).collect())
    }

    #[tokio::test]
    async fn the_checked_addresses_are_the_connected_ones_and_each_resolution_looks_up() {
        let lookup = Scripted::new(&[
            &["8.8.8.8:0"],
            &["127.0.0.1:0"],
            &["8.8.8.8:0", "10.0.0.1:0"],
            &["8.8.4.4:0"],
            &[],
        ]);
        let resolver = EgressResolver { lookup: lookup.clone(), public_only: true };
        let is_absent = || Err("entity not found".to_owned());
        for expected in [
            Ok(vec!["8.8.8.8:0".to_owned()]),
            is_absent(),
            // One address that is not public refuses the whole name.
            is_absent(),
            Ok(vec!["8.8.4.4:0".to_owned()]),
            // A name without addresses reads the same.
            is_absent(),
        ] {
            assert_eq!(resolve(&resolver).await, expected);
        }
        assert_eq!(*lookup.lookups.lock().expect("no panic"), 5, "none is cached");
    }

    #[tokio::test]
    async fn an_exempt_origin_may_be_anywhere() {
        let resolver = EgressResolver { lookup: Scripted::new(&[&["127.0.0.1:0"]]), public_only: false };
        assert_eq!(resolve(&resolver).await, Ok(vec!["127.0.0.1:0".to_owned()]));
    }
}
