//! Who may read which key, how far the public API reaches, and what a deployment is refused: what the function that faces the
//! internet has, what many requests can use up, and which mistakes CloudFormation finds before it makes anything.

use std::collections::BTreeMap;

use redial_tests::permissions::{allows, in_control};

use super::{Block, TEMPLATE, globals, named, parameter, resources, section};

fn readers_of(secret: &str) -> Vec<&'static str> {
    let roles = resources("AWS::IAM::Role").into_iter();
    let (inline, alone) = (format!("!Ref {secret},"), format!("!Ref {secret}"));
    let names =
        |role: &Block<'_>| role.lines.iter().any(|line| line.contains(&inline) || line.ends_with(&alone));
    roles.filter(names).map(|role| role.name).collect()
}

fn function(name: &str) -> Block<'static> {
    named(resources("AWS::Serverless::Function"), name)
}

#[test]
fn each_secret_is_read_by_the_functions_that_need_it_alone() {
    for (secret, readers) in [
        ("VapidSecret", &["DispatchRole"][..]),
        ("WebhookKeySecret", &["DispatchRole", "CleanupRole"]),
        ("TokenKeySecret", &["DispatchRole", "IngestRole"]),
        ("EndpointHashSecret", &["DispatchRole", "CleanupRole", "IngestRole"]),
    ] {
        assert_eq!(readers_of(secret), readers, "{secret}");
    }
}

const ROLES: [&str; 3] = ["DispatchRole", "CleanupRole", "IngestRole"];

/// A function that was taken over must not make itself a key of any tenant. The search of an erasure passes over what is stored of keys: digests,
/// from which no key can be made.
#[test]
fn api_keys_are_read_by_ingest_alone_and_written_by_no_function() {
    const READS: [&str; 3] = ["GetItem", "BatchGetItem", "Query"];
    const WRITES: [&str; 4] = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"];
    for role in ROLES {
        for pk in ["access#4Xb0m2Qp9Lk7", "access#iam#00ff", "access-of#acme", "access-tenants"] {
            for action in WRITES.iter().chain(&READS) {
                let is_lookup = role == "IngestRole" && *action == "GetItem" && pk.starts_with("access#");
                assert_eq!(allows(role, action, pk), is_lookup, "{role}: {action} of {pk}");
            }
        }
    }
    // One list of keys, and no other statement, leads to the table.
    for role in resources("AWS::IAM::Role") {
        let leads = role.lines.iter().filter(|line| line.contains("ControlTable")).count();
        let expected = if ROLES.contains(&role.name) { in_control(role.name).len() } else { 0 };
        assert_eq!(leads, expected, "{}", role.name);
    }
}

/// An attacker who takes over the function that faces the internet reads nothing that no key of a request leads to.
#[test]
fn every_table_is_searched_by_cleanup_alone() {
    for role in resources("AWS::IAM::Role") {
        let scans = role.lines.iter().filter(|line| line.contains("dynamodb:Scan")).count();
        assert_eq!(scans > 0, role.name == "CleanupRole", "{}", role.name);
    }
}

/// Each with its kinds of keys in the table that all share: whose rate, breaker, wait or window another function must not touch.
#[test]
fn each_function_reads_and_writes_its_own_kinds_of_keys_in_control() {
    let keys = |role: &str| -> Vec<String> {
        let of = |permission: redial_tests::permissions::Permission| {
            format!("{}: {}", permission.actions.join(" "), permission.leading_keys.join(" "))
        };
        in_control(role).into_iter().map(of).collect()
    };
    for (role, expected) in [
        (
            "DispatchRole",
            &[
                "GetItem BatchGetItem: waits lines limits quotas tenant#* origin#* bucket#* erased#*",
                "Query: usage#*",
                "UpdateItem: waits lines origins vapid origin#* bucket#* usage#*",
            ][..],
        ),
        (
            "CleanupRole",
            &[
                "BatchGetItem Query: waits lines prune-windows removed walk callbacks erasures prune#* tenant#* erased#*",
                "PutItem DeleteItem: waits lines prune-windows removed walk erasures prune#*",
                "UpdateItem: erasures removed tenant#* erased#* erasures#*",
                "Scan: *",
                "BatchWriteItem: origins removed origin#* bucket#* prune#*",
            ],
        ),
        (
            "IngestRole",
            &[
                "GetItem: vapid quotas erasures access#* bucket#api-key#* erasures#*",
                "Query: erasures tenant#* usage#*",
                "UpdateItem: erasures removed tenant#* bucket#api-key#* erased#*",
            ],
        ),
    ] {
        assert_eq!(keys(role), expected, "{role}");
    }
}

