//! Who may read which key, and how far the public API reaches: what the function that faces the internet has, and what a flood of
//! requests can use up.

use super::{Block, parameter, resources, section};

/// The roles whose policies name the secret.
fn readers_of(secret: &str) -> Vec<&'static str> {
    let roles = resources("AWS::IAM::Role").into_iter();
    let names = |role: &Block<'_>| role.lines.iter().any(|line| line.contains(&format!("!Ref {secret},")));
    roles.filter(names).map(|role| role.name).collect()
}

fn resource(of_type: &str, name: &str) -> Block<'static> {
    let mut blocks = resources(of_type);
    let at = blocks.iter().position(|block| block.name == name);
    blocks.swap_remove(at.unwrap_or_else(|| panic!("there is no {name}")))
}

fn function(name: &str) -> Block<'static> {
    resource("AWS::Serverless::Function", name)
}

#[test]
fn only_dispatch_reads_the_private_vapid_keys() {
    assert_eq!(readers_of("VapidSecret"), ["DispatchRole"]);
}

#[test]
fn the_api_s_function_reads_the_keys_of_hashes_and_tokens_alone() {
    for (secret, readers) in [
        ("WebhookKeySecret", &["DispatchRole", "CleanupRole"][..]),
        ("TokenKeySecret", &["DispatchRole", "IngestRole"]),
        ("EndpointHashSecret", &["DispatchRole", "CleanupRole", "IngestRole"]),
    ] {
        assert_eq!(readers_of(secret), readers, "{secret}");
    }
}

#[test]
fn the_public_keys_are_published_by_a_schedule_and_by_each_deployment() {
    let dispatch = function("DispatchFunction");
    let events = Block::all(&dispatch.lines, 8);
    let mut publishing: Vec<_> = events
        .iter()
        .filter(|event| event.value("Input") == Some(r#"'{"publish":"vapid_keys"}'"#))
        .map(|event| (event.value("Type"), event))
        .collect();
    publishing.sort_by_key(|(of_type, _)| *of_type);
    let [(Some("EventBridgeRule"), deployment), (Some("Schedule"), schedule)] = &publishing[..] else {
        panic!("{} events publish the keys", publishing.len())
    };
    assert_eq!(schedule.value("Schedule"), Some("rate(5 minutes)"));
    assert_eq!(deployment.value("stack-id"), Some("[!Ref AWS::StackId]"));
}

#[test]
fn a_flood_of_requests_leaves_the_other_functions_their_concurrency() {
    let ceiling = "!If [ReservesApi, !Ref ApiReservedConcurrency, !Ref AWS::NoValue]";
    assert_eq!(function("IngestFunction").value("ReservedConcurrentExecutions"), Some(ceiling));
    for other in ["DispatchFunction", "CleanupFunction"] {
        assert_eq!(function(other).value("ReservedConcurrentExecutions"), None, "{other}");
    }
    let reserved = parameter("ApiReservedConcurrency");
    assert!(reserved.number("Default") > 0 && reserved.number("MinValue") == 0);
    let reserves = Block { name: "Conditions", lines: section("Conditions") };
    let expected = "!And [!Condition HasApi, !Not [!Equals [!Ref ApiReservedConcurrency, 0]]]";
    assert_eq!(reserves.value("ReservesApi"), Some(expected));
}

#[test]
fn the_http_api_s_stage_is_throttled() {
    let stage = resource("AWS::ApiGatewayV2::Stage", "IngestHttpApiStage");
    assert_eq!(stage.value("ThrottlingRateLimit"), Some("!Ref ApiStageRate"));
    assert_eq!(stage.value("ThrottlingBurstLimit"), Some("!Ref ApiStageBurst"));
    // API Gateway's own for an account and region are 10,000 a second and a burst of 5,000.
    assert!(parameter("ApiStageRate").number("Default") < 10_000);
    assert!(parameter("ApiStageBurst").number("Default") < 5_000);
}
