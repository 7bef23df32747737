//! Queues, tables, secrets, functions and parameters: what depends on more than one line of the template, or on the code.

use redial_engine::protection::Settings;

use super::{Block, TEMPLATE, globals, parameter, resources, section};

#[test]
fn the_breaker_s_parameters_are_what_the_function_reads() {
    let globals = globals();
    assert_eq!(globals.value("BREAKER"), Some("!Ref Breaker"));
    assert_eq!(globals.value("BREAKER_COOLDOWN_SECONDS"), Some("!Ref BreakerCooldownSeconds"));
    let (settings, breaker) = (Settings::default(), parameter("Breaker"));
    // Unquoted, both words are booleans in YAML.
    assert_eq!(breaker.value("AllowedValues"), Some("[\"on\", \"off\"]"));
    assert_eq!(breaker.value("Default"), Some(if settings.judges { "\"on\"" } else { "\"off\"" }));
    let cooldown = parameter("BreakerCooldownSeconds");
    assert_eq!(cooldown.number("Default"), settings.cooldowns.first.as_secs());
    let longest = settings.cooldowns.longest.as_secs();
    assert_eq!((cooldown.number("MinValue"), cooldown.number("MaxValue")), (1, longest));
}

/// The page promises all of them, each with what it is unless it is set.
#[test]
fn the_page_on_configuration_has_every_parameter_and_its_default() {
    let page = include_str!("../../../infra/docs/configure.md");
    let rows = || page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    for parameter in Block::all(&section("Parameters"), 2) {
        let row = rows().find(|(names, _)| names.split("`, `").any(|name| name == parameter.name));
        let (_, row) = row.unwrap_or_else(|| panic!("there is no row of {}", parameter.name));
        let default = parameter.value("Default").unwrap_or_default().trim_matches('"');
        // A word, a list or an address is said in words.
        if default.parse::<u64>().is_ok() || ["on", "off"].contains(&default) {
            let stands = row.split('|').next().unwrap_or_default();
            assert!(
                stands.split(',').any(|it| it.trim() == default),
                "{}: {default}: {stands}",
                parameter.name
            );
        }
    }
}

/// The wrappers of other languages look for a pattern anywhere in a value. A ` #` in a text that is not quoted begins a comment.
#[test]
fn every_pattern_is_of_the_whole_value_and_every_text_is_whole() {
    for parameter in Block::all(&section("Parameters"), 2) {
        let pattern = parameter.value("AllowedPattern").unwrap_or("^$");
        assert!(pattern.starts_with('^') && pattern.ends_with('$'), "{}: {pattern}", parameter.name);
        for line in parameter.lines {
            assert!(!line.contains(" #") || line.contains(": \""), "{}: {line}", parameter.name);
        }
    }
}

#[test]
fn every_queue_and_table_is_encrypted_and_every_secret_can_be_given() {
    for queue in resources("AWS::SQS::Queue") {
        assert_eq!(queue.value("SqsManagedSseEnabled"), Some("true"), "{}", queue.name);
    }
    // Without a specification, a table is encrypted with DynamoDB's own key, which costs no calls of KMS.
    for table in resources("AWS::DynamoDB::Table") {
        assert_eq!(table.value("SSESpecification"), None, "{}", table.name);
    }
    for secret in resources("AWS::SecretsManager::Secret") {
        let chosen = format!("!Ref {}, !Ref {}Id]", secret.name, secret.name);
        assert!(TEMPLATE.contains(&chosen), "{chosen}");
    }
}

