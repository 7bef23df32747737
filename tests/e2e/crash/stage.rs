//! Where one case after the other takes place: resources, both functions, the queues' mappings, and the end of it all.

use std::collections::HashSet;
use std::time::Instant;

use aws_sdk_sfn::types::ExecutionStatus;
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_testkit::proxy::{Call, Fault};
use redial_testkit::runtime_api::InvokeError;
use redial_tests::hosted::{Function, Which};
use redial_tests::mapping::{Mapping, Poll};
use redial_tests::prelude::*;
use redial_tests::resources::Resources;

use super::Death;
use super::roads::{Entrance, Road, To};

/// Functions' time-out. Dispatch begins nothing that two sends of two seconds, one second of waiting and two of reserve
/// would not fit into.
const TIME_OUT: Duration = Duration::from_secs(9);
/// When a message comes back that a worker died over: just after that worker's lease.
const VISIBILITY: Duration = Duration::from_secs(10);
/// A Retry-After that is not over when a message has come back from a death: then it is parked again.
pub(crate) const TO_WAIT_SECS: u64 = 15;
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

/// One place for cases.
pub(crate) struct Stage {
    number: usize,
    resources: Resources,
    dispatch: Function,
    cleanup: Function,
    cases: usize,
    /// Dead letters of earlier cases.
    old_dead_letters: HashSet<(String, String)>,
}

/// What a case came to.
pub(crate) struct Seen {
    /// How often a process died.
    pub(crate) died: usize,
    /// Whether that was after a POST and before its record.
    pub(crate) fell_between: bool,
    pub(crate) posts: Vec<Received>,
    pub(crate) entry: Option<Item>,
    pub(crate) parked: usize,
    pub(crate) descriptions: Vec<Item>,
    pub(crate) bodies: Vec<Item>,
    /// Whether a subscription was stored, and what is left of it.
    pub(crate) subscription: Option<Option<Item>>,
    /// How many subscriptions its tenant is said to have.
    pub(crate) subscriptions: i64,
    /// Whether there was no such call as the one to die at.
    pub(crate) lived_on: bool,
}

impl Stage {
    /// Sets a stage up.
    pub(crate) async fn set(stack: &TestStack, number: usize) -> Self {
        let resources = Resources::copy(stack, &format!("stage-{number}")).await;
        let start = async |which| Function::start(stack, which, &resources, &VARIABLES, TIME_OUT).await;
        let (dispatch, cleanup) = (start(Which::Dispatch).await, start(Which::Cleanup).await);
        Self { number, resources, dispatch, cleanup, cases: 0, old_dead_letters: HashSet::new() }
    }

    /// The calls of a function since the last case began.
    pub(crate) fn calls(&self, of: Which) -> Vec<Call> {
        self.function(of).proxy.calls()
    }

    fn function(&self, which: Which) -> &Function {
        match which {
            Which::Dispatch => &self.dispatch,
            Which::Cleanup => &self.cleanup,
        }
    }

    /// Plays a case from its beginning until nothing is under way any more.
    pub(crate) async fn travel(&mut self, stack: &TestStack, road: &Road, death: Option<Death>) -> Seen {
        self.cases += 1;
        let case = Playing {
            stack,
            stage: self,
            road,
            id: format!("{}-{}-{}", road.name, self.number, self.cases),
            // A tenant of its own: the spike guard counts by tenant.
            tenant: format!("t{}-{}", self.number, self.cases),
            browser: stack.browser(),
        };
        let seen = case.play(death).await;
        self.old_dead_letters.extend(seen.descriptions.iter().chain(&seen.bodies).map(key));
        seen
    }
}

/// A case on its stage.
struct Playing<'a> {
    stack: &'a TestStack,
    stage: &'a Stage,
    road: &'a Road,
    id: String,
    tenant: String,
    browser: Subscriber,
}

