//! The receiver as processes of this machine, behind a port that an https origin leads to.

use std::sync::{Mutex, PoisonError};

use redial_local_stack::NodeFunction;

/// The function's name in the template.
const FUNCTION: &str = "Receiver";

#[derive(Debug)]
pub(super) struct HostedReceiver {
    port: u16,
    /// The origin that leads to the port, and that the stack posts to.
    origin: String,
    running: Mutex<Option<NodeFunction>>,
}

impl HostedReceiver {
    /// Why it cannot run here.
    pub(super) fn hindrance() -> Option<String> {
        NodeFunction::hindrance()
    }

    pub(super) fn new(port: u16, origin: &str) -> Self {
        let origin = origin.trim_end_matches('/').to_owned();
        Self { port, origin, running: Mutex::default() }
    }

    pub(super) fn start(&self, template: &str, parameters: [(&str, &str); 6]) -> Result<String, String> {
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let authority = self.origin.split_once("://").map(|(_, authority)| authority.to_owned());
        let function = NodeFunction::start(template, FUNCTION, &parameters, self.port, authority);
        let function = function.map_err(|error| error.to_string())?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(function);
        Ok(self.origin.clone())
    }

    pub(super) fn end(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
