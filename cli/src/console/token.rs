//! The secret of one run, without which no data is given.

use ring::{
    digest::{Digest, SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

#[derive(Debug, thiserror::Error)]
#[error("the system has no random numbers")]
pub(super) struct NoRandom;

pub(super) struct Token(String);

impl Token {
    pub(super) fn random() -> Result<Self, NoRandom> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    pub(super) fn lock(&self) -> Lock {
        Lock(digest(&SHA256, self.0.as_bytes()))
    }
}

/// What opens with a token. It compares hashes: how long that takes says nothing about the token.
#[derive(Debug)]
pub(super) struct Lock(Digest);

impl Lock {
    pub(super) fn opens_with(&self, authorization: Option<&str>) -> bool {
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        token.is_some_and(|token| digest(&SHA256, token.as_bytes()).as_ref() == self.0.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_its_own_lock_alone() {
        let [token, other] = [(); 2].map(|()| Token::random().expect("random numbers"));
        let bearer = |token: &Token| format!("Bearer {}", token.expose());
        assert!(token.lock().opens_with(Some(&bearer(&token))));
        assert_eq!(token.expose().len(), 43);
        for refused in [None, Some(""), Some("Bearer "), Some(token.expose()), Some(&*bearer(&other))] {
            assert!(!token.lock().opens_with(refused), "{refused:?}");
        }
    }
}
