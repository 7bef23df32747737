//! The public halves of the keys, for the pages that subscribe browsers.
//!
//! Anyone may request them, and each read is a call: so the keys are cached for [`RELOAD_INTERVAL`], and concurrent requests share one
//! read. They come from the table where they are published, never from the secret: the function that lists them cannot read it.

use std::future::Future;

use redial_core::time::Timestamp;
use redial_engine::ports::{PortError, PublicKey, PublicKeys};

use super::RELOAD_INTERVAL;

pub trait LoadPublicKeys: Send + Sync {
    /// In the order of their ids; an error if none were ever published.
    fn load(&self) -> impl Future<Output = Result<Vec<PublicKey>, PortError>> + Send;
}

#[derive(Debug)]
pub struct VapidListing<L> {
    loader: L,
    /// The keys, and when they were last read, successfully or not. Held while they are loaded.
    cached: tokio::sync::Mutex<Option<(Vec<PublicKey>, Timestamp)>>,
}

impl<L: LoadPublicKeys> VapidListing<L> {
    pub fn new(loader: L) -> Self {
        Self { loader, cached: tokio::sync::Mutex::default() }
    }
}

impl<L: LoadPublicKeys> PublicKeys for VapidListing<L> {
    async fn all(&self, now: Timestamp) -> Result<Vec<PublicKey>, PortError> {
        let mut cached = self.cached.lock().await;
        if let Some((keys, read_at)) = cached.as_ref()
            // Either way round: clocks are set back.
            && now.since(*read_at).max(read_at.since(now)) < RELOAD_INTERVAL
        {
            return Ok(keys.clone());
        }
        let keys = match (self.loader.load().await, cached.take()) {
            (Ok(keys), _) => keys,
            (Err(error), Some((keys, _))) => {
                tracing::warn!(event = "vapid_keys_kept", %error, "cannot read the public VAPID keys; keeping the cached ones");
                keys
            }
            (Err(error), None) => return Err(error),
        };
        *cached = Some((keys.clone(), now));
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use redial_core::identity::VapidKeyId;

    use super::*;

    /// Returns the last element, and fails when none is left.
    struct Stack(Mutex<Vec<Vec<PublicKey>>>);

    impl LoadPublicKeys for Stack {
        async fn load(&self) -> Result<Vec<PublicKey>, PortError> {
            let keys = self.0.lock().expect("not poisoned").pop();
            keys.ok_or(PortError { operation: "GetItem", code: "Gone".to_owned(), throttled: false })
        }
    }

    fn key(id: &str, is_current: bool) -> PublicKey {
        let id = VapidKeyId::parse(id).expect("an id");
        PublicKey { id, public_base64url: "BA".to_owned(), is_current }
    }

    fn ids(keys: &[PublicKey]) -> Vec<(&str, bool)> {
        keys.iter().map(|key| (key.id.as_str(), key.is_current)).collect()
    }

    #[tokio::test]
    async fn keys_are_read_again_after_half_a_minute_and_kept_if_that_fails() {
        let two = vec![key("a", false), key("b", true)];
        let listing = VapidListing::new(Stack(Mutex::new(vec![two, vec![key("default", true)]])));
        let at = |secs: i64| Timestamp::from_secs(1_800_000_000 + secs);
        assert_eq!(ids(&listing.all(at(0)).await.expect("listed")), [("default", true)]);
        assert_eq!(ids(&listing.all(at(29)).await.expect("listed")), [("default", true)]);
        for secs in [30, 61, 200] {
            let keys = listing.all(at(secs)).await.expect("listed");
            assert_eq!(ids(&keys), [("a", false), ("b", true)], "{secs}");
        }
    }

    #[tokio::test]
    async fn keys_that_were_never_read_are_an_error() {
        let listing = VapidListing::new(Stack(Mutex::default()));
        let error = listing.all(Timestamp::from_secs(1)).await.expect_err("nothing is cached");
        assert_eq!((error.operation, error.code.as_str()), ("GetItem", "Gone"));
    }
}
