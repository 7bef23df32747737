//! The place of a receiver on this machine that a stack may send to from the start, whenever one listens there.
//!
//! What functions may post to is decided when they are deployed. So the stack gets two ports, of a push service and of webhooks, and a
//! root certificate before anything listens; they lie in the stack's folder, and `redial local listen` takes them up.

use std::{fs, path::Path};

use redial_receivers::{push_service::Certificates, serve::Port};
use serde::{Deserialize, Serialize};

use super::{LocalError, private_folder};

const FILE: &str = "receiver.json";
const ROOTS: &str = "egress-roots.pem";

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OwnReceiver {
    pub(crate) push_port: u16,
    pub(crate) webhook_port: u16,
    root: String,
    server: String,
    key: String,
}

impl std::fmt::Debug for OwnReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnReceiver({}, {})", self.push_port, self.webhook_port)
    }
}

impl OwnReceiver {
    /// Chooses two ports that are free now. Nothing keeps them from being taken by another program.
    pub(super) fn reserve() -> Result<Self, LocalError> {
        let made = |error| LocalError::Receiver(Box::new(error));
        let (push, webhooks) =
            (Port::take(0).map_err(|e| made(e.into()))?, Port::take(0).map_err(|e| made(e.into()))?);
        let Certificates { root, server, key } = Certificates::generate().map_err(made)?;
        Ok(Self { push_port: push.number(), webhook_port: webhooks.number(), root, server, key })
    }

    pub(crate) fn certificates(&self) -> Certificates {
        Certificates { root: self.root.clone(), server: self.server.clone(), key: self.key.clone() }
    }

    /// What messages may be sent to.
    pub(super) fn origins(&self) -> [String; 2] {
        [self.push_port, self.webhook_port].map(|port| format!("https://localhost:{port}"))
    }

    /// Where the functions find the roots that they trust besides.
    pub(super) fn roots_path(folder: &Path) -> std::path::PathBuf {
        folder.join(ROOTS)
    }

    /// Keeps it in the stack's folder, its root beside those of `egress_ca`.
    pub(super) fn write(&self, folder: &Path, egress_ca: Option<&Path>) -> Result<(), LocalError> {
        let given =
            egress_ca.map(|file| fs::read_to_string(file).map_err(LocalError::file(file))).transpose()?;
        let roots = format!("{}{}", self.root, given.unwrap_or_default());
        private_folder::write(&Self::roots_path(folder), &roots)?;
        let text = serde_json::to_string(self).expect("invariant: numbers and texts are JSON");
        private_folder::write(&folder.join(FILE), &text)
    }

    /// That of the stack with this folder, if it has one.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(folder.join(FILE)).ok()?).ok()
    }
}
