//! The real functions follow what an operator sets, with a push service beside them.

use super::{breakers::time, listed, page};
use crate::prelude::*;

/// How old a worker's view of a breaker may be, and a bit.
const FOLLOWS: Duration = Duration::from_millis(2_000);

struct Followed {
    stack: TestStack,
    browser: Subscriber,
}

impl Followed {
    async fn send(&self, tenant: &str, ids: &[String]) {
        for id in ids {
            let message = self.stack.message(id, &self.browser, id.as_str());
            self.stack.send(&with_fields(message, &json!({ "tenant": tenant }))).await;
        }
    }

    /// When the push service was sent something, in order.
    fn times(&self) -> Vec<Timestamp> {
        let received = self.stack.push.received(&self.browser.endpoint);
        received.iter().map(|it| Timestamp::from_ms(i64::try_from(it.at_ms).expect("this era"))).collect()
    }

    fn breaker(&self, command: &str, more: &str) -> Value {
        self.stack.json(format!("breakers {command} {} {more}", self.stack.push.origin()))
    }

    fn row(&self) -> Value {
        listed(&self.stack, self.stack.push.origin()).expect("it is known")
    }

    async fn deferred(&self) -> u64 {
        self.stack.dispatch_log().await.iter().filter_map(|line| line["Deferred"].as_u64()).sum()
    }
}

fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

#[tokio::test]
async fn workers_follow_an_operator() {
    let stack = TestStack::as_deployed_with(|options| {
        // What waits for a breaker comes back within a cooldown.
        options.parameters.insert("BreakerCooldownSeconds".to_owned(), "1".to_owned());
    })
    .await;
    let browser = stack.browser_answering(Answer::created());
    let followed = Followed { stack, browser };
    steps! {
        an_opened_breaker_holds_everything_back_and_then_sends_probes(&followed).await;
        what_waits_in_line_leaves_when_its_breaker_is_closed(&followed, "").await;
        what_waits_in_line_leaves_when_its_breaker_is_closed(&followed, "--now").await;
        a_closed_breaker_lets_everything_pass(&followed).await;
        a_tenant_s_limit_defers_its_messages(&followed).await;
        nothing_was_sent_twice(&followed);
    }
    assert_eq!(followed.stack.stack().poller_failure(), None);
}

async fn an_opened_breaker_holds_everything_back_and_then_sends_probes(it: &Followed) {
    let opened = it.breaker("open", "--for 30s");
    let until = time(&opened["until"]);
    tokio::time::sleep(FOLLOWS).await;
    let ids = ids("held", 8);
    it.send("acme", &ids).await;
    it.stack.until("they are held back", async || (it.deferred().await > 0).then_some(())).await;
    let mut claimed = Vec::new();
    for id in &ids {
        // One that is held back has an entry that says so, and is not claimed.
        let is_claimed =
            |entry: &Item| entry.get("state").and_then(|it| it.as_s().ok()).is_none_or(|it| it != "deferred");
        claimed.extend(it.stack.entry(id).await.filter(is_claimed));
    }
    // A machine too slow to look before the breaker's end sees attempts that it lets through.
    assert!(claimed.is_empty() || System.now() >= until, "{claimed:?}");
    it.stack.received(&it.browser, ids.len()).await;
    let times = it.times();
    assert!(times[0] >= until, "{} was before {}", times[0].to_rfc3339(), until.to_rfc3339());
    assert_eq!(times.len(), ids.len(), "each of them once");
    assert_ne!(it.row()["phase"], "open");
    let transition = json!({"event": "breaker", "from": "half_open", "to": "ramping"});
    let line = it.stack.until_logged(&transition).await;
    let fields = |line: &Value| -> Vec<String> {
        // Only a transition to open or paused has an end.
        line.as_object().expect("fields").keys().filter(|name| *name != "until").cloned().collect()
    };
    assert_eq!(fields(&line), fields(&page::log_line()), "the page shows what is logged");
    assert!(!line.to_string().contains(it.stack.push.origin()), "{line}");
}