#[test]
fn every_source_queue_redrives_to_quarantine_after_twenty_and_expires_before_it() {
    let (ends, sources): (Vec<_>, Vec<_>) =
        resources("AWS::SQS::Queue").into_iter().partition(|it| it.value("RedrivePolicy").is_none());
    let names = |queues: &[Block<'static>]| queues.iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(&sources), ["IngestQueue", "BulkQueue", "RetryQueue", "RetryBulkQueue"]);
    assert_eq!(names(&ends), ["DeadLetterQueue", "QuarantineQueue", "EventsRelayQueue"]);
    for source in &sources {
        let redrive = source.value("RedrivePolicy").unwrap_or_default();
        assert!(redrive.contains("!GetAtt QuarantineQueue.Arn"), "{}: {redrive}", source.name);
        assert!(redrive.contains("maxReceiveCount: 20 "), "{}: {redrive}", source.name);
        for end in &ends {
            // A redriven message keeps the age that it has.
            assert!(source.number("MessageRetentionPeriod") < end.number("MessageRetentionPeriod"));
        }
    }
}

/// CloudFormation deletes what a changed parameter takes out of the stack, also when it takes a failed update back.
#[test]
fn no_change_of_a_parameter_deletes_a_queue_with_its_messages() {
    for queue in resources("AWS::SQS::Queue") {
        assert_eq!(queue.value("Condition"), None, "{}", queue.name);
    }
    // Then `doctor`, `status` and local stacks have none.
    let outputs = Block::all(&section("Outputs"), 2);
    for relayed in ["EventsRelayQueueUrl", "EventsRelayMapping"] {
        let mappings = resources("AWS::Lambda::EventSourceMapping");
        let relayed = outputs.iter().chain(&mappings).find(|it| it.name == relayed).expect("it is there");
        assert_eq!(relayed.value("Condition"), Some("RelaysEvents"), "{}", relayed.name);
    }
}

#[test]
fn a_claim_outlives_the_function_and_visibility_is_six_time_outs() {
    let (timeout, margin, visibility) =
        (parameter("FunctionTimeout"), parameter("LeaseMarginSeconds"), parameter("VisibilityTimeout"));
    for bound in ["Default", "MinValue", "MaxValue"] {
        assert_eq!(visibility.number(bound), 6 * timeout.number(bound), "{bound}");
    }
    let lease = timeout.number("Default") + margin.number("Default");
    assert!(timeout.number("Default") < lease && lease < visibility.number("Default"));

    let globals = globals();
    assert_eq!(globals.value("Timeout"), Some("!Ref FunctionTimeout"));
    assert_eq!(globals.value("LEASE_MARGIN_SECONDS"), Some("!Ref LeaseMarginSeconds"));
    for queue in resources("AWS::SQS::Queue") {
        assert_eq!(queue.value("VisibilityTimeout"), Some("!Ref VisibilityTimeout"), "{}", queue.name);
    }
    for function in resources("AWS::Serverless::Function") {
        assert_eq!(function.value("Timeout"), None, "{} would leave the relation", function.name);
    }
}

#[test]
fn every_mapping_reports_failures_and_bounds_its_batches_and_concurrency() {
    let mut queues = Vec::new();
    for mapping in resources("AWS::Lambda::EventSourceMapping") {
        assert_eq!(mapping.value("BatchSize"), Some("10"), "{}", mapping.name);
        assert_eq!(mapping.value("MaximumBatchingWindowInSeconds"), None, "{}", mapping.name);
        assert_eq!(mapping.value("FunctionResponseTypes"), Some("[ReportBatchItemFailures]"));
        assert!(mapping.value("ScalingConfig").is_some_and(|it| it.contains("MaximumConcurrency")));
        queues.push(mapping.lines.iter().find_map(|line| line.trim().strip_prefix("EventSourceArn: ")));
    }
    let mut queues: Vec<&str> = queues.into_iter().flatten().collect();
    for function in resources("AWS::Serverless::Function") {
        for event in Block::all(&function.lines, 8).iter().filter(|it| it.value("Type") == Some("SQS")) {
            let name = format!("{} of {}", event.name, function.name);
            let bulk = event.name.contains("Bulk");
            let size = if bulk { "!Ref BulkBatchSize" } else { "10" };
            let window = bulk.then_some("!Ref BulkBatchWindowSeconds");
            assert_eq!(event.value("BatchSize"), Some(size), "{name}");
            assert_eq!(event.value("MaximumBatchingWindowInSeconds"), window, "{name}");
            assert_eq!(event.value("FunctionResponseTypes"), Some("[ReportBatchItemFailures]"), "{name}");
            let scaling = event.value("ScalingConfig").unwrap_or_default();
            assert!(scaling.contains("MaximumConcurrency"), "{name}");
            let queue = event.lines.iter().find_map(|line| line.trim().strip_prefix("Queue: "));
            queues.push(queue.unwrap_or_default());
        }
    }
    let bounds = ["Default", "MinValue", "MaxValue"];
    assert_eq!(bounds.map(|bound| parameter("BulkBatchSize").number(bound)), [10, 1, 100]);
    // With any other, Lambda may wait for up to 20 seconds where little comes.
    assert_eq!(parameter("BulkBatchWindowSeconds").number("Default"), 0);
    queues.sort_unstable();
    let mut all: Vec<_> =
        resources("AWS::SQS::Queue").iter().map(|queue| format!("!GetAtt {}.Arn", queue.name)).collect();
    all.sort_unstable();
    assert_eq!(queues, all, "each queue is read, by one mapping");
}
