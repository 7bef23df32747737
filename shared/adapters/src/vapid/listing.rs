//! The public halves of the keys, for whoever subscribes browsers.
//!
//! They are asked for by anybody, and each reading is a call: so what was read stands for [`RELOAD_INTERVAL`], in which those
//! who ask at the same time share one reading. They come from where they are published, and never from the secret: the
//! function that lists them cannot read it.

use std::future::Future;
use std::sync::Arc;

use redial_core::time::Timestamp;
use redial_engine::ports::{PortError, PublicKey, PublicKeys};

use super::RELOAD_INTERVAL;

/// Reads the public keys from where they are published.
pub trait LoadPublicKeys: Send + Sync {
    /// All of them as they are now, in the order of their ids; an error if none were ever published.
    fn load(&self) -> impl Future<Output = Result<Vec<PublicKey>, PortError>> + Send;
}

/// Lists the keys that a loader gives.
#[derive(Debug)]
pub struct VapidListing<L> {
    loader: L,
    /// Held while keys are loaded.
    known: tokio::sync::Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    keys: Arc<[PublicKey]>,
    /// When they were last asked for, whether or not they came.
    asked_at: Timestamp,
}

impl<L: LoadPublicKeys> VapidListing<L> {
    /// Of these keys.
    pub fn new(loader: L) -> Self {
        Self { loader, known: tokio::sync::Mutex::default() }
    }
}

impl<L: LoadPublicKeys> PublicKeys for VapidListing<L> {
    async fn all(&self, now: Timestamp) -> Result<Vec<PublicKey>, PortError> {
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref()
            // Either way round: clocks are set back.
            && now.since(known.asked_at).max(known.asked_at.since(now)) < RELOAD_INTERVAL
        {
            return Ok(known.keys.to_vec());
        }
        match (self.loader.load().await, known.as_mut()) {
            (Ok(keys), _) => {
                let keys: Arc<[PublicKey]> = keys.into();
                *known = Some(Known { keys: keys.clone(), asked_at: now });
                Ok(keys.to_vec())
            }
            (Err(error), Some(known)) => {
                tracing::warn!(%error, "the VAPID keys could not be listed anew; the ones that are known stand");
                known.asked_at = now;
                Ok(known.keys.to_vec())
            }
            (Err(error), None) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use redial_core::identity::VapidKeyId;

    use super::*;

    /// Gives what lies on top, and fails when nothing is left.
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
    async fn keys_are_listed_anew_after_half_a_minute_and_old_ones_stand_where_that_fails() {
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
        let error = listing.all(Timestamp::from_secs(1)).await.expect_err("nothing is known");
        assert_eq!((error.operation, error.code.as_str()), ("GetItem", "Gone"));
    }
}