/// A worker may release the line, too: that the command does is checked where no worker runs.
async fn what_waits_in_line_leaves_when_its_breaker_is_closed(it: &Followed, options: &str) {
    const MANY: usize = 30;
    // Some of any number look by themselves, such as all of the first batch. Those of the round before may come back now, and lie in the
    // line, too.
    const MOST: usize = 14;
    it.breaker("open", "--for 1h");
    tokio::time::sleep(FOLLOWS).await;
    let ids = ids(if options.is_empty() { "gently" } else { "at-once" }, MANY);
    it.send("acme", &ids).await;
    let waiting = || it.row()["waiting"]["messages"].as_u64().and_then(|it| usize::try_from(it).ok());
    let lined_up = it.stack.until("they wait in line", async || waiting().filter(|it| *it >= MOST)).await;
    let held_back = async || {
        let shown = it.stack.redial("tail --no-follow --since 1h").stdout;
        let of_these = |line: &&str| ids.iter().any(|id| line.contains(&format!("acme#{id} ")));
        let held =
            |line: &&str| line.contains("held back until 20") && line.contains("in the line of its origin");
        (shown.lines().filter(of_these).filter(held).count() >= MOST).then_some(())
    };
    it.stack.until("tail shows them held back", held_back).await;
    assert!(waiting() >= Some(lined_up), "nothing releases them before");
    let deferred = it.stack.redial("status --state deferred --tenant acme --json").json_lines();
    let is_held = |row: &&Value| row["id"].as_str().is_some_and(|id| ids.iter().any(|it| it == id));
    assert!(deferred.iter().filter(is_held).count() >= MOST, "{deferred:?}");
    let in_line = |row: &&Value| {
        let place = row["where"].as_str().unwrap_or_default();
        is_held(row) && place.starts_with("waits in line for its origin")
    };
    assert!(deferred.iter().filter(in_line).count() >= MOST, "{deferred:?}");

    let close = it.stack.redial(format!("breakers close {} {options}", it.stack.push.origin()));
    assert!(close.stderr.ends_with("what waits for the origin goes from now on\n"), "{}", close.stderr);
    close.succeeds();
    it.stack.until("the line is empty", async || (waiting() == Some(0)).then_some(())).await;
    let sent = async || {
        let mut sent = 0;
        for id in &ids {
            let entry = it.stack.entry(id).await;
            sent += usize::from(entry.is_some_and(|entry| text(&entry, "state") == Some("sent")));
        }
        (sent >= MOST).then_some(())
    };
    it.stack.until("what waited was sent", sent).await;
}

async fn a_closed_breaker_lets_everything_pass(it: &Followed) {
    it.breaker("open", "--for 1h");
    let closed = it.breaker("close", "--now");
    assert_eq!((&closed["phase"], &closed["before"]["phase"]), (&json!("closed"), &json!("open")));
    tokio::time::sleep(FOLLOWS).await;
    let before = it.times().len();
    it.send("acme", &ids("after", 2)).await;
    it.stack.received(&it.browser, before + 2).await;
    assert_eq!(it.row()["phase"], "closed");
}

async fn a_tenant_s_limit_defers_its_messages(it: &Followed) {
    // No worker has cached that a new tenant has no limit.
    it.stack.json("limits set tenant bolt 2/min");
    let before = it.deferred().await;
    it.send("bolt", &ids("limited", 6)).await;
    it.stack.until("some are deferred", async || (it.deferred().await > before).then_some(())).await;
    it.stack.json("limits set tenant bolt 50/s");
    for id in ids("limited", 6) {
        it.stack.until_state_of("bolt", &id, "sent").await;
    }
}

fn nothing_was_sent_twice(it: &Followed) {
    let received = it.stack.push.received(&it.browser.endpoint);
    let all: Vec<&str> = received.iter().filter_map(Received::text).collect();
    let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(
        (received.len(), distinct.len()),
        (all.len(), all.len()),
        "each push is another message: {all:?}"
    );
}