impl Playing<'_> {
    async fn play(&self, death: Option<Death>) -> Seen {
        for function in [&self.stage.dispatch, &self.stage.cleanup] {
            function.ready().await;
            function.proxy.reset();
        }
        let subscription = (self.road.to != To::Browser).then(|| self.subscription());
        if let Some(subscription) = &subscription {
            let tables = &self.stage.resources.tables;
            let store = self.stack.subscriptions_in(self.stack.dynamodb.clone(), tables).await;
            let stored = store.put(subscription, System.now()).await;
            assert!(stored.expect("the table answers"));
        }
        self.stack.push.script(&self.browser.endpoint, self.road.script.clone());
        if let Some(usual) = &self.road.usual {
            self.stack.push.always(&self.browser.endpoint, usual.clone());
        }
        if let Some(Death { of, call, carried_out }) = death {
            let function = self.stage.function(of);
            let kill = function.killer();
            let fault = if carried_out { Fault::KillAfter(kill) } else { Fault::KillBefore(kill) };
            function.proxy.on_call(call, fault);
        }

        let (mut died, mut fell_between) = (0, false);
        for entrance in &self.road.enters {
            self.enter(*entrance).await;
            let (deaths, between) = self.until_quiet().await;
            died += deaths;
            fell_between |= between;
        }
        if let Some(sweep) = self.road.sweep {
            died += self.sweep(sweep).await;
        }

        let tables = &self.stage.resources.tables;
        let items = self.stack.scan(&tables.dead_letters).await;
        // The list of a day's tenants is not a dead letter.
        let dead_letters =
            items.into_iter().filter(|item| item.contains_key("body") || item.contains_key("reason"));
        let new = dead_letters.filter(|item| !self.stage.old_dead_letters.contains(&key(item)));
        let (bodies, descriptions) = new.partition(|item: &Item| item.contains_key("body"));
        let stored = match &subscription {
            Some(it) => Some(self.stack.item(&tables.subscriptions, &[("pk", &it.key.to_string())]).await),
            None => None,
        };
        Seen {
            died,
            fell_between,
            posts: self.stack.push.received(&self.browser.endpoint),
            entry: self.entry().await,
            parked: self.stack.scan(&tables.parked).await.len(),
            descriptions,
            bodies,
            subscription: stored,
            subscriptions: self.count().await,
            lived_on: death.is_some_and(|death| self.stage.function(death.of).proxy.has_unused_faults()),
        }
    }

    fn subscription(&self) -> Subscription {
        let key = subscription_key(&self.tenant, "s");
        let flagged_at = (self.road.to == To::Flagged).then(|| System.now());
        Subscription { flagged_at, ..Subscription::new(key, Recipient::WebPush(push_target(&self.browser))) }
    }

    fn message(&self) -> Value {
        let to = match self.road.to {
            To::Browser => json!({"web_push": self.browser.json()}),
            To::Subscription | To::Flagged => json!({"subscription": "s"}),
        };
        let message = json!({"tenant": self.tenant, "id": self.id, "to": to, "payload": self.id});
        with_fields(message, &self.road.fields)
    }

    async fn enter(&self, entrance: Entrance) {
        let queues = &self.stage.resources.queues;
        let (queue, body) = match entrance {
            Entrance::Ingest => (&queues.ingest, self.message()),
            Entrance::Malformed => (&queues.ingest, json!({"tenant": self.tenant, "surprise": 1})),
            Entrance::Quarantine => (&queues.quarantine, self.message()),
            // Of a tenant of its own: a process that has stored a letter of a tenant's remembers that, and makes a call less.
            Entrance::QuarantinedGarbage => {
                (&queues.quarantine, json!({"tenant": self.tenant, "garbage": true}))
            }
            Entrance::QuarantinedRelease => {
                (&queues.quarantine, json!({"release": "w1-transactional-20261121T100500Z"}))
            }
        };
        let sent = self.stack.sqs.send_message().queue_url(queue).message_body(body.to_string()).send().await;
        sent.expect("the queue takes it");
    }

    /// Plays the mappings until no queue holds a message and no execution runs. Answers how often a process died, and
    /// whether that was between a POST and its record.
    #[expect(clippy::disallowed_methods, reason = "a test's patience is real time")]
    async fn until_quiet(&self) -> (usize, bool) {
        let (dispatch, cleanup) = (&self.stage.dispatch, &self.stage.cleanup);
        let queues = &self.stage.resources.queues;
        let sources = [
            (&queues.ingest, dispatch, 0),
            (&queues.dead_letter, cleanup, 0),
            (&queues.quarantine, cleanup, 0),
            (&queues.retry, dispatch, 1),
        ];
        let end = Instant::now() + LIMIT;
        let (mut died, mut between) = (0, false);
        while Instant::now() < end {
            let mut idle = true;
            for (queue_url, function, patience) in sources {
                let mapping = Mapping { sqs: &self.stack.sqs, queue_url, visibility: VISIBILITY };
                // Only who has nothing else to do waits.
                let patience = Duration::from_secs(if idle { patience } else { 0 });
                match mapping.poll(function, patience).await {
                    Poll::Idle => continue,
                    Poll::Done => {}
                    Poll::Died => {
                        died += 1;
                        between |= self.is_between().await;
                        // So that the next message does not wait for it.
                        function.ready().await;
                    }
                }
                idle = false;
            }
            if idle && self.is_quiet().await {
                return (died, between);
            }
        }
        panic!("{} is not over after {LIMIT:?}: {:?}", self.id, self.entry().await);
    }

    async fn is_quiet(&self) -> bool {
        let queues = &self.stage.resources.queues;
        // The message that ends an execution is in its queue before the execution ends.
        for round in 0..2 {
            for url in [&queues.ingest, &queues.retry, &queues.dead_letter, &queues.quarantine] {
                if self.stack.depth(url).await > 0 {
                    return false;
                }
            }
            if round == 0 {
                let machine = &self.stage.resources.state_machine;
                let running = self.stack.sfn.list_executions().state_machine_arn(machine);
                let running = running.status_filter(ExecutionStatus::Running).send().await;
                if !running.expect("Step Functions answers").executions.is_empty() {
                    return false;
                }
            }
        }
        true
    }

    /// Whether the ledger knows of an attempt whose POST was made and whose outcome was not recorded.
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
            match self.stage.cleanup.invoke(json!({"sweep": which})).await {
                Ok(_) => return died,
                Err(InvokeError::Crashed(_)) => died += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn entry(&self) -> Option<Item> {
        let key = format!("{}#{}", self.tenant, self.id);
        self.stack.item(&self.stage.resources.tables.deliveries, &[("pk", &key)]).await
    }

    async fn count(&self) -> i64 {
        let of = format!("tenant#{}", self.tenant);
        let control = self.stack.scan(&self.stage.resources.tables.control).await;
        let own = control.iter().filter(|item| text(item, "pk") == Some(&of));
        own.filter_map(|item| number(item, "count")).sum()
    }
}

fn key(item: &Item) -> (String, String) {
    let part = |name| text(item, name).unwrap_or_default().to_owned();
    (part("pk"), part("sk"))
}
