//! The VAPID keys that a local stack signs with: those in the environment, or a new one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::{
    public_keys_dynamo::DynamoPublicKeys,
    secrets::Secret,
    vapid::{VapidKeyPair, VapidKeys},
};

use super::{
    Tables,
    error::{LocalError, chain},
};

/// Private keys and the public key that new subscribers are given.
pub(crate) struct VapidKey {
    /// As given (base64url scalar, PEM, or several as JSON), or a new base64url scalar.
    pub(crate) private: Secret,
    /// The uncompressed point, base64url: what a browser takes as `applicationServerKey`.
    pub(crate) public: String,
}

/// The 65 bytes of an uncompressed point that was written as base64url.
pub(crate) fn public_point(public: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(public).expect("invariant: it was written as base64url")
}

impl VapidKey {
    pub(crate) fn generate() -> Self {
        let pair = VapidKeyPair::generate();
        Self { private: pair.private().clone(), public: pair.public().to_owned() }
    }

    /// Reads whatever a stack takes.
    pub(super) fn parse(text: &str) -> Result<Self, LocalError> {
        let keys = VapidKeys::parse(text).map_err(LocalError::VapidKey)?;
        let (_, current) =
            keys.get(Some(keys.current_id())).expect("invariant: the current key is one of the keys");
        Ok(Self {
            private: Secret::new(text.trim().to_owned()),
            public: current.public_base64url().to_owned(),
        })
    }

    /// The uncompressed point, 65 bytes.
    pub(crate) fn public_point(&self) -> Vec<u8> {
        public_point(&self.public)
    }

    /// Does at once what dispatch does some time after a deployment: publishes the public halves, which the HTTP API lists.
    pub(super) async fn publish(
        &self,
        dynamodb: &aws_sdk_dynamodb::Client,
        tables: &Tables,
    ) -> Result<(), LocalError> {
        let keys = VapidKeys::parse(self.private.expose()).map_err(LocalError::VapidKey)?;
        let public = DynamoPublicKeys::new(dynamodb.clone(), tables.control.clone());
        public
            .publish(&keys)
            .await
            .map_err(|error| LocalError::Call { call: "UpdateItem", message: chain(&error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_is_read_back_with_the_same_public_key() {
        let made = VapidKey::generate();
        let read = VapidKey::parse(&format!("  {}\n", made.private.expose())).expect("it was just written");
        assert_eq!((&read.public, &read.private), (&made.public, &made.private));
    }

    #[test]
    fn of_several_the_current_one_is_what_browsers_are_given() {
        let [old, new] = [VapidKey::generate(), VapidKey::generate()];
        let set = format!(
            r#"{{"default":"a","current":"b","keys":{{"a":"{}","b":"{}"}}}}"#,
            old.private.expose(),
            new.private.expose()
        );
        assert_eq!(VapidKey::parse(&set).expect("a set").public, new.public);
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in ["", "abc", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert!(VapidKey::parse(text).is_err(), "{text:?}");
        }
    }
}
