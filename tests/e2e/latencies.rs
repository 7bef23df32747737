//! How long messages wait for their first attempt and until they are accepted: the metrics `DispatchLatency` and `DeliveryLatency`, as
//! the real function writes them into its log, from where CloudWatch reads them.

use redial_tests::prelude::*;

/// The lines in the embedded metric format that a function has logged.
pub(crate) async fn metric_lines(stack: &TestStack, function: &str) -> Vec<Value> {
    let lines = stack.log_lines(function).await;
    let parsed = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
    parsed.filter(|line: &Value| line["_aws"].is_object()).collect()
}

/// All values of a metric in a lane.
fn values(lines: &[Value], metric: &str, lane: &str) -> Vec<f64> {
    let of_lane = lines.iter().filter(|line| line["Lane"] == lane);
    of_lane.filter_map(|line| line[metric].as_array()).flatten().filter_map(Value::as_f64).collect()
}

/// CloudWatch gets it by stack and lane, in milliseconds, and by nothing else.
fn assert_is_by_lane(lines: &[Value], metric: &str) {
    let lines: Vec<&Value> = lines.iter().filter(|line| !line[metric].is_null()).collect();
    assert!(!lines.is_empty(), "{metric}");
    for line in lines {
        let directives = line["_aws"]["CloudWatchMetrics"].as_array().expect("directives");
        let [directive] = directives.as_slice() else { panic!("{line}") };
        assert_fields(directive, json!({"Namespace": "Redial", "Dimensions": [["Stack", "Lane"]]}));
        let definition = json!({"Name": metric, "Unit": "Milliseconds"});
        assert!(directive["Metrics"].as_array().expect("metrics").contains(&definition), "{line}");
        assert!(line["Stack"].as_str().is_some_and(|stack| !stack.is_empty()), "{line}");
        assert!(line["_aws"]["Timestamp"].is_i64(), "{line}");
    }
}

#[tokio::test]
async fn latencies_are_logged_by_lane_as_metrics() {
    let stack = TestStack::up().await;
    let (accepts, fails_once) = (stack.browser(), stack.browser());
    stack.push.script(&fails_once.endpoint, [Answer::status(503)]);
    let before = System.now().as_ms();
    let retry = json!({"retry": {"max_retries": 1, "base_delay_ms": 1_000, "jitter": "none"}});
    stack.send(&stack.message_with("urgent", &fails_once, &retry)).await;
    let bulk = with_fields(stack.message("bulk", &accepts, "hello"), &json!({"class": "campaign"}));
    stack.send_to(&stack.queues().bulk, &bulk).await;
    for id in ["urgent", "bulk"] {
        stack.until_state(id, "sent").await;
    }
    let dispatch = &stack.description().functions.dispatch;
    let lanes = ["transactional", "bulk"];
    let lines = stack
        .until("both latencies are logged in both lanes", async || {
            let lines = metric_lines(&stack, dispatch).await;
            lanes.iter().all(|lane| !values(&lines, "DeliveryLatency", lane).is_empty()).then_some(lines)
        })
        .await;
    let since = (System.now().as_ms() - before) as f64;
    for metric in ["DispatchLatency", "DeliveryLatency"] {
        assert_is_by_lane(&lines, metric);
    }
    for lane in lanes {
        // Its retry is no second first attempt.
        let [dispatched] = values(&lines, "DispatchLatency", lane)[..] else { panic!("{lane}: {lines:?}") };
        let [delivered] = values(&lines, "DeliveryLatency", lane)[..] else { panic!("{lane}: {lines:?}") };
        assert!((0.0..=delivered).contains(&dispatched), "{lane}: {dispatched} {delivered}");
        assert!(delivered <= since, "{lane}: {delivered} of {since}");
        if lane == "transactional" {
            assert!(delivered - dispatched >= 1_000.0, "the wait of its retry: {dispatched} {delivered}");
        }
    }
}
