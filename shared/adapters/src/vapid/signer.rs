//! Makes Authorization headers, and loads the keys again when a push service refuses them, or a subscription names an unknown one.
//!
//! A 401 usually means that the operator has exchanged the key and this worker still holds the old one; an unknown id, that a key was added
//! and browsers have subscribed with it. Many pushes of a batch fail like that at once, so loading is single flight, happens at most once
//! in [`RELOAD_INTERVAL`], and a failed load keeps the old keys: a secret that cannot be read for a minute must not stop deliveries to
//! push services that still accept them.
//!
//! If a new key reaches browsers no sooner than [`RELOAD_INTERVAL`] after it was added, every worker can use it: keys loaded within the
//! interval include it, and older ones are loaded again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use redial_core::endpoint::Origin;
use redial_core::identity::VapidKeyId;
use redial_core::time::Timestamp;
use ring::rand::SystemRandom;

use super::token::{Token, TokenCache};
use super::{LoadVapidKeys, VapidKeys, VapidLoadError, VapidSubject};

/// At most one load by a worker in this time.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no VAPID key with this id")]
pub struct UnknownVapidKey;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// All tokens will be signed again.
    Loaded,
    /// Loaded less than `RELOAD_INTERVAL` ago.
    Recent,
    /// Loading failed, now or less than `RELOAD_INTERVAL` ago: the old keys stay. After a failure now, all tokens are signed again.
    Failed,
}

#[derive(Debug)]
pub struct VapidSigner<L> {
    loader: L,
    subject: VapidSubject,
    random: SystemRandom,
    state: Mutex<State>,
    /// When keys were last loaded again, and whether that succeeded. Held while they load, so that concurrent callers wait for one load.
    reloaded: tokio::sync::Mutex<Option<(Timestamp, bool)>>,
}

/// Keys and the tokens that they have signed change together: no token outlives its key.
#[derive(Debug)]
struct State {
    keys: VapidKeys,
    tokens: TokenCache,
}

impl<L: LoadVapidKeys> VapidSigner<L> {
    /// Loads the keys for the first time.
    pub async fn start(loader: L, subject: VapidSubject) -> Result<Self, VapidLoadError> {
        Ok(Self::with(loader.load().await?, loader, subject))
    }

    /// With keys that were just loaded.
    pub fn with(keys: VapidKeys, loader: L, subject: VapidSubject) -> Self {
        Self {
            loader,
            subject,
            random: SystemRandom::new(),
            state: Mutex::new(State { keys, tokens: TokenCache::default() }),
            reloaded: tokio::sync::Mutex::new(None),
        }
    }

