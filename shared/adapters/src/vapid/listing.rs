//! The public halves of the keys, for whoever subscribes browsers.
//!
//! They are asked for by anybody, and Secrets Manager is billed by the call: so what was read stands for [`RELOAD_INTERVAL`], in
//! which those who ask at the same time share one reading. Of the private halves nothing is kept here.

use std::sync::Arc;

use redial_core::ports::{PortError, PublicKey, PublicKeys};
use redial_core::time::Timestamp;

use super::{LoadVapidKeys, RELOAD_INTERVAL, VapidLoadError};
use crate::secrets::SecretError;

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

impl<L: LoadVapidKeys> VapidListing<L> {
    /// Of these keys.
    pub fn new(loader: L) -> Self {
        Self { loader, known: tokio::sync::Mutex::default() }
    }

    async fn load(&self) -> Result<Arc<[PublicKey]>, PortError> {
        let keys = self.loader.load().await.map_err(|error| failed(&error))?;
        let public = keys.published().map(|key| PublicKey {
            id: key.id.clone(),
            public_base64url: key.public_base64url.to_owned(),
            is_current: key.is_current,
        });
        Ok(public.collect())
    }
}

impl<L: LoadVapidKeys> PublicKeys for VapidListing<L> {
    async fn all(&self, now: Timestamp) -> Result<Vec<PublicKey>, PortError> {
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref()
            // Either way round: clocks are set back.
            && now.since(known.asked_at).max(known.asked_at.since(now)) < RELOAD_INTERVAL
        {
            return Ok(known.keys.to_vec());
        }
        match (self.load().await, known.as_mut()) {
            (Ok(keys), _) => {
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

fn failed(error: &VapidLoadError) -> PortError {
    let code = match error {
        VapidLoadError::Secret(SecretError::Unavailable { code, .. }) => code.clone(),
        VapidLoadError::Secret(SecretError::NotText { .. }) => "NotText".to_owned(),
        VapidLoadError::Keys(_) => "NoVapidKeys".to_owned(),
    };
    PortError { operation: "GetSecretValue", code, throttled: false }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::VapidKeys;
    use super::super::key::tests::scalar;
    use super::*;

    /// Gives what lies on top, and fails when nothing is left.
    struct Stack(Mutex<Vec<String>>);

    impl LoadVapidKeys for Stack {
        async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
            let text = self.0.lock().expect("not poisoned").pop();
            let text = text.ok_or_else(|| SecretError::NotText { id: "vapid".to_owned() })?;
            Ok(VapidKeys::parse(&text)?)
        }
    }

    fn ids(keys: &[PublicKey]) -> Vec<(&str, bool)> {
        keys.iter().map(|key| (key.id.as_str(), key.is_current)).collect()
    }

    #[tokio::test]
    async fn keys_are_listed_anew_after_half_a_minute_and_old_ones_stand_where_that_fails() {
        let two =
            format!(r#"{{"default":"a","current":"b","keys":{{"a":"{}","b":"{}"}}}}"#, scalar(1), scalar(2));
        let listing = VapidListing::new(Stack(Mutex::new(vec![two, scalar(1)])));
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
        assert_eq!((error.operation, error.code.as_str()), ("GetSecretValue", "NotText"));
    }
}