#[test]
fn every_role_has_the_permissions_boundary_also_that_of_the_receiver() {
    const BOUND: &str = "!If [HasBoundary, !Ref PermissionsBoundary, !Ref AWS::NoValue]";
    let receiver =
        include_str!("../../../infra/verify.yaml").split_once("\nResources:\n").expect("resources").1;
    let mut roles = Block::all(&receiver.lines().collect::<Vec<_>>(), 2);
    roles.retain(|it| it.value("Type") == Some("AWS::IAM::Role"));
    assert_eq!(roles.len(), 1);
    roles.extend(resources("AWS::IAM::Role"));
    for role in roles {
        assert_eq!(role.value("PermissionsBoundary"), Some(BOUND), "{}", role.name);
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
fn many_requests_leave_the_other_functions_their_concurrency() {
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

    let stage = named(resources("AWS::ApiGatewayV2::Stage"), "IngestHttpApiStage");
    assert_eq!(stage.value("ThrottlingRateLimit"), Some("!Ref ApiStageRate"));
    assert_eq!(stage.value("ThrottlingBurstLimit"), Some("!Ref ApiStageBurst"));
    // API Gateway's own for an account and region are 10,000 a second and a burst of 5,000.
    assert!(parameter("ApiStageRate").number("Default") < 10_000);
    assert!(parameter("ApiStageBurst").number("Default") < 5_000);
}

/// Where Lambda has no function URLs (its developer guide, "Creating and managing Lambda function URLs"; for China and GovCloud, the
/// guides of those partitions).
const WITHOUT_FUNCTION_URLS: &str = "ap-east-2 ap-south-2 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7 \
    ca-west-1 cn-north-1 cn-northwest-1 eu-central-2 eu-south-2 il-central-1 me-central-1 us-gov-east-1 us-gov-west-1";

#[test]
fn a_region_without_function_urls_is_refused_with_the_way_out() {
    let rule = named(Block::all(&section("Rules"), 2), "FunctionUrlsExistHere");
    assert_eq!(rule.value("RuleCondition"), Some("!Equals [!Ref ApiKind, FunctionUrl]"));
    let items = rule.lines.iter().map(|line| line.trim_start_matches([' ', '-']));
    let listed: Vec<_> = items.filter(|item| item.ends_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(listed.join(" "), WITHOUT_FUNCTION_URLS);
    let message = rule.value("AssertDescription").expect("it says what to do");
    assert!(message.contains("no function URLs") && message.contains("ApiKind=HttpApi"), "{message}");
    let page = include_str!("../../../infra/docs/deploy.md");
    for region in listed {
        assert!(page.contains(&format!("`{region}`")), "the page does not list {region}");
    }
}

#[test]
fn the_architecture_is_the_built_one_and_no_parameter_of_a_deployment() {
    let names: Vec<_> = Block::all(&section("Parameters"), 2).into_iter().map(|it| it.name).collect();
    assert!(!names.contains(&"Architecture"), "a deployment could name another one than was built");
    assert_eq!(globals().value("Architectures"), Some("[x86_64]"));
    for function in resources("AWS::Serverless::Function") {
        assert_eq!(function.value("Architectures"), None, "{}", function.name);
    }
}

/// With the six random characters: IAM compares the whole ARN, so that no role could read a secret that is given without them.
const SECRET_ARN: &str =
    "arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}";

#[test]
fn a_secret_is_given_by_its_whole_arn() {
    let mut secrets = Block::all(&section("Parameters"), 2);
    secrets.retain(|it| it.name.ends_with("SecretId") && it.name != "VapidSecretId");
    assert_eq!(secrets.len(), 4);
    for secret in secrets {
        let expected = format!("^({SECRET_ARN})?$");
        assert_eq!(secret.value("AllowedPattern"), Some(&*expected), "{}", secret.name);
    }
}

#[test]
fn the_vapid_secret_is_taken_by_its_name_or_its_arn() {
    let pattern = parameter("VapidSecretId").value("AllowedPattern");
    assert_eq!(pattern, Some(&*format!("^({SECRET_ARN}|[A-Za-z0-9/_+=.@-]{{1,512}})?$")));
    let role = named(resources("AWS::IAM::Role"), "DispatchRole");
    let text = role.lines.join("\n");
    let end = r#"[1, !Split [":secret:", !Sub "${VapidSecretId}:secret:${VapidSecretId}"]]"#;
    // What that takes of a name, and of an ARN, is what comes after the last `:secret:`.
    for (id, expected) in
        [("shop", "shop"), ("arn:aws:secretsmanager:eu-west-1:1:secret:shop-a1B2c3", "shop-a1B2c3")]
    {
        assert_eq!(format!("{id}:secret:{id}").split(":secret:").nth(1), Some(expected));
    }
    for resource in ["${AWS::AccountId}:secret:${Name}-??????", "*:secret:${NameAndEnd}"] {
        let arn = format!("arn:${{AWS::Partition}}:secretsmanager:${{AWS::Region}}:{resource}");
        assert!(text.contains(&arn), "{arn}");
    }
    assert_eq!(text.matches(end).count(), 2);
}

#[test]
fn a_role_reads_secrets_together_and_only_those_that_it_may_read_singly() {
    let mut functions = 0;
    for role in resources("AWS::IAM::Role").iter().filter(|role| role.name != "WaitRole") {
        let lines: Vec<&str> = role.lines.iter().map(|line| line.trim()).collect();
        let resources_of = |action: &str| -> Vec<&str> {
            let after =
                lines.iter().zip(&lines[1..]).filter(|(line, _)| **line == format!("Action: {action}"));
            after.map(|(_, resource)| *resource).collect()
        };
        assert_eq!(resources_of("secretsmanager:BatchGetSecretValue"), [r#"Resource: "*""#], "{}", role.name);
        assert_eq!(resources_of("secretsmanager:GetSecretValue"), ["Resource:"], "{}: a list", role.name);
        functions += 1;
    }
    assert_eq!(functions, 3);
}

#[test]
fn every_role_may_use_the_kms_keys_that_are_given_and_no_others() {
    let mut functions = 0;
    for role in resources("AWS::IAM::Role").iter().filter(|role| role.name != "WaitRole") {
        let text = role.lines.join("\n");
        for (key, service) in [("EventsQueueKmsKeyArn", "sqs.*"), ("SecretsKmsKeyArn", "secretsmanager.*")] {
            assert!(text.contains(&format!("Resource: !Ref {key}")), "{}: {key}", role.name);
            assert!(text.contains(&format!(r#""kms:ViaService": {service} "#)), "{}: {service}", role.name);
        }
        assert_eq!(text.matches("kms:Decrypt").count(), 2, "{}", role.name);
        functions += 1;
    }
    assert_eq!(functions, 3);
    assert!(!TEMPLATE.contains("GetQueueUrl"), "events to another account's queue take no right but to send");
}

#[test]
fn the_longest_lists_leave_the_environment_within_lambda_s_four_kilobytes() {
    const MOST: u64 = 4096;
    // With which the command line restarts workers after a change of keys; the time has 24 characters.
    const MARK: u64 = "KEYS_AS_OF".len() as u64 + 24 + 6;
    let globals = globals();
    // Of a number, or of a list of values.
    let of_parameter = |name: &str| {
        let is_one = TEMPLATE.contains(&format!("\n  {name}:\n    Type: "));
        let parameter = is_one.then(|| parameter(name))?;
        let listed = parameter.value("AllowedValues").map(|list| list.trim_matches(['[', ']']).to_owned());
        let values = listed.or_else(|| parameter.value("MaxValue").map(str::to_owned))?;
        let longest = values.split(',').map(|value| value.trim().trim_matches('"').len()).max()?;
        u64::try_from(longest).ok()
    };
    let longest = |value: &str| -> u64 {
        let name = value.trim_start_matches("!Ref ");
        match name {
            "PushHosts" | "EgressAllow" | "ApiCorsOrigins" | "OtlpEndpoint" | "EventBusArn"
            | "StripPayloadFields" | "DefaultTimeZone" => parameter(name).number("MaxLength"),
            "AWS::StackName" => 40,
            "EventsQueueArn" | "VapidSubject" | "OtlpHeadersSecretId" => 128,
            _ if name.starts_with("!If ") || name.ends_with(".Arn") || name.ends_with("StateMachine") => 128,
            // https://sqs.ap-southeast-1.amazonaws.com/123456789012/ and a name of at most 80.
            _ if name.ends_with("Queue") => 134,
            // A stack's name of 40, the table's, and what CloudFormation adds.
            _ if name.ends_with("Table") => 74,
            _ => of_parameter(name).unwrap_or(12),
        }
    };
    let variables = |lines: &[&'static str]| -> BTreeMap<&'static str, &'static str> {
        let within = lines.iter().copied().skip_while(|line| line.trim() != "Variables:").skip(1);
        let deep = |line: &str| line.len() - line.trim_start().len();
        let mut within = within.peekable();
        let own = within.peek().map_or(0, |line| deep(line));
        within.take_while(|line| deep(line) == own).filter_map(|line| line.trim().split_once(": ")).collect()
    };
    let all = variables(&globals.lines);
    for function in resources("AWS::Serverless::Function") {
        let mut all = all.clone();
        all.extend(variables(&function.lines));
        // Lambda measures what it has as JSON: `{"NAME":"value",…}`.
        let bytes: u64 =
            all.iter().map(|(name, value)| name.len() as u64 + longest(value) + 6).sum::<u64>() + 1;
        let bytes = bytes + MARK;
        assert!((3000..=MOST).contains(&bytes), "{}: {bytes} bytes", function.name);
    }
}
