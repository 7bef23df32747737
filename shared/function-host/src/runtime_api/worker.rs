//! The host's own thread: one process at a time, one order at a time, as Lambda runs an environment.
//!
//! A process is given an event only when it has asked for one. One that ended, or was killed, in between
//! is replaced before the next event, and no invocation sees it. What is frozen is a process that has asked for its next event, and
//! it is thawed before it is given one. A process whose initialisation takes too long is started again with the first invocation, and
//! then has the function's time-out for it (Lambda developer guide, "Understanding the Lambda execution environment lifecycle").

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use super::InvokeError;
use super::api::{Invocation, Report};
use super::environment::{Environment, INIT_LIMIT, Recipe};
use super::memory;
use crate::ambient;

/// How often the memory of a process is looked at.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

pub(super) enum Order {
    Init(oneshot::Sender<Result<Duration, InvokeError>>),
    Invoke { event: Value, limit: Duration, reply: oneshot::Sender<Result<Value, InvokeError>> },
}

impl Order {
    /// Whether its sender has stopped waiting.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Init(reply) => reply.is_closed(),
            Self::Invoke { reply, .. } => reply.is_closed(),
        }
    }
}

/// Keeps at most one process, and carries orders out in turn.
pub(super) struct Worker {
    arn: String,
    recipe: Recipe,
    starts: Arc<AtomicU32>,
    running: Option<Warm>,
    /// Whether the last start took too long.
    was_slow: bool,
}

struct Warm {
    environment: Environment,
    init: Duration,
    /// Whether it has asked for its next event; until then it may still be ending the last one.
    waits: bool,
}

impl Warm {
    /// Stops the process as soon as it waits for an event; returns then, or if it never does.
    async fn freeze(&mut self) {
        if !self.waits {
            self.waits = ready(&mut self.environment, None, INIT_LIMIT).await.is_ok();
        }
        if self.waits {
            self.environment.target.freeze();
        }
    }

    /// Whether the process can be given an event.
    async fn can_take_an_event(&mut self) -> bool {
        self.environment.target.thaw();
        if !self.environment.lives() {
            return false;
        }
        if !self.waits {
            self.waits = ready(&mut self.environment, None, INIT_LIMIT).await.is_ok();
        }
        self.waits
    }
}

impl Worker {
    pub(super) fn new(arn: String, recipe: Recipe, starts: Arc<AtomicU32>) -> Self {
        Self { arn, recipe, starts, running: None, was_slow: false }
    }

    /// Starts a process, and then carries out orders until their sender is gone.
    pub(super) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let init_limit = self.recipe.confinement.init_limit;
        let mut first = Some(self.environment(init_limit).await);
        while let Some(mut order) = self.next(&mut orders).await {
            if order.is_abandoned() {
                continue;
            }
            if self.recipe.confinement.sink.is_some() {
                self.recipe.logs.clear();
            }
            let mut warm = match first.take() {
                Some(Err(error)) => Err(error),
                Some(Ok(())) | None => self.environment(init_limit).await,
            };
            if let (Err(_), true, Order::Invoke { limit, .. }) = (&warm, self.was_slow, &mut order) {
                let began = ambient::monotonic();
                warm = self.environment(*limit).await;
                *limit = limit.saturating_sub(ambient::monotonic() - began);
            }
            // The sender may have gone away; the work was done anyway.
            match order {
                Order::Init(reply) => {
                    let init = self.running.as_ref().map(|warm| warm.init);
                    let _ = reply.send(warm.map(|()| init.unwrap_or_default()));
                }
                Order::Invoke { event, limit, reply } => {
                    let answer = match warm {
                        Ok(()) => self.invoke(&event, limit).await,
                        Err(error) => Err(error),
                    };
                    let _ = reply.send(answer);
                }
            }
        }
        if let Some(warm) = self.running.take() {
            warm.environment.shut_down().await;
        }
    }

    /// Waits for an order, with the process frozen if it is to be.
    async fn next(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) -> Option<Order> {
        if let Some(warm) = self.running.as_mut().filter(|_| self.recipe.confinement.freezes) {
            tokio::select! {
                biased;
                order = orders.recv() => return order,
                () = warm.freeze() => {}
            }
        }
        orders.recv().await
    }

    /// Sees to it that a process waits for an event. One that has to be started has `limit` for it.
    async fn environment(&mut self, limit: Duration) -> Result<(), InvokeError> {
        if let Some(mut warm) = self.running.take() {
            if warm.can_take_an_event().await {
                self.running = Some(warm);
                return Ok(());
            }
            warm.environment.end().await;
        }
        self.starts.fetch_add(1, Ordering::SeqCst);
        self.was_slow = false;
        let printed = self.recipe.logs.read(<[_]>::len);
        let mut environment = match Environment::start(&self.recipe).await {
            Ok(environment) => environment,
            Err(error) => return Err(InvokeError::InitFailed(error.to_string())),
        };
        match ready(&mut environment, self.recipe.confinement.memory_mb, limit).await {
            Ok(init) => {
                self.running = Some(Warm { environment, init, waits: true });
                Ok(())
            }
            Err(reason) => {
                self.was_slow = matches!(reason, NotReady::Slow(_));
                environment.end().await;
                let lines = self.recipe.logs.read(|lines| {
                    lines.iter().skip(printed).map(|line| line.text.clone()).collect::<Vec<_>>()
                });
                Err(InvokeError::InitFailed(format!("{reason}\n{}", lines.join("\n"))))
            }
        }
    }

    async fn invoke(&mut self, event: &Value, limit: Duration) -> Result<Value, InvokeError> {
        let Some(mut warm) = self.running.take() else {
            return Err(InvokeError::InitFailed("there is no process".to_owned()));
        };
        let Environment { api, child, target, .. } = &mut warm.environment;
        warm.waits = false;
        api.hand_out(self.invocation(event, limit));
        let deadline = tokio::time::sleep(limit);
        tokio::pin!(deadline);
        let too_large = too_large(target.pid(), self.recipe.confinement.memory_mb);
        tokio::pin!(too_large);
        loop {
            tokio::select! {
                biased;
                Some(report) = api.reports.recv() => {
                    if let Some(answer) = read(report) {
                        self.running = Some(warm);
                        return answer;
                    }
                }
                status = Environment::ended(child) => {
                    // Its answer may lie in the socket's buffer still.
                    warm.environment.last_words().await;
                    let mut said = std::iter::from_fn(|| warm.environment.api.reports.try_recv().ok());
                    return said.find_map(read).unwrap_or(Err(InvokeError::Crashed(status)));
                }
                memory_mb = &mut too_large => {
                    warm.environment.end().await;
                    return Err(InvokeError::OutOfMemory { memory_mb });
                }
                () = &mut deadline => {
                    warm.environment.end().await;
                    return Err(InvokeError::TimedOut);
                }
            }
        }
    }

    fn invocation(&self, event: &Value, limit: Duration) -> Invocation {
        let request_id = uuid();
        let now_ms = ambient::epoch_ms();
        let deadline_ms = now_ms.saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let random = ambient::unique_name();
        let (trace, parent) = (random.get(..24).unwrap_or_default(), random.get(16..).unwrap_or_default());
        let trace = format!("Root=1-{:08x}-{trace};Parent={parent};Sampled=0", now_ms / 1_000);
        Invocation {
            headers: vec![
                ("lambda-runtime-aws-request-id", request_id.clone()),
                ("lambda-runtime-deadline-ms", deadline_ms.to_string()),
                ("lambda-runtime-invoked-function-arn", self.arn.clone()),
                ("lambda-runtime-trace-id", trace),
            ],
            request_id,
            event: Bytes::from(event.to_string()),
        }
    }
}

