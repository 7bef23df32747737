//! Partitions other than `aws` (China, GovCloud, the isolated and the sovereign regions) have ARNs, domains and regions of their
//! own. A literal one in the template, or in what the command line calls, fails there at the first use, and nowhere else.

use redial_tests::files::{files_below, workspace};

use super::{TEMPLATE, resources};

/// Where AWS's names may not stand: what is deployed, and the code that runs on AWS or calls it.
const FOLDERS: [&str; 4] = ["infra", "cli/src", "shared", "functions"];

const EXEMPT: &[(&str, &str)] = &[
    ("cli/src/commands/cost.rs", "an example of a list of prices"),
    ("cli/src/cost/", "the list of prices that is built in"),
    ("infra/ci/", "runs against an emulator"),
    ("infra/docs/cost.md", "a bill is one region's"),
    ("infra/docs/deploy.md", "lists the regions without function URLs by their names"),
    ("infra/docs/transcript.md", "shows a local stack, whose region is an emulator's"),
    ("infra/docs/two-regions.md", "is about two regions"),
    ("infra/docs/plots/", "drawings: numbers that look like regions"),
    ("infra/prices/", "a list of prices is one region's"),
    ("shared/adapters/src/receiver.rs", "stands for AWS in tests"),
    ("shared/adapters/src/stub_dynamo.rs", "stands for AWS in tests"),
    ("shared/function-host/", "plays Lambda on this machine, in the region of an emulator"),
    ("shared/local-stack/", "emulators are in this partition and region, whatever is deployed to them"),
    ("shared/testkit/", "stands for AWS in tests"),
];

/// Principals of services: the same in every partition, so that they are names and not domains. SAM's own roles have them, too
/// (`samtranslator/model/iam.py`).
const PRINCIPALS: [&str; 3] = ["apigateway.amazonaws.com", "lambda.amazonaws.com", "states.amazonaws.com"];

/// A file's lines that are deployed or run. Comments, examples in a command's help and tests of Rust sources are not.
fn lines<'a>(path: &str, text: &'a str) -> Vec<&'a str> {
    if !path.ends_with(".rs") {
        return text.lines().collect();
    }
    if path.contains("/tests") || path.ends_with("_tests.rs") || path.ends_with("tests.rs") {
        return Vec::new();
    }
    let production = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let runs = |line: &&str| {
        let line = line.trim_start();
        let is_example = line.starts_with("redial ") || line.starts_with("--");
        !line.starts_with("//") && !is_example && !line.contains(", such as arn:")
    };
    production.lines().filter(runs).collect()
}

fn literals(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if line.contains("arn:aws:") {
        found.push("arn:aws:");
    }
    let principal = line.trim().strip_prefix("Principal: ").map(|it| it.trim_matches(|c| " {}".contains(c)));
    let principal = principal.map(|it| it.strip_prefix("Service: ").unwrap_or(it));
    if line.contains("amazonaws.com") && !principal.is_some_and(|it| PRINCIPALS.contains(&it)) {
        found.push("amazonaws.com");
    }
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    found.extend(words.filter(|word| is_region(word)));
    found
}

/// Whether this has the shape of a region's name: `eu-central-1`, `us-gov-west-1`, `us-isob-east-1`.
fn is_region(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let [area, .., direction, number] = parts.as_slice() else { return false };
    let compass = ["north", "south", "east", "west", "central"];
    (3..=4).contains(&parts.len())
        && (2..=4).contains(&area.len())
        && area.bytes().all(|byte| byte.is_ascii_lowercase())
        && compass.iter().any(|it| direction.starts_with(it))
        && number.len() == 1
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text without the rule that lists the regions that have no function URLs: those are meant by their names.
fn without_list_of_regions(text: &str) -> String {
    let Some((before, rule)) = text.split_once("\n  FunctionUrlsExistHere:\n") else {
        return text.to_owned();
    };
    let (_, after) = rule.split_once("AssertDescription:").expect("the rule says what to do");
    format!("{before}\n{after}")
}

#[test]
fn no_partition_domain_or_region_is_literal_in_what_is_deployed_or_runs() {
    let mut found = Vec::new();
    for path in FOLDERS.into_iter().flat_map(|folder| files_below(workspace().join(folder))) {
        let name = path.strip_prefix(workspace()).expect("below the root").to_string_lossy().into_owned();
        if EXEMPT.iter().any(|(folder, _)| name.starts_with(folder)) {
            continue;
        }
        // Fixtures that are bytes have no lines.
        let Ok(text) = String::from_utf8(std::fs::read(&path).expect("a file")) else { continue };
        let text = without_list_of_regions(&text);
        for line in lines(&name, &text) {
            found
                .extend(literals(line).iter().map(|literal| format!("{name}: {literal} in {}", line.trim())));
        }
    }
    found.sort_unstable();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_literal_arn_domain_or_region_is_found_and_a_principal_is_none() {
    for (line, expected) in [
        (r#""Resource": "arn:aws:states:::sqs:sendMessage""#, &["arn:aws:"][..]),
        ("https://sqs.us-gov-west-1.amazonaws.com/1/q", &["amazonaws.com", "us-gov-west-1"]),
        (r#".region("eu-central-1")"#, &["eu-central-1"]),
        ("AllowedPattern: ^(arn:[a-z-]+:sqs:[a-z0-9-]+:[0-9]{12})?$", &[]),
        ("  Principal: { Service: lambda.amazonaws.com }", &[]),
        ("  Principal: apigateway.amazonaws.com", &[]),
        ("  Principal: { Service: other.amazonaws.com }", &["amazonaws.com"]),
    ] {
        assert_eq!(literals(line), expected, "{line}");
    }
}

#[test]
fn the_wait_s_definition_takes_its_partition_from_the_stack() {
    let machine = &resources("AWS::Serverless::StateMachine")[0];
    let given = machine.value("DefinitionSubstitutions").unwrap_or_default();
    assert_eq!(given, "{ Partition: !Ref AWS::Partition }");
    let definition = include_str!("../../../infra/wait.asl.json");
    assert!(definition.contains("\"Resource\": \"arn:${Partition}:states:::sqs:sendMessage\""));
    assert_eq!(definition.matches("${").count(), 1, "nothing else is substituted");
    assert_eq!(TEMPLATE.matches("DefinitionUri: wait.asl.json").count(), 1);
}
