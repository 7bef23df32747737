//! A mapping between a queue in memory and a function that is a closure, on a paused clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use crate::clock;
use crate::runtime_api::InvokeError;

/// Messages become visible again 30 s after a receive.
const VISIBILITY: Duration = Duration::from_secs(30);

#[derive(Default)]
struct FakeQueue {
    state: Mutex<State>,
    sent: Notify,
}

#[derive(Default)]
struct State {
    visible: VecDeque<String>,
    /// By handle.
    in_flight: BTreeMap<String, (String, Instant)>,
    received: usize,
    /// Of each message's body.
    body_bytes: usize,
    refused_deletions: usize,
    unreachable: bool,
}

impl FakeQueue {
    fn send(&self, ids: impl IntoIterator<Item = impl Into<String>>) {
        self.state.lock().expect("whole").visible.extend(ids.into_iter().map(Into::into));
        self.sent.notify_waiters();
    }

    fn left(&self) -> Vec<String> {
        let state = self.state.lock().expect("whole");
        let mut left: Vec<String> = state.in_flight.values().map(|(id, _)| id.clone()).collect();
        left.extend(state.visible.iter().cloned());
        left.sort();
        left
    }

    fn take(&self, most: usize) -> Result<Vec<SqsRecord>, QueueError> {
        let mut state = self.state.lock().expect("whole");
        if state.unreachable {
            return Err(QueueError::new("connection refused"));
        }
        let now = clock::now();
        let State { visible, in_flight, received, body_bytes, .. } = &mut *state;
        in_flight.retain(|_, (id, until)| {
            let stays = *until > now;
            if !stays {
                visible.push_back(id.clone());
            }
            stays
        });
        let mut records = Vec::new();
        while records.len() < most
            && let Some(id) = visible.pop_front()
        {
            *received += 1;
            let handle = format!("{id}-{received}");
            in_flight.insert(handle.clone(), (id.clone(), now + VISIBILITY));
            records.push(SqsRecord::bare(&id, "x".repeat(*body_bytes)).receipt_handle(handle));
        }
        Ok(records)
    }
}

impl Queue for FakeQueue {
    async fn receive(&self, most: usize, wait: Duration) -> Result<Vec<SqsRecord>, QueueError> {
        let end = clock::now() + wait;
        loop {
            let sent = self.sent.notified();
            let records = self.take(most)?;
            if !records.is_empty() || clock::now() >= end {
                return Ok(records);
            }
            let hidden = self.state.lock().expect("whole").in_flight.values().map(|(_, until)| *until).min();
            let until = hidden.unwrap_or(end).min(end);
            tokio::select! { () = sent => {}, () = tokio::time::sleep_until(until) => {} }
        }
    }

    async fn delete(&self, handles: Vec<String>) -> Vec<String> {
        let mut state = self.state.lock().expect("whole");
        if state.refused_deletions > 0 {
            state.refused_deletions -= 1;
            return handles;
        }
        for handle in &handles {
            state.in_flight.remove(handle);
        }
        Vec::new()
    }
}

/// Answers by a closure after a second, and notes what it was invoked with.
struct FakeFunction<F> {
    answer: F,
    batches: Mutex<Vec<Vec<String>>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

impl<F> FakeFunction<F> {
    fn new(answer: F) -> Arc<Self> {
        let (running, most_running) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { answer, batches: Mutex::default(), running, most_running })
    }

    fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().expect("whole").clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.batches().iter().map(Vec::len).collect()
    }
}

impl<F> Invoke for FakeFunction<F>
where
    F: Fn(&[String], usize) -> Result<Value, InvokeError> + Send + Sync + 'static,
{
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        let records = event["Records"].as_array().expect("records");
        let ids: Vec<String> =
            records.iter().map(|record| record["messageId"].as_str().expect("an id").to_owned()).collect();
        let number = {
            let mut batches = self.batches.lock().expect("whole");
            batches.push(ids.clone());
            batches.len()
        };
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        (self.answer)(&ids, number)
    }
}

