//! What one case after the other runs in: copies of the stack's resources, and a process of each function.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_sfn::types::ExecutionStatus;
use aws_sdk_sqs::types::QueueAttributeName;
use redial_core::{recipient::Recipient, subscription::Subscription};
use redial_testkit::{
    proxy::{AwsService, Call, Fault},
    runtime_api::InvokeError,
};
use redial_tests::{
    hosted::{Function, Which},
    mapping::{Mapping, Poll},
    permissions,
    prelude::*,
    resources::Resources,
};

use super::{
    Case, Death,
    scenarios::{Input, Scenario, To},
};

/// Functions' time-out. Dispatch begins nothing that two sends of two seconds, one second of waiting and two of reserve
/// would not fit into.
const TIME_OUT: Duration = Duration::from_secs(9);
/// When a message comes back that a worker died over: just after that worker's lease.
const VISIBILITY: Duration = Duration::from_secs(10);
/// A Retry-After that is not over when a message has come back from a death: then it is parked again.
pub(super) const TO_WAIT_SECS: u64 = 40;
/// How long a case may take. On an idle machine a long wait with a death on it takes under a minute.
const LIMIT: Duration = Duration::from_secs(300);
/// The prune sweep decides windows whose neighbours are over.
const WINDOWS: Duration = Duration::from_millis(3_100);

const VARIABLES: [(&str, &str); 8] = [
    ("LEASE_MARGIN_SECONDS", "0"),
    ("SEND_TIMEOUT_SECONDS", "2"),
    ("WEBHOOK_TIMEOUT_SECONDS", "2"),
    ("SQS_MAX_DELAY_SECONDS", "2"),
    ("WAIT_BUCKET_SECONDS", "1"),
    ("WAIT_SHARDS", "1"),
    ("SPIKE_WINDOW_SECONDS", "1"),
    ("RUST_LOG", "warn"),
];

pub(super) struct Environment {
    number: usize,
    resources: Resources,
    dispatch: Function,
    cleanup: Function,
    cases: usize,
    /// Dead letters of earlier cases.
    old_dead_letters: HashSet<(String, String)>,
}

/// The emulator enforces no role: what the function's own would deny fails here.
fn assert_permitted(of: Which, call: &Call, control: &str) {
    let role = match of {
        Which::Dispatch => "DispatchRole",
        Which::Cleanup => "CleanupRole",
    };
    let body = call.json().filter(|_| call.service == AwsService::DynamoDb);
    for (action, pk) in body.iter().flat_map(|body| permissions::touched(&call.operation, body, control)) {
        assert!(permissions::allows(role, &action, &pk), "{role} denies {action} of {pk} in control");
    }
}

/// What a case came to.
pub(super) struct Seen {
    pub(super) case: Case,
    pub(super) calls: Vec<(Which, Call)>,
    pub(super) died: usize,
    /// Whether that was after a POST and before its record.
    pub(super) fell_between: bool,
    pub(super) posts: Vec<Received>,
    pub(super) entry: Option<Item>,
    pub(super) parked: usize,
    pub(super) descriptions: Vec<Item>,
    pub(super) bodies: Vec<Item>,
    pub(super) subscription: Option<Item>,
    /// How many subscriptions its tenant is recorded to have.
    pub(super) subscriptions: i64,
    /// Whether there was no such call as the one to die at.
    pub(super) lived_on: bool,
}

impl Environment {
    pub(super) async fn start(stack: &TestStack, number: usize) -> Self {
        let resources = Resources::copy(stack, &format!("crash-{number}")).await;
        let start = async |which| Function::start(stack, which, &resources, &VARIABLES, TIME_OUT).await;
        let (dispatch, cleanup) = (start(Which::Dispatch).await, start(Which::Cleanup).await);
        Self { number, resources, dispatch, cleanup, cases: 0, old_dead_letters: HashSet::new() }
    }

    fn function(&self, which: Which) -> &Function {
        match which {
            Which::Dispatch => &self.dispatch,
            Which::Cleanup => &self.cleanup,
        }
    }

    /// Runs a case until nothing is under way any more.
    pub(super) async fn run(&mut self, stack: &TestStack, case: Case) -> Seen {
        self.cases += 1;
        let run = Run {
            stack,
            environment: self,
            scenario: &case.scenario,
            id: format!("{}-{}-{}", case.scenario.name, self.number, self.cases),
            // A tenant of its own: the spike guard counts by tenant.
            tenant: format!("t{}-{}", self.number, self.cases),
            browser: stack.browser(),
        };
        let seen = run.of(&case).await;
        self.old_dead_letters.extend(seen.descriptions.iter().chain(&seen.bodies).map(key));
        seen
    }
}

struct Run<'a> {
    stack: &'a TestStack,
    environment: &'a Environment,
    scenario: &'a Scenario,
    id: String,
    tenant: String,
    browser: Subscriber,
}

