//! What the template promises beyond its own syntax, which `sam validate --lint` checks.
//!
//! CloudWatch takes an alarm on a metric that nobody writes, and it stays silent for ever: so each name in the template
//! is held against the list that the code writes from. The same goes for relations between numbers that CloudFormation
//! cannot compute. The template is read line by line: what it looks like is ours to say, and a YAML reader would have to
//! be taught CloudFormation's tags first.

use redial_core::metric::Metric;
use redial_core::protection::Settings;
use redial_core::provider::Provider;

const TEMPLATE: &str = include_str!("../../infra/template.yaml");

/// A named block of a section: a resource, a parameter, an event.
struct Block<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> Block<'a> {
    /// The blocks whose names stand `indent` spaces deep in these lines.
    fn all(lines: &[&'a str], indent: usize) -> Vec<Self> {
        let mut blocks: Vec<Self> = Vec::new();
        for line in lines {
            let text = line.trim_start();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match (line.len() - text.len() == indent, text.strip_suffix(':')) {
                (true, Some(name)) => blocks.push(Self { name, lines: Vec::new() }),
                (true, None) | (false, _) => {
                    if let Some(block) = blocks.last_mut() {
                        block.lines.push(line);
                    }
                }
            }
        }
        blocks
    }

    /// What stands behind `key:`, on whatever level it comes first.
    fn value(&self, key: &str) -> Option<&'a str> {
        self.lines.iter().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "))
    }

    fn number(&self, key: &str) -> u64 {
        let value = self.value(key).unwrap_or_else(|| panic!("{} has no {key}", self.name));
        value.parse().unwrap_or_else(|_| panic!("{key} of {} is not a number", self.name))
    }
}

/// A section's lines.
fn section(name: &str) -> Vec<&'static str> {
    let within = TEMPLATE.lines().skip_while(|line| line.strip_suffix(':') != Some(name)).skip(1);
    let lines: Vec<_> = within.take_while(|line| line.is_empty() || line.starts_with([' ', '#'])).collect();
    assert!(!lines.is_empty(), "there is no section {name}");
    lines
}

fn resources(of_type: &str) -> Vec<Block<'static>> {
    let mut blocks = Block::all(&section("Resources"), 2);
    blocks.retain(|block| block.value("Type") == Some(of_type));
    assert!(!blocks.is_empty(), "there is no {of_type}");
    blocks
}

fn parameter(name: &str) -> Block<'static> {
    let mut blocks = Block::all(&section("Parameters"), 2);
    let at = blocks.iter().position(|block| block.name == name);
    blocks.swap_remove(at.unwrap_or_else(|| panic!("there is no parameter {name}")))
}

/// Where in `text` a metric of ours is named, and how: in an alarm, in a widget, in a widget's search.
fn metrics(text: &str) -> Vec<(usize, &str)> {
    let ways = [
        ("Namespace: Redial", "MetricName: ", [',', '\n']),
        ("[\"Redial\",\"", "", ['"', '\n']),
        ("{Redial,", "MetricName=\\\"", ['\\', '\n']),
    ];
    let mut found = Vec::new();
    for (namespace, before_name, ends) in ways {
        for (at, _) in text.match_indices(namespace) {
            let rest = &text[at + namespace.len()..];
            let skipped =
                rest.find(before_name).expect("a namespace is followed by a name") + before_name.len();
            let name = rest[skipped..].split(ends).next().unwrap_or_default();
            found.push((at + namespace.len() + skipped, name));
        }
    }
    found
}

fn unknown_metrics(text: &str) -> Vec<&str> {
    let known = Metric::ALL.map(Metric::label);
    metrics(text).into_iter().map(|(_, name)| name).filter(|name| !known.contains(name)).collect()
}

#[test]
fn every_metric_of_ours_in_the_template_is_one_that_the_functions_write() {
    assert_eq!(unknown_metrics(TEMPLATE), [] as [&str; 0]);
}

