//! Loops from a function over queues back to it. Lambda ends such a chain of invocations after about sixteen rounds unless the
//! function's `RecursiveLoop` is `Allow`, and no emulator does.
//!
//! The loops are not listed here: they follow from what the template lets each resource do. A queue leads to the function that
//! a mapping starts and to its redrive queue, a function to the queues and state machines that its role may use, and a state
//! machine to the queues of its own role.

use std::collections::{BTreeMap, BTreeSet};

use super::{Block, resources};

/// Who may start or feed whom, by the names in the template.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// What a statement with one of these actions makes its holder feed.
const FEEDING: [&str; 4] =
    ["sqs:SendMessage", "sns:Publish", "lambda:InvokeFunction", "states:StartExecution"];

/// The resources that a statement of these lines lets its holder feed.
fn fed<'a>(role: &Block<'a>) -> BTreeSet<&'a str> {
    let mut fed = BTreeSet::new();
    let mut feeds = false;
    for line in &role.lines {
        let text = line.trim_start();
        if text.starts_with("- Sid: ") || text.starts_with("- Effect: ") {
            feeds = false;
        }
        feeds |= FEEDING.iter().any(|action| text.contains(action));
        if feeds {
            fed.extend(named(text));
        }
    }
    fed
}

/// The resources that a line names by `!GetAtt X.Arn` or `!Ref X`.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let names = line.split("!GetAtt ").skip(1).chain(line.split("!Ref ").skip(1));
    names.filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next())
}

fn role<'a>(holder: &Block<'a>, roles: &[Block<'a>]) -> BTreeSet<&'a str> {
    let name = holder.value("Role").unwrap_or_else(|| panic!("{} has no role", holder.name));
    let name = named(name).next().unwrap_or_else(|| panic!("{name} is no role of the template"));
    fed(roles.iter().find(|role| role.name == name).unwrap_or_else(|| panic!("there is no {name}")))
}

fn graph(without: Option<&str>) -> Graph<'static> {
    let roles = resources("AWS::IAM::Role");
    let mut graph = Graph::new();
    for queue in resources("AWS::SQS::Queue") {
        let redrive = queue.value("RedrivePolicy").unwrap_or_default();
        graph.entry(queue.name).or_default().extend(named(redrive));
    }
    for machine in resources("AWS::Serverless::StateMachine") {
        graph.insert(machine.name, role(&machine, &roles));
    }
    for function in resources("AWS::Serverless::Function") {
        graph.insert(function.name, role(&function, &roles));
        for event in Block::all(&function.lines, 8).iter().filter(|it| it.value("Type") == Some("SQS")) {
            let queue = event.value("Queue").and_then(|queue| named(queue).next()).expect("a queue");
            graph.entry(queue).or_default().insert(function.name);
        }
    }
    for mapping in resources("AWS::Lambda::EventSourceMapping") {
        let of =
            |property| mapping.value(property).and_then(|value| named(value).next()).expect("a resource");
        graph.entry(of("EventSourceArn")).or_default().insert(of("FunctionName"));
    }
    graph.retain(|name, _| Some(*name) != without);
    graph
}

fn is_in_a_loop(name: &str, graph: &Graph<'_>) -> bool {
    let (mut reached, mut next) = (BTreeSet::new(), vec![name]);
    while let Some(from) = next.pop() {
        next.extend(graph.get(from).into_iter().flatten().filter(|to| reached.insert(**to)));
    }
    reached.contains(name)
}

fn functions_in_loops(graph: &Graph<'_>) -> BTreeSet<&'static str> {
    let functions = resources("AWS::Serverless::Function").into_iter().map(|it| it.name);
    functions.filter(|name| is_in_a_loop(name, graph)).collect()
}

#[test]
fn lambda_lets_exactly_the_functions_that_are_in_a_loop_run_on() {
    let looping = functions_in_loops(&graph(None));
    assert!(!looping.is_empty());
    for function in resources("AWS::Serverless::Function") {
        let allowed = looping.contains(function.name).then_some("Allow");
        assert_eq!(function.value("RecursiveLoop"), allowed, "{}", function.name);
    }
}

#[test]
fn every_function_in_a_loop_has_an_alarm_on_dropped_recursive_invocations() {
    let watched: BTreeSet<&str> = resources("AWS::CloudWatch::Alarm")
        .iter()
        .filter(|alarm| alarm.value("MetricName") == Some("RecursiveInvocationsDropped"))
        .filter_map(|alarm| named(alarm.value("Dimensions")?).next())
        .collect();
    assert_eq!(watched, functions_in_loops(&graph(None)));
}

#[test]
fn the_loops_are_found_from_mappings_policies_and_redrives() {
    let all = graph(None);
    assert!(all["DispatchFunction"].contains("RetryQueue") && all["RetryQueue"].contains("DispatchFunction"));
    assert!(all["RetryQueue"].contains("QuarantineQueue") && all["WaitStateMachine"].contains("RetryQueue"));
    assert!(all["DispatchFunction"].contains("WaitStateMachine"));
    assert!(all["IngestFunction"].contains("IngestQueue"));
    assert!(
        all["DispatchFunction"].contains("EventsRelayQueue")
            && all["EventsRelayQueue"].contains("CleanupFunction")
    );
    // Without dispatch nothing leads back to cleanup but a message that redrive brings there, and an event for the rest of its targets.
    assert_eq!(functions_in_loops(&graph(Some("DispatchFunction"))), BTreeSet::from(["CleanupFunction"]));
    let looping = functions_in_loops(&graph(Some("RetryQueue")));
    assert_eq!(looping, BTreeSet::from(["DispatchFunction", "CleanupFunction"]), "the bulk lane's are left");
}
