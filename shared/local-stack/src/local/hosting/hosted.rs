//! What the process that hosts a stack's functions is given, in a file of the stack's folder.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{LocalError, StackKey, private_folder};

const FILE: &str = "functions.json";

/// The functions of a stack at an endpoint that has this key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Hosted {
    pub(super) endpoint: String,
    pub(super) key: StackKey,
    pub(super) functions: Vec<HostedFunction>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in super::super) struct HostedFunction {
    pub(super) name: String,
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) binary: String,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) timeout_s: u64,
    pub(super) memory_mb: u64,
    pub(super) reserved_concurrency: Option<u64>,
    /// It is not enforced on this machine.
    pub(super) role_arn: String,
    pub(super) log_group: String,
    pub(super) mappings: Vec<HostedMapping>,
    pub(super) schedules: Vec<HostedSchedule>,
    /// Whether its URL lets in requests that are not signed; none if it has no URL.
    pub(super) url_is_open: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct HostedMapping {
    pub(super) queue_arn: String,
    pub(super) batch_size: u64,
    pub(super) window_s: u64,
    pub(super) maximum_concurrency: u64,
    pub(super) reports_failures: bool,
    /// Whether it polls its queue from the start.
    #[serde(default = "yes")]
    pub(super) enabled: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct HostedSchedule {
    /// Such as `rate(5 minutes)`; none is once, when the stack is deployed.
    pub(super) expression: Option<String>,
    pub(super) input: Value,
}

impl Hosted {
    pub(super) fn write(&self, folder: &Path) -> Result<(), LocalError> {
        let text = serde_json::to_string(self).expect("invariant: it has texts as names");
        private_folder::write(&folder.join(FILE), &text)
    }

    pub(super) fn read(folder: &Path) -> Result<Self, LocalError> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).map_err(LocalError::file(&path))?;
        serde_json::from_str(&text)
            .map_err(|error| LocalError::file(&path)(std::io::Error::other(error.to_string())))
    }
}