#[test]
fn a_renamed_metric_is_noticed_wherever_it_stands() {
    let places = metrics(TEMPLATE);
    // Every mention of the namespace was understood: what is left of the word are the stack's name and prose.
    let mentions = TEMPLATE.matches("Namespace: Redial").count()
        + TEMPLATE.matches("\"Redial\"").count()
        + TEMPLATE.matches("{Redial,").count();
    assert_eq!(places.len(), mentions);
    for (at, name) in places {
        let renamed = format!("{}Renamed{}", &TEMPLATE[..at], &TEMPLATE[at..]);
        assert_eq!(unknown_metrics(&renamed), [format!("Renamed{name}")], "at byte {at}");
    }
}

#[test]
fn what_the_alarms_are_promised_to_watch_is_watched() {
    let watched: String =
        resources("AWS::CloudWatch::Alarm").iter().flat_map(|it| it.lines.clone()).collect();
    for metric in [
        Metric::Retried,
        Metric::SentOnRetry,
        Metric::PermanentFailures,
        Metric::ServiceUnavailable,
        Metric::RetryOverhead,
        Metric::Quarantined,
        Metric::EndpointsDisabled,
        Metric::PoliciesIgnored,
        Metric::BreakersOpened,
    ] {
        assert!(watched.contains(&format!("MetricName: {}", metric.label())), "{metric:?}");
    }
    for metric in ["ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "ExecutionsFailed"]
    {
        assert!(watched.contains(&format!("MetricName: {metric}")), "{metric}");
    }
}

#[test]
fn every_alarm_says_what_it_means_keeps_still_without_data_and_reaches_the_topic() {
    for alarm in resources("AWS::CloudWatch::Alarm") {
        let description = alarm.value("AlarmDescription").unwrap_or_default();
        assert!(description.len() > 20, "{}: {description:?}", alarm.name);
        assert_eq!(alarm.value("TreatMissingData"), Some("notBreaching"), "{}", alarm.name);
        let actions = alarm.value("AlarmActions").unwrap_or_default();
        assert!(actions.contains("!Ref AlarmTopicArn"), "{}", alarm.name);
    }
}

#[test]
fn every_class_of_origins_has_an_alarm_of_its_own() {
    let provider = |alarm: &Block<'_>| {
        let dimensions = alarm.value("Dimensions")?.split_once("Name: Provider, Value: ")?;
        assert_eq!(dimensions.0, "[{ Name: Stack, Value: !Ref AWS::StackName }, { ", "{}", alarm.name);
        Some(dimensions.1.strip_suffix(" }]")?.to_owned())
    };
    let mut alarms = resources("AWS::CloudWatch::Alarm");
    alarms.retain(|alarm| alarm.value("MetricName") == Some(Metric::BreakersOpened.label()));
    let watched: Vec<_> = alarms.iter().filter_map(provider).collect();
    let classes = [Provider::Fcm, Provider::Mozilla, Provider::Apple, Provider::Wns, Provider::Other];
    assert_eq!(watched, classes.map(Provider::label));
    assert_eq!(alarms.len(), classes.len());
}

#[test]
fn the_breaker_s_parameters_are_what_the_function_reads() {
    let globals = Block { name: "Globals", lines: section("Globals") };
    assert_eq!(globals.value("BREAKER"), Some("!Ref Breaker"));
    assert_eq!(globals.value("BREAKER_COOLDOWN_SECONDS"), Some("!Ref BreakerCooldownSeconds"));
    let (settings, breaker) = (Settings::default(), parameter("Breaker"));
    // Unquoted, both words are booleans in YAML.
    assert_eq!(breaker.value("AllowedValues"), Some("[\"on\", \"off\"]"));
    assert_eq!(breaker.value("Default"), Some(if settings.judges { "\"on\"" } else { "\"off\"" }));
    let cooldown = parameter("BreakerCooldownSeconds");
    assert_eq!(cooldown.number("Default"), settings.cooldowns.first.as_secs());
    assert_eq!(
        (cooldown.number("MinValue"), cooldown.number("MaxValue")),
        (1, settings.cooldowns.longest.as_secs())
    );
}

#[test]
fn every_queue_and_table_is_encrypted() {
    for queue in resources("AWS::SQS::Queue") {
        assert_eq!(queue.value("SqsManagedSseEnabled"), Some("true"), "{}", queue.name);
    }
    for table in resources("AWS::DynamoDB::Table") {
        assert_eq!(table.value("SSESpecification"), Some("{ SSEEnabled: true }"), "{}", table.name);
    }
}

