//! One execution environment as a test holds it: start, invoke, kill, read the log.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::environment::{Confinement, Recipe, Target};
use super::worker::{Order, Worker};
use super::{InvokeError, LogLine};
use crate::ambient;
use crate::background::Background;
use crate::journal::Journal;

const REGION: &str = "us-east-1";

#[derive(Clone, Copy, Debug)]
pub struct RuntimeApi;

impl RuntimeApi {
    /// Hosts this bootstrap. It is started at once, with Lambda's own variables, `PATH`, and `env`, which
    /// wins over them; nothing else is inherited.
    pub fn start<K, V>(bootstrap: &Path, env: impl IntoIterator<Item = (K, V)>) -> io::Result<Host>
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        Self::start_confined(bootstrap, env, Confinement::default())
    }

    /// The same for a process that is confined as Lambda confines it.
    pub fn start_confined<K, V>(
        bootstrap: &Path,
        env: impl IntoIterator<Item = (K, V)>,
        confinement: Confinement,
    ) -> io::Result<Host>
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let name = bootstrap.file_name().map_or_else(|| "function".into(), |name| name.to_string_lossy());
        let mut variables = lambdas_own(&name, bootstrap);
        variables.extend(env.into_iter().map(|(name, value)| (name.into(), value.into())));
        let logs = Arc::new(Journal::default());
        let target = Arc::new(Target::default());
        let starts = Arc::new(AtomicU32::new(0));
        let (orders, waiting) = mpsc::unbounded_channel();
        let recipe = Recipe {
            bootstrap: bootstrap.to_owned(),
            env: variables,
            logs: Arc::clone(&logs),
            confinement,
            target: Arc::clone(&target),
        };
        let arn = format!("arn:aws:lambda:{REGION}:000000000000:function:{name}");
        let worker = Worker::new(arn, recipe, Arc::clone(&starts));
        let background = Background::start("runtime-api", move || Ok(worker.run(waiting)))?;
        Ok(Host { orders: Some(orders), logs, target, starts, background: Some(background) })
    }
}

fn lambdas_own(name: &str, bootstrap: &Path) -> Vec<(OsString, OsString)> {
    let root = bootstrap.parent().unwrap_or(bootstrap);
    vec![
        ("PATH".into(), env::var_os("PATH").unwrap_or_default()),
        ("TZ".into(), ":UTC".into()),
        ("AWS_REGION".into(), REGION.into()),
        ("AWS_DEFAULT_REGION".into(), REGION.into()),
        ("AWS_LAMBDA_FUNCTION_NAME".into(), name.into()),
        ("AWS_LAMBDA_FUNCTION_VERSION".into(), "$LATEST".into()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE".into(), "256".into()),
        ("AWS_LAMBDA_INITIALIZATION_TYPE".into(), "on-demand".into()),
        ("AWS_LAMBDA_LOG_GROUP_NAME".into(), format!("/aws/lambda/{name}").into()),
        ("AWS_LAMBDA_LOG_STREAM_NAME".into(), ambient::unique_name().into()),
        ("LAMBDA_TASK_ROOT".into(), root.into()),
        ("_HANDLER".into(), "bootstrap".into()),
    ]
}

/// One execution environment. Dropping it kills its process.
pub struct Host {
    orders: Option<mpsc::UnboundedSender<Order>>,
    pub(super) logs: Arc<Journal<LogLine>>,
    target: Arc<Target>,
    starts: Arc<AtomicU32>,
    background: Option<Background>,
}

impl Host {
    /// Invokes the function and waits for its answer. `limit` is the function's time-out, counted from
    /// when the event is handed out: initialisation has Lambda's ten seconds for itself. Invocations of
    /// one host take turns.
    pub async fn invoke(&self, event: Value, limit: Duration) -> Result<Value, InvokeError> {
        self.order(|reply| Order::Invoke { event, limit, reply }).await
    }

    /// Waits until the function asks for its first event (in a new process, if the last one ended), and
    /// returns how long that took from the process's start.
    pub async fn init(&self) -> Result<Duration, InvokeError> {
        self.order(Order::Init).await
    }

    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> T {
        let (reply, answer) = oneshot::channel();
        let orders = self.orders.as_ref().expect("only a drop takes it");
        let sent = orders.send(order(reply)).is_ok();
        assert!(sent, "the host's thread lives as long as the host");
        answer.await.expect("the host's thread answers every order")
    }

    /// Lets an invocation under way come to its end, asks the process to end (SIGTERM), and kills it if it does not.
    pub async fn shut_down(mut self) {
        drop(self.orders.take());
        if let Some(background) = self.background.take() {
            // A panic of its thread has been printed by the thread.
            let _ = tokio::task::spawn_blocking(|| background.finish()).await;
        }
    }

    pub fn kill(&self) {
        self.target.kill();
    }

    /// The same as a value, for a proxy that is to kill at a certain call.
    pub fn killer(&self) -> Arc<dyn Fn() + Send + Sync> {
        let target = Arc::clone(&self.target);
        Arc::new(move || target.kill())
    }

    pub fn pid(&self) -> Option<u32> {
        self.target.pid()
    }

    pub fn starts(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }

    /// Everything printed so far, by all of its processes.
    pub fn logs(&self) -> Vec<LogLine> {
        self.logs.read(<[_]>::to_vec)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.background.is_none() {
            return;
        }
        // Without a sender the worker ends after the order in hand, and the kill cuts that one short.
        drop(self.orders.take());
        self.target.kill();
        if let Some(background) = self.background.take() {
            background.finish();
        }
    }
}