impl Run<'_> {
    async fn of(&self, case: &Case) -> Seen {
        for function in [&self.environment.dispatch, &self.environment.cleanup] {
            function.ready().await;
            function.proxy.reset();
        }
        let tables = &self.environment.resources.tables;
        let subscription = self.subscription();
        if self.scenario.to != To::Browser {
            let store = self.stack.subscriptions_in(self.stack.dynamodb.clone(), tables).await;
            assert!(store.put(&subscription, System.now()).await.expect("the table answers"));
        }
        self.stack.push.script(&self.browser.endpoint, self.scenario.script.clone());
        if let Some(usual) = &self.scenario.usual {
            self.stack.push.always(&self.browser.endpoint, usual.clone());
        }
        if let Some(Death { of, call, operation, carried_out }) = case.death.clone() {
            let function = self.environment.function(of);
            let kill = function.killer();
            let fault = if carried_out { Fault::KillAfter(kill) } else { Fault::KillBefore(kill) };
            let made = AtomicUsize::new(0);
            let is_it = move |it: &Call| {
                it.operation == operation && made.fetch_add(1, Ordering::Relaxed) + 1 == call
            };
            function.proxy.once(is_it, fault);
        }

        let (mut died, mut fell_between) = (0, false);
        for input in &self.scenario.inputs {
            self.put(*input).await;
            let Ok((deaths, between)) = tokio::time::timeout(LIMIT, self.until_quiet()).await else {
                panic!("{case} is not over after {LIMIT:?}: {}", self.under_way().await)
            };
            died += deaths;
            fell_between |= between;
        }
        if let Some(sweep) = self.scenario.sweep {
            died += self.sweep(sweep).await;
        }

        let items = self.stack.scan(&tables.dead_letters).await;
        // The list of a day's tenants is not a dead letter.
        let dead_letters =
            items.into_iter().filter(|item| item.contains_key("body") || item.contains_key("reason"));
        let new = dead_letters.filter(|item| !self.environment.old_dead_letters.contains(&key(item)));
        let (bodies, descriptions) = new.partition(|item: &Item| item.contains_key("body"));
        let calls = [Which::Dispatch, Which::Cleanup].into_iter();
        let calls = calls
            .flat_map(|of| self.environment.function(of).proxy.calls().into_iter().map(move |it| (of, it)));
        let calls: Vec<(Which, Call)> = calls.collect();
        calls.iter().for_each(|(of, call)| assert_permitted(*of, call, &tables.control));
        let has_unused = |death: &Death| self.environment.function(death.of).proxy.has_unused_faults();
        Seen {
            case: case.clone(),
            calls,
            died,
            fell_between,
            posts: self.stack.push.received(&self.browser.endpoint),
            entry: self.entry().await,
            parked: self.stack.scan(&tables.parked).await.len(),
            descriptions,
            bodies,
            subscription: self
                .stack
                .item(&tables.subscriptions, &[("pk", &subscription.key.to_string())])
                .await,
            subscriptions: self.count().await,
            lived_on: case.death.as_ref().is_some_and(has_unused),
        }
    }

    fn subscription(&self) -> Subscription {
        let key = subscription_key(&self.tenant, "s");
        let flagged_at = (self.scenario.to == To::Flagged).then(|| System.now());
        Subscription { flagged_at, ..Subscription::new(key, Recipient::WebPush(push_target(&self.browser))) }
    }

    fn message(&self) -> Value {
        let to = match self.scenario.to {
            To::Browser => json!({"web_push": self.browser.json()}),
            To::Subscription | To::Flagged => json!({"subscription": "s"}),
        };
        let message = json!({"tenant": self.tenant, "id": self.id, "to": to, "payload": self.id});
        with_fields(message, &self.scenario.fields)
    }

    async fn put(&self, input: Input) {
        let queues = &self.environment.resources.queues;
        let (queue, body) = match input {
            Input::Ingest => (&queues.ingest, self.message()),
            Input::Malformed => (&queues.ingest, json!({"tenant": self.tenant, "surprise": 1})),
            Input::Quarantine => (&queues.quarantine, self.message()),
            // Of a tenant of its own: a process that has stored a dead letter of a tenant remembers that, and makes a call less.
            Input::QuarantinedGarbage => (&queues.quarantine, json!({"tenant": self.tenant, "id": true})),
            Input::QuarantinedRelease => {
                (&queues.quarantine, json!({"release": "w1-transactional-20261121T100500Z"}))
            }
        };
        let sent = self.stack.sqs.send_message().queue_url(queue).message_body(body.to_string()).send().await;
        sent.expect("the queue takes it");
    }

    /// Polls the queues until none holds a message and no execution runs. Answers how often a process died, and whether that was
    /// between a POST and its record.
    async fn until_quiet(&self) -> (usize, bool) {
        let (dispatch, cleanup) = (&self.environment.dispatch, &self.environment.cleanup);
        let queues = &self.environment.resources.queues;
        let sources = [
            (&queues.ingest, dispatch, 0),
            (&queues.dead_letter, cleanup, 0),
            (&queues.quarantine, cleanup, 0),
            (&queues.retry, dispatch, 1),
        ];
        let (mut died, mut between) = (0, false);
        loop {
            let mut idle = true;
            for (queue_url, function, patience) in sources {
                let mapping = Mapping { sqs: &self.stack.sqs, queue_url, visibility: VISIBILITY };
                // Only who has nothing else to do waits.
                let patience = Duration::from_secs(if idle { patience } else { 0 });
                let poll = mapping.poll(function, patience).await;
                idle &= poll == Poll::Idle;
                if poll == Poll::Died {
                    died += 1;
                    between |= self.is_between().await;
                    // So that the next message does not wait for it.
                    function.ready().await;
                }
            }
            if idle && self.is_quiet().await {
                return (died, between);
            }
        }
    }

    async fn is_quiet(&self) -> bool {
        let Resources { queues, state_machine, .. } = &self.environment.resources;
        // The message that ends an execution is in its queue before the execution ends, and no function runs that could start another.
        let running = self.stack.sfn.list_executions().state_machine_arn(state_machine);
        let running = running.status_filter(ExecutionStatus::Running).send().await;
        if !running.expect("Step Functions answers").executions.is_empty() {
            return false;
        }
        for url in [&queues.ingest, &queues.retry, &queues.dead_letter, &queues.quarantine] {
            if self.stack.depth(url).await > 0 {
                return false;
            }
        }
        true
    }

    /// What [`Self::until_quiet`] waits for.
    async fn under_way(&self) -> String {
        let Resources { queues, tables, state_machine } = &self.environment.resources;
        let mut found = Vec::new();
        for (name, url) in [
            ("ingest", &queues.ingest),
            ("retry", &queues.retry),
            ("dead letter", &queues.dead_letter),
            ("quarantine", &queues.quarantine),
        ] {
            let attributes = self.stack.sqs.get_queue_attributes().queue_url(url);
            let attributes = attributes.attribute_names(QueueAttributeName::All).send().await;
            let attributes = attributes.expect("the queue answers").attributes.unwrap_or_default();
            let counts = attributes.iter().filter(|(name, count)| {
                name.as_str().starts_with("ApproximateNumber") && count.as_str() != "0"
            });
            let counts: Vec<_> = counts.map(|(name, count)| format!("{} {count}", name.as_str())).collect();
            found.push(format!("{name} queue {counts:?}"));
        }
        let executions = self.stack.sfn.list_executions().state_machine_arn(state_machine).send().await;
        for execution in executions.expect("Step Functions answers").executions {
            if execution.status == ExecutionStatus::Running {
                let history = self.stack.sfn.get_execution_history().execution_arn(execution.execution_arn);
                let events = history.send().await.expect("Step Functions answers").events;
                let events: Vec<_> =
                    events.iter().map(|event| (event.r#type.as_str(), event.timestamp)).collect();
                found.push(format!("an execution {events:?}"));
            }
        }
        let entry = self.entry().await.unwrap_or_default();
        found.push(format!("the entry is {:?} at {:?}", text(&entry, "state"), number(&entry, "attempt")));
        found.push(format!("{} messages are parked", self.stack.scan(&tables.parked).await.len()));
        found.push(format!("{} posts", self.stack.push.received(&self.browser.endpoint).len()));
        found.join("; ")
    }

    /// Whether the ledger has an attempt whose POST was made and whose outcome was not recorded.
    async fn is_between(&self) -> bool {
        let Some(entry) = self.entry().await else { return false };
        let posts = i64::try_from(self.stack.push.received(&self.browser.endpoint).len()).unwrap_or(i64::MAX);
        text(&entry, "state") == Some("sending")
            && number(&entry, "attempt").is_some_and(|it| posts == it + 1)
    }

    /// Has cleanup make a sweep, again if it dies over it. Answers how often it died.
    async fn sweep(&self, which: &str) -> usize {
        tokio::time::sleep(WINDOWS).await;
        let mut died = 0;
        loop {
            match self.environment.cleanup.invoke(json!({"sweep": which})).await {
                Ok(_) => return died,
                Err(InvokeError::Crashed(_)) => died += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn entry(&self) -> Option<Item> {
        let table = &self.environment.resources.tables.deliveries;
        self.stack.entry_in(table, &self.tenant, &self.id).await
    }

    async fn count(&self) -> i64 {
        let of = format!("tenant#{}", self.tenant);
        let control = self.stack.scan(&self.environment.resources.tables.control).await;
        let own = control.iter().filter(|item| text(item, "pk") == Some(&of));
        own.filter_map(|item| number(item, "count")).sum()
    }
}

fn key(item: &Item) -> (String, String) {
    let part = |name| text(item, name).unwrap_or_default().to_owned();
    (part("pk"), part("sk"))
}
