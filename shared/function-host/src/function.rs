//! A function with as many instances as there are invocations at once.
//!
//! An instance serves one invocation at a time. One that is idle is used again, the last one first, so that as few as possible are
//! kept warm; one that has been idle for a while is ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::ambient;
use crate::runtime_api::{Confinement, Host, InvokeError, LogLine, RuntimeApi};

/// How long an instance is kept warm. Lambda does not say how long it does.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// What a function is, as its template has it.
#[derive(Clone, Debug)]
pub struct Definition {
    pub bootstrap: PathBuf,
    /// All of its variables at first; `PATH` and Lambda's own are set in any case.
    pub environment: BTreeMap<String, String>,
    pub timeout: Duration,
    /// The most invocations at once, from wherever they come; `None` is any number.
    pub reserved_concurrency: Option<usize>,
    /// Where its lines go, whether it is frozen between invocations, and how much memory it may use.
    pub confinement: Confinement,
}

/// What can be invoked: a function, or a stand-in.
pub trait Invoke: Send + Sync + 'static {
    fn invoke(&self, event: Value) -> impl Future<Output = Result<Value, InvokeError>> + Send;
}

pub struct Function {
    definition: Definition,
    instances: Mutex<Instances>,
}

#[derive(Default)]
struct Instances {
    /// Of those that are started from now on.
    environment: BTreeMap<String, String>,
    idle: Vec<Idle>,
    busy: usize,
    /// How often the function was started again: an instance of before is not used again.
    generation: u32,
}

struct Idle {
    host: Host,
    since: Instant,
}

/// Counts an invocation until it is dropped, in whatever way that ends.
struct Busy<'a> {
    function: &'a Function,
    generation: u32,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.function.lock().busy -= 1;
    }
}