    /// The value of `Authorization` for a push to `origin`, under the key of that id or the default one.
    pub fn authorization(
        &self,
        key_id: Option<&VapidKeyId>,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<HeaderValue, UnknownVapidKey> {
        let state = self.state();
        let State { keys, tokens } = &*state;
        let (id, key) = keys.get(key_id).ok_or(UnknownVapidKey)?;
        let token =
            tokens.get(id, origin, now, || Token::sign(key, origin, &self.subject, now, &self.random));
        Ok(token.into_header())
    }

    /// Loads the keys again and drops all tokens, unless that was done within the last 30 seconds. Callers at the same
    /// time wait for one load. When it returns, signing again is worth a try.
    pub async fn reload(&self, now: Timestamp) -> Reload {
        let mut reloaded = self.reloaded.lock().await;
        if let Some((last, succeeded)) = *reloaded {
            // Either way round: callers read the clock before they wait, and clocks are set back.
            let apart = now.since(last).max(last.since(now));
            if apart < RELOAD_INTERVAL {
                return if succeeded { Reload::Recent } else { Reload::Failed };
            }
        }
        let loaded = self.loader.load().await;
        *reloaded = Some((now, loaded.is_ok()));
        let mut state = self.state();
        state.tokens = TokenCache::default();
        match loaded {
            Ok(keys) => {
                state.keys = keys;
                Reload::Loaded
            }
            Err(error) => {
                tracing::warn!(event = "vapid_keys_kept", %error, "cannot reload the VAPID keys; keeping the old ones");
                Reload::Failed
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change under this lock can be left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

    use super::super::VapidKeysError;
    use super::super::key::tests::scalar;
    use super::*;

    /// Loads the key of the byte that is set, or fails for 0; counts loads.
    #[derive(Clone, Debug, Default)]
    struct Loader {
        byte: Arc<AtomicU8>,
        loads: Arc<AtomicUsize>,
    }

    impl LoadVapidKeys for Loader {
        async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
            self.loads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            match self.byte.load(Ordering::SeqCst) {
                0 => Err(VapidLoadError::Keys(VapidKeysError::Default)),
                byte => Ok(VapidKeys::parse(&scalar(byte))?),
            }
        }
    }

    async fn signer() -> (Loader, VapidSigner<Loader>) {
        let loader = Loader::default();
        loader.byte.store(1, Ordering::SeqCst);
        let subject = VapidSubject::parse("mailto:push@shop.example").expect("a subject");
        let signer = VapidSigner::start(loader.clone(), subject).await.expect("keys");
        (loader, signer)
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    fn header(signer: &VapidSigner<Loader>, origin: &str, now: Timestamp) -> HeaderValue {
        signer.authorization(None, &Origin::parse(origin).expect("an origin"), now).expect("a header")
    }

    #[tokio::test]
    async fn a_token_is_reused_for_its_origin_until_renewal() {
        let (_, signer) = signer().await;
        let first = header(&signer, "https://a.example", at(0));
        assert_eq!(header(&signer, "https://a.example", at(9 * 3600)), first);
        assert_ne!(header(&signer, "https://a.example", at(10 * 3600)), first);
        assert_ne!(header(&signer, "https://a.example:8443", at(0)), first);
    }

    #[tokio::test]
    async fn concurrent_reloads_share_one_load() {
        let (loader, signer) = signer().await;
        let before = header(&signer, "https://a.example", at(0));
        loader.byte.store(2, Ordering::SeqCst);
        let answers = futures_util::future::join_all((0..50).map(|n| signer.reload(at(n % 2)))).await;
        assert_eq!(answers.iter().filter(|answer| **answer == Reload::Loaded).count(), 1);
        assert_eq!(loader.loads.load(Ordering::SeqCst), 2);
        let after = header(&signer, "https://a.example", at(0));
        let key =
            |header: &HeaderValue| header.to_str().expect("text").split(", k=").nth(1).map(str::to_owned);
        assert_ne!(key(&after), key(&before));
    }

    #[tokio::test]
    async fn keys_are_loaded_once_in_30_seconds_even_after_a_failure() {
        let (loader, signer) = signer().await;
        for (secs, byte, expected, loads) in [
            (0, 1, Reload::Loaded, 2),
            (29, 1, Reload::Recent, 2),
            (30, 1, Reload::Loaded, 3),
            // The clock was set back.
            (-30, 1, Reload::Loaded, 4),
            (1, 0, Reload::Failed, 5),
            (2, 2, Reload::Failed, 5),
            (31, 2, Reload::Loaded, 6),
            (32, 2, Reload::Recent, 6),
        ] {
            loader.byte.store(byte, Ordering::SeqCst);
            assert_eq!(signer.reload(at(secs)).await, expected, "{secs} s");
            assert_eq!(loader.loads.load(Ordering::SeqCst), loads, "{secs} s");
        }
    }

    #[tokio::test]
    async fn a_failed_load_keeps_the_old_keys_and_signs_again() {
        let (loader, signer) = signer().await;
        let before = header(&signer, "https://a.example", at(0));
        loader.byte.store(0, Ordering::SeqCst);
        assert_eq!(signer.reload(at(1)).await, Reload::Failed);
        let after = header(&signer, "https://a.example", at(1));
        assert_ne!(after, before);
        assert_eq!(signer.reload(at(2)).await, Reload::Failed, "a failure counts too");
    }
}