fn settings(batch_size: usize, window_s: u64, maximum_concurrency: usize) -> Settings {
    let window = Duration::from_secs(window_s);
    Settings { batch_size, window, maximum_concurrency, reports_failures: true }
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("m{n:03}")).collect()
}

/// Runs a mapping for some time of the paused clock; answers its notes.
async fn run_for<F: Invoke>(
    time: Duration,
    settings: Settings,
    queue: &Arc<FakeQueue>,
    function: &Arc<F>,
) -> Vec<String> {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&notes);
    let note: Note = Arc::new(move |line: &str| noted.lock().expect("whole").push(line.to_owned()));
    let running = run(settings, Arc::clone(queue), Arc::clone(function), Arc::default(), note);
    assert!(tokio::time::timeout(time, running).await.is_err(), "it runs for ever");
    let notes = notes.lock().expect("whole");
    notes.clone()
}

#[tokio::test(start_paused = true)]
async fn messages_come_in_batches_and_are_deleted_when_processed() {
    let queue = Arc::new(FakeQueue::default());
    queue.send(ids(25));
    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    let notes = run_for(Duration::from_secs(60), settings(10, 0, 20), &queue, &function).await;
    assert_eq!(function.sizes(), [10, 10, 5]);
    assert_eq!(function.batches().concat(), ids(25));
    assert!(queue.left().is_empty() && notes.is_empty(), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn no_more_batches_are_at_work_than_the_maximum_concurrency() {
    let queue = Arc::new(FakeQueue::default());
    queue.send(ids(200));
    let function = FakeFunction::new(|_: &[String], _| Ok(json!({})));
    run_for(Duration::from_secs(60), settings(10, 0, 3), &queue, &function).await;
    assert_eq!(function.most_running.load(Ordering::SeqCst), 3);
    assert!(queue.left().is_empty());
}

#[tokio::test(start_paused = true)]
async fn messages_too_large_for_one_batch_keep_to_the_maximum_concurrency() {
    let queue = Arc::new(FakeQueue::default());
    queue.state.lock().expect("whole").body_bytes = 1 << 20;
    queue.send(ids(10));
    let function = FakeFunction::new(|_: &[String], _| Ok(json!({})));
    run_for(Duration::from_secs(20), settings(10, 0, 1), &queue, &function).await;
    assert_eq!((function.sizes(), function.most_running.load(Ordering::SeqCst)), (vec![5, 5], 1));
    assert!(queue.left().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reported_failures_stay_and_come_back_after_their_visibility() {
    let queue = Arc::new(FakeQueue::default());
    queue.send(ids(3));
    let function = FakeFunction::new(|ids: &[String], number| {
        let failed: Vec<Value> = ids.iter().skip(2).map(|id| json!({"itemIdentifier": id})).collect();
        Ok(json!({"batchItemFailures": if number == 1 { failed } else { Vec::new() }}))
    });
    run_for(VISIBILITY - Duration::from_secs(5), settings(10, 0, 5), &queue, &function).await;
    assert_eq!(queue.left(), ["m002"]);
    run_for(VISIBILITY, settings(10, 0, 5), &queue, &function).await;
    assert_eq!(function.batches(), [ids(3), vec!["m002".to_owned()]]);
    assert!(queue.left().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_invocation_that_fails_leaves_its_whole_batch() {
    for error in [InvokeError::TimedOut, InvokeError::Failed(json!({"errorMessage": "secret"}))] {
        let queue = Arc::new(FakeQueue::default());
        queue.send(ids(4));
        let label = error.label();
        let function = FakeFunction::new(move |_: &[String], _| Err(error.clone()));
        let notes = run_for(Duration::from_secs(20), settings(10, 0, 5), &queue, &function).await;
        assert_eq!(queue.left(), ids(4));
        assert_eq!(notes, [format!("an invocation with 4 messages has not succeeded: {label}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_cannot_be_read_leaves_the_whole_batch() {
    let queue = Arc::new(FakeQueue::default());
    queue.send(ids(4));
    let function =
        FakeFunction::new(|_: &[String], _| Ok(json!({"batchItemFailures": [{"itemIdentifier": ""}]})));
    let notes = run_for(Duration::from_secs(20), settings(10, 0, 5), &queue, &function).await;
    assert_eq!((queue.left(), notes.len()), (ids(4), 1));
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_is_invoked_less_until_it_succeeds() {
    let queue = Arc::new(FakeQueue::default());
    queue.send(ids(4_000));
    let function = FakeFunction::new(|_: &[String], _| Err(InvokeError::TimedOut));
    run_for(Duration::from_secs(20), settings(10, 0, 20), &queue, &function).await;
    let failing = function.sizes().len();
    assert!((21..60).contains(&failing), "{failing} invocations in 20 s instead of 400");

    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    run_for(Duration::from_secs(20), settings(10, 0, 20), &queue, &function).await;
    assert!(function.sizes().len() > 300, "{}", function.sizes().len());
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_its_window_unless_it_is_full() {
    let queue = Arc::new(FakeQueue::default());
    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    let sending = async {
        queue.send(ids(30).into_iter().take(2));
        for n in 2..30 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            queue.send([format!("m{n:03}")]);
        }
    };
    let (_, ()) =
        tokio::join!(run_for(Duration::from_secs(60), settings(12, 2, 5), &queue, &function), sending);
    assert_eq!(function.batches().concat(), ids(30));
    let sizes = function.sizes();
    assert!(sizes.len() <= 5, "about seven messages come in two seconds: {sizes:?}");

    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    queue.send(ids(40));
    let began = clock::now();
    run_for(Duration::from_millis(1_500), settings(20, 60, 5), &queue, &function).await;
    assert_eq!((function.sizes(), began.elapsed().as_secs()), (vec![20, 20], 1));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again() {
    let queue = Arc::new(FakeQueue::default());
    queue.send(ids(1));
    queue.state.lock().expect("whole").refused_deletions = 3;
    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    let notes = run_for(Duration::from_secs(10), settings(10, 0, 5), &queue, &function).await;
    assert!(queue.left().is_empty() && notes.is_empty(), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_answer_is_noted_once_and_asked_again() {
    let queue = Arc::new(FakeQueue::default());
    queue.state.lock().expect("whole").unreachable = true;
    queue.send(ids(1));
    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    let coming_back = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        queue.state.lock().expect("whole").unreachable = false;
    };
    let (notes, ()) =
        tokio::join!(run_for(Duration::from_secs(120), settings(10, 0, 5), &queue, &function), coming_back);
    assert_eq!(notes, ["ReceiveMessage failed: connection refused", "ReceiveMessage succeeds again"]);
    assert!(queue.left().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mapping_takes_nothing_once_it_is_disabled_until_it_is_enabled_again() {
    let queue = Arc::new(FakeQueue::default());
    let function = FakeFunction::new(|_: &[String], _| Ok(Value::Null));
    let switch: Arc<Switch> = Arc::default();
    let note: Note = Arc::new(|_: &str| {});
    let running =
        run(settings(10, 0, 5), Arc::clone(&queue), Arc::clone(&function), Arc::clone(&switch), note);
    let switching = async {
        queue.send(["m0"]);
        tokio::time::sleep(Duration::from_millis(500)).await;
        switch.set(false);
        assert_eq!(switch.state(), switch::State::Disabling, "a poll is under way");
        tokio::time::sleep(Duration::from_secs(25)).await;
        assert_eq!((switch.state(), queue.left()), (switch::State::Disabled, Vec::new()));
        queue.send(["m1"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(queue.left(), ["m1"]);
        switch.set(true);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(queue.left().is_empty());
    };
    tokio::select! { () = running => panic!("it runs for ever"), () = switching => {} }
    assert_eq!(function.batches(), [["m0"], ["m1"]]);
}