impl Function {
    #[must_use]
    pub fn new(definition: Definition) -> Self {
        let environment = definition.environment.clone();
        Self { definition, instances: Mutex::new(Instances { environment, ..Instances::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Instances> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what the function itself cannot: that it did not start, or was ended.
    fn log(&self, error: &InvokeError) {
        let is_own = match error {
            InvokeError::InitFailed(_)
            | InvokeError::TimedOut
            | InvokeError::OutOfMemory { .. }
            | InvokeError::Crashed(_) => true,
            InvokeError::Failed(_) | InvokeError::Throttled => false,
        };
        if let Some(logs) = self.definition.confinement.sink.as_ref().filter(|_| is_own) {
            let _closed = logs.send(LogLine { text: error.to_string(), at_ms: ambient::epoch_ms() });
        }
    }

    /// A warm instance, or a new one.
    fn instance(&self) -> Result<(Busy<'_>, Host), InvokeError> {
        let mut instances = self.lock();
        if self.definition.reserved_concurrency.is_some_and(|most| instances.busy >= most) {
            return Err(InvokeError::Throttled);
        }
        instances.busy += 1;
        let warm = instances.idle.pop();
        let busy = Busy { function: self, generation: instances.generation };
        let environment = warm.is_none().then(|| instances.environment.clone());
        drop(instances);
        let host = match warm {
            Some(idle) => Ok(idle.host),
            None => {
                let Definition { bootstrap, confinement, .. } = &self.definition;
                RuntimeApi::start_confined(bootstrap, environment.unwrap_or_default(), confinement.clone())
            }
        };
        Ok((busy, host.map_err(|error| InvokeError::InitFailed(error.to_string()))?))
    }

    /// Ends the instances that have been idle for too long.
    pub async fn end_idle(&self) {
        let now = ambient::monotonic();
        let is_old = |idle: &mut Idle| now.saturating_duration_since(idle.since) >= IDLE_LIMIT;
        let old: Vec<Idle> = self.lock().idle.extract_if(.., is_old).collect();
        shut_down(old).await;
    }

    /// Has each later invocation use an instance that is started from now on, with an environment that was changed so.
    pub async fn restart(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let idle = {
            let mut instances = self.lock();
            change(&mut instances.environment);
            instances.generation += 1;
            std::mem::take(&mut instances.idle)
        };
        shut_down(idle).await;
    }

    /// Ends the instances that are idle. Those at work end with their invocations' futures.
    pub async fn shut_down(&self) {
        let idle = std::mem::take(&mut self.lock().idle);
        shut_down(idle).await;
    }
}

impl Invoke for Function {
    /// The error is [`InvokeError::Throttled`] if its reserved concurrency is in use.
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        let (busy, host) = self.instance().inspect_err(|error| self.log(error))?;
        let answer = host.invoke(event, self.definition.timeout).await;
        if let Err(error) = &answer {
            self.log(error);
        }
        let idle = Idle { host, since: ambient::monotonic() };
        let old = {
            let mut instances = self.lock();
            if instances.generation == busy.generation {
                instances.idle.push(idle);
                None
            } else {
                Some(idle)
            }
        };
        shut_down(old).await;
        answer
    }
}

async fn shut_down(idle: impl IntoIterator<Item = Idle>) {
    idle.into_iter().map(|idle| idle.host.shut_down()).collect::<JoinSet<()>>().join_all().await;
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn function(reserved_concurrency: Option<usize>) -> (Function, TempDir) {
        let folder = TempDir::new().expect("a folder");
        let bootstrap = folder.path().join("bootstrap");
        std::fs::write(&bootstrap, include_str!("runtime_api/bootstrap.py")).expect("a file");
        std::fs::set_permissions(&bootstrap, std::fs::Permissions::from_mode(0o755)).expect("executable");
        let environment = BTreeMap::new();
        let timeout = Duration::from_secs(20);
        let confinement = Confinement { freezes: true, ..Confinement::default() };
        let definition = Definition { bootstrap, environment, timeout, reserved_concurrency, confinement };
        (Function::new(definition), folder)
    }

    async fn pid(function: &Function) -> Value {
        function.invoke(json!({})).await.expect("an answer")["pid"].clone()
    }

    #[tokio::test]
    async fn invocations_at_once_have_instances_of_their_own_and_later_ones_reuse_them() {
        let (function, _folder) = function(None);
        let (one, other) = tokio::join!(pid(&function), pid(&function));
        assert_ne!(one, other);
        let third = pid(&function).await;
        assert!(third == one || third == other);
        assert_eq!(function.lock().idle.len(), 2);
        function.shut_down().await;
        assert!(function.lock().idle.is_empty());
    }

    #[tokio::test]
    async fn a_function_that_is_started_again_uses_no_instance_and_no_variable_of_before() {
        let (function, _folder) = function(None);
        let idle = pid(&function).await;
        function.restart(|_| {}).await;
        let (busy, ()) = tokio::join!(pid(&function), async {
            tokio::task::yield_now().await;
            function.restart(|it| drop(it.insert("VARIABLE".to_owned(), "changed".to_owned()))).await;
        });
        let last = function.invoke(json!({})).await.expect("an answer");
        assert_eq!(last["variable"], "changed");
        let last = last["pid"].clone();
        assert!(last != idle && last != busy && idle != busy);
        assert_eq!(function.lock().idle.len(), 1);
    }

    #[tokio::test]
    async fn an_invocation_over_the_reserved_concurrency_is_throttled() {
        let (function, _folder) = function(Some(1));
        let (one, other) = tokio::join!(function.invoke(json!({})), function.invoke(json!({})));
        assert!(one.is_ok());
        assert_eq!(other, Err(InvokeError::Throttled));
        assert!(function.invoke(json!({})).await.is_ok());
    }

    #[tokio::test]
    async fn an_abandoned_invocation_ends_its_instance_and_is_not_counted_any_more() {
        let (function, _folder) = function(Some(1));
        let hanging = function.invoke(json!({"do": "hang"}));
        assert!(tokio::time::timeout(Duration::from_millis(100), hanging).await.is_err());
        assert!(function.lock().idle.is_empty());
        assert!(function.invoke(json!({})).await.is_ok());
    }
}