/// Resolves with the limit when the process uses more memory; never where that is not reported.
async fn too_large(pid: Option<u32>, limit_mb: Option<u64>) -> u64 {
    let (Some(limit_mb), Some(pid)) = (limit_mb, pid) else { return std::future::pending().await };
    loop {
        if memory::used_mb(pid).is_some_and(|used| used > limit_mb) {
            return limit_mb;
        }
        tokio::time::sleep(MEMORY_INTERVAL).await;
    }
}

/// Why a process has not asked for an event.
#[derive(Debug, Error)]
enum NotReady {
    #[error("no call of next within {0:?}")]
    Slow(Duration),
    #[error("{0}")]
    Failed(String),
}

/// Waits for a call of `next`; how long that took.
async fn ready(
    environment: &mut Environment,
    memory_mb: Option<u64>,
    limit: Duration,
) -> Result<Duration, NotReady> {
    let began = ambient::monotonic();
    let Environment { api, child, target, .. } = environment;
    let too_slow = tokio::time::sleep(limit);
    tokio::pin!(too_slow);
    let too_large = too_large(target.pid(), memory_mb);
    tokio::pin!(too_large);
    loop {
        tokio::select! {
            biased;
            Some(report) = api.reports.recv() => match report {
                Report::Ready => return Ok(ambient::monotonic() - began),
                Report::InitError(body) => {
                    return Err(NotReady::Failed(String::from_utf8_lossy(&body).into_owned()));
                }
                Report::Response(_) | Report::Error(_) => {}
            },
            status = Environment::ended(child) => return Err(NotReady::Failed(status.to_string())),
            memory_mb = &mut too_large => {
                return Err(NotReady::Failed(InvokeError::OutOfMemory { memory_mb }.to_string()));
            }
            () = &mut too_slow => return Err(NotReady::Slow(limit)),
        }
    }
}

/// What a report means for the open invocation; `None` if nothing.
fn read(report: Report) -> Option<Result<Value, InvokeError>> {
    match report {
        Report::Ready | Report::InitError(_) => None,
        Report::Response(body) if body.is_empty() => Some(Ok(Value::Null)),
        Report::Response(body) => Some(serde_json::from_slice(&body).map_err(|error| {
            InvokeError::Failed(json!({
                "errorType": "Runtime.MalformedResponse",
                "errorMessage": format!("the function's answer is no JSON: {error}"),
            }))
        })),
        Report::Error(body) => {
            let error = serde_json::from_slice(&body);
            Some(Err(InvokeError::Failed(error.unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))))
        }
    }
}

/// 128 random bits in a UUID's shape.
fn uuid() -> String {
    let mut name = ambient::unique_name();
    for position in [20, 16, 12, 8] {
        name.insert(position, '-');
    }
    name
}
