//! The receiver: the function of `infra/verify.yaml` behind a URL, which is removed when the run ends.
//!
//! It is deployed as a stack of its own. Where the stack's functions are processes of this machine, no Lambda runs it, and it is one of
//! this command's.

use super::receiver_deployed::DeployedReceiver;
#[cfg(feature = "local")]
use super::receiver_hosted::HostedReceiver;
use crate::{aws_error::AwsError, stack::Target};

const TEMPLATE: &str = include_str!("../../../../infra/verify.yaml");

pub(super) struct Receiver {
    /// Of its stack, if it has one.
    pub(super) name: String,
    kind: Kind,
}

enum Kind {
    Deployed(DeployedReceiver),
    #[cfg(feature = "local")]
    Hosted(HostedReceiver),
}

impl Receiver {
    pub(super) fn deployed(target: &Target, name: String) -> Self {
        Self { kind: Kind::Deployed(DeployedReceiver::new(&target.sdk, name.clone())), name }
    }

    #[cfg(feature = "local")]
    pub(super) fn hosted(receiver: HostedReceiver, name: String) -> Self {
        Self { kind: Kind::Hosted(receiver), name }
    }

    /// Starts it with these parameters and returns its URL; what went wrong otherwise.
    pub(super) async fn start(&self, parameters: [(&str, &str); 6]) -> Result<String, String> {
        match &self.kind {
            Kind::Deployed(receiver) => receiver.deploy(TEMPLATE, parameters).await,
            #[cfg(feature = "local")]
            Kind::Hosted(receiver) => receiver.start(TEMPLATE, parameters),
        }
    }

    /// Removes it, also half made; what is not there is no error.
    pub(super) async fn remove(&self) -> Result<(), AwsError> {
        match &self.kind {
            Kind::Deployed(receiver) => receiver.remove().await,
            #[cfg(feature = "local")]
            Kind::Hosted(receiver) => {
                receiver.end();
                Ok(())
            }
        }
    }
}
