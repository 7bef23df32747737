//! A function that runs outside the stack: its real bootstrap in a process of the test's own, on resources of the test's own,
//! with a proxy between it and the emulator.
//!
//! Its environment is the deployed function's, read back from Lambda, so that what is tested is what the template says; only
//! the resources' names, the endpoint and the variables that the test changes differ.

use std::{collections::BTreeMap, env, time::Duration};

use redial_testkit::{
    proxy::FaultProxy,
    runtime_api::{Host, InvokeError, LogLine, RuntimeApi},
};
use serde_json::Value;

use crate::{resources::Resources, test_stack::TestStack};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    Dispatch,
    Cleanup,
}

pub struct Function {
    /// Between it and the emulator.
    pub proxy: FaultProxy,
    host: Host,
    limit: Duration,
}

impl Function {
    /// Starts dispatch on these resources, with `changed` variables, and waits until it is ready.
    pub async fn dispatch(stack: &TestStack, resources: &Resources, changed: &[(&str, &str)]) -> Self {
        let limit = Duration::from_secs(60);
        let function = Self::start(stack, Which::Dispatch, resources, changed, limit).await;
        function.ready().await;
        function
    }

    /// Starts the function on these resources, with `changed` variables; each of its invocations ends after `limit`.
    pub async fn start(
        stack: &TestStack,
        which: Which,
        resources: &Resources,
        changed: &[(&str, &str)],
        limit: Duration,
    ) -> Self {
        let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
        let functions = &stack.description().functions;
        let (binary, deployed) = match which {
            Which::Dispatch => ("dispatch", &functions.dispatch),
            Which::Cleanup => ("cleanup", &functions.cleanup),
        };
        let own = env::current_exe().expect("a process knows its binary");
        // <target>/<profile>/deps/<test>; the local stack builds the functions in the development profile.
        let target = own.ancestors().nth(3).expect("tests lie three folders deep in the target directory");
        let bootstrap = target.join("debug").join(binary);
        let mut variables: BTreeMap<String, String> = stack.variables(deployed).await.into_iter().collect();
        let own = resources.variables();
        variables.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        let key = stack.stack().key();
        let access = [("AWS_ACCESS_KEY_ID", key.id()), ("AWS_SECRET_ACCESS_KEY", key.expose_secret())];
        let endpoint = [("AWS_ENDPOINT_URL", proxy.url())];
        for (name, value) in access.iter().chain(&endpoint).chain(changed) {
            variables.insert((*name).to_owned(), (*value).to_owned());
        }
        let host = RuntimeApi::start(&bootstrap, variables).expect("a thread");
        Self { proxy, host, limit }
    }

    /// Waits until a process waits for an event: it has initialised, and makes no calls until it is invoked.
    pub async fn ready(&self) {
        self.host.init().await.expect("the function starts");
    }

    /// Invokes it, in a new process if the last one died.
    pub async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        self.host.invoke(event, self.limit).await
    }

    pub fn killer(&self) -> std::sync::Arc<dyn Fn() + Send + Sync> {
        self.host.killer()
    }

    pub fn logs(&self) -> Vec<LogLine> {
        self.host.logs()
    }

    /// The lines that it has printed that are JSON.
    pub fn json_logs(&self) -> impl DoubleEndedIterator<Item = Value> {
        self.logs().into_iter().filter_map(|line| serde_json::from_str(&line.text).ok())
    }
}