#[test]
fn what_subscriptions_cannot_do_without_outlives_the_stack() {
    let kept = |of_type: &str| -> Vec<&str> {
        let blocks = resources(of_type).into_iter();
        blocks.filter(|it| it.value("DeletionPolicy") == Some("Retain")).map(|it| it.name).collect()
    };
    assert_eq!(kept("AWS::DynamoDB::Table"), ["SubscriptionsTable", "DeadLettersTable"]);
    // What the table's webhooks are sealed with, and what its browsers have subscribed to.
    assert_eq!(kept("AWS::SecretsManager::Secret"), ["VapidSecret", "WebhookKeySecret"]);
}

#[test]
fn every_secret_that_is_made_can_be_given_instead_and_every_function_may_read_the_webhook_key() {
    for secret in resources("AWS::SecretsManager::Secret") {
        let chosen = format!("!Ref {}, !Ref {}Id]", secret.name, secret.name);
        assert!(TEMPLATE.contains(&chosen), "{chosen}");
    }
    for role in ["DispatchRole", "CleanupRole"] {
        let roles = resources("AWS::IAM::Role");
        let role = roles.iter().find(|it| it.name == role).expect("it is there");
        assert!(role.lines.iter().any(|line| line.contains("!Ref WebhookKeySecret,")), "{}", role.name);
    }
}

#[test]
fn every_source_queue_redrives_to_quarantine_after_twenty_and_expires_before_it() {
    let (ends, sources): (Vec<_>, Vec<_>) =
        resources("AWS::SQS::Queue").into_iter().partition(|it| it.value("RedrivePolicy").is_none());
    let names = |queues: &[Block<'static>]| queues.iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(&sources), ["IngestQueue", "BulkQueue", "RetryQueue", "RetryBulkQueue"]);
    assert_eq!(names(&ends), ["DeadLetterQueue", "QuarantineQueue"]);
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

#[test]
fn a_claim_outlives_the_function_and_a_message_stays_hidden_for_six_time_outs() {
    let (timeout, margin, visibility) =
        (parameter("FunctionTimeout"), parameter("LeaseMarginSeconds"), parameter("VisibilityTimeout"));
    for bound in ["Default", "MinValue", "MaxValue"] {
        assert_eq!(visibility.number(bound), 6 * timeout.number(bound), "{bound}");
    }
    let lease = timeout.number("Default") + margin.number("Default");
    assert!(timeout.number("Default") < lease && lease < visibility.number("Default"));

    let globals = Block { name: "Globals", lines: section("Globals") };
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
fn every_mapping_reports_each_failure_and_is_bounded_and_only_the_bulk_lane_s_batches_may_be_larger_than_ten()
{
    let mut queues = Vec::new();
    for function in resources("AWS::Serverless::Function") {
        for event in Block::all(&function.lines, 8).iter().filter(|it| it.value("Type") == Some("SQS")) {
            let told = format!("{} of {}", event.name, function.name);
            let bulk = event.name.contains("Bulk");
            let size = if bulk { "!Ref BulkBatchSize" } else { "10" };
            let window = bulk.then_some("!Ref BulkBatchWindowSeconds");
            assert_eq!(event.value("BatchSize"), Some(size), "{told}");
            assert_eq!(event.value("MaximumBatchingWindowInSeconds"), window, "{told}");
            assert_eq!(event.value("FunctionResponseTypes"), Some("[ReportBatchItemFailures]"), "{told}");
            assert!(
                event.value("ScalingConfig").unwrap_or_default().contains("MaximumConcurrency"),
                "{told}"
            );
            queues.push(event.value("Queue").unwrap_or_default());
        }
    }
    let bounds = ["Default", "MinValue", "MaxValue"];
    assert_eq!(bounds.map(|bound| parameter("BulkBatchSize").number(bound)), [10, 1, 100]);
    // Lambda's own rule for batches of more than ten.
    assert!(parameter("BulkBatchWindowSeconds").number("Default") >= 1);
    queues.sort_unstable();
    let mut all: Vec<_> =
        resources("AWS::SQS::Queue").iter().map(|queue| format!("!GetAtt {}.Arn", queue.name)).collect();
    all.sort_unstable();
    assert_eq!(queues, all, "each queue is read, by one mapping");
}
