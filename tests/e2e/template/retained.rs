//! What outlives the stack, and how a new stack takes it over.

use super::{Block, TEMPLATE, resources};

/// The tables alone, for their import into a new stack.
const RETAINED: &str = include_str!("../../../infra/retained.yaml");
const PAGE: &str = include_str!("../../../infra/docs/bring-back.md");

/// What cannot be made again: consents, waits of up to 360 days, dead letters, API keys and policies.
const TABLES: [&str; 5] =
    ["SubscriptionsTable", "AudiencesTable", "ParkedTable", "DeadLettersTable", "ControlTable"];

fn names(blocks: &[Block<'static>]) -> Vec<&'static str> {
    blocks.iter().map(|block| block.name).collect()
}

fn kept(of_type: &str) -> Vec<Block<'static>> {
    let mut blocks = resources(of_type);
    blocks.retain(|it| it.value("DeletionPolicy").is_some_and(|policy| policy != "Delete"));
    blocks
}

#[test]
fn what_cannot_be_made_again_outlives_the_stack_but_not_a_failed_creation() {
    let (tables, secrets) = (kept("AWS::DynamoDB::Table"), kept("AWS::SecretsManager::Secret"));
    assert_eq!(names(&tables), TABLES);
    // Also where a parameter names one of them, which CloudFormation takes out of the stack then.
    assert_eq!(names(&secrets), names(&resources("AWS::SecretsManager::Secret")));
    for block in tables.iter().chain(&secrets) {
        assert_eq!(block.value("DeletionPolicy"), Some("RetainExceptOnCreate"), "{}", block.name);
        // There is no such value for replacements.
        assert_eq!(block.value("UpdateReplacePolicy"), Some("Retain"), "{}", block.name);
    }
    for table in &tables {
        let recovery = table.value("PointInTimeRecoverySpecification");
        assert_eq!(recovery, Some("{ PointInTimeRecoveryEnabled: true }"), "{}", table.name);
    }
}

#[test]
fn the_tables_to_import_are_those_that_are_kept_with_the_same_properties() {
    let (_, imported) = RETAINED.split_once("\nResources:\n").expect("resources");
    let imported = Block::all(&imported.lines().collect::<Vec<_>>(), 2);
    let kept = kept("AWS::DynamoDB::Table");
    assert_eq!(imported.iter().map(|block| block.name).collect::<Vec<_>>(), names(&kept));
    for (imported, kept) in imported.iter().zip(&kept) {
        let expected: Vec<String> =
            kept.lines.iter().map(|line| line.replace("RetainExceptOnCreate", "Retain")).collect();
        assert_eq!(imported.lines, expected, "{}", kept.name);
    }
    assert!(!RETAINED.contains("Transform"), "an import takes no template with a transform");
}

#[test]
fn the_page_on_bringing_a_stack_back_names_every_table_and_secret_kept() {
    for table in TABLES {
        assert!(PAGE.contains(table), "{table}");
    }
    for secret in resources("AWS::SecretsManager::Secret") {
        let parameter = format!("{}Id=ARN", secret.name);
        assert!(PAGE.contains(&parameter), "{parameter}");
    }
    assert!(PAGE.contains("retained.yaml"));
}

/// CloudFormation publishes a new value of a secret when, and only when, the property that it comes from changes. So a release
/// that changes one of these lines would write over what was rotated.
#[test]
fn the_properties_that_secrets_get_their_values_from_never_change() {
    let generated = |first_id: &str| {
        format!(
            "GenerateSecretString: SecretStringTemplate: '{{\"id\":\"{first_id}\"}}' GenerateStringKey: key \
             PasswordLength: 64 ExcludePunctuation: true"
        )
    };
    for secret in resources("AWS::SecretsManager::Secret") {
        let lines = secret.lines.iter().map(|line| line.trim_start());
        let is_first =
            |line: &&str| ["SecretString:", "GenerateSecretString:"].iter().any(|it| line.starts_with(it));
        let from = lines.skip_while(|line| !is_first(line)).take_while(|line| !line.starts_with("KmsKeyId"));
        let expected = match secret.name {
            "VapidSecret" => "SecretString: !Ref VapidPrivateKey".to_owned(),
            "TokenKeySecret" => generated("t1"),
            _ => generated("k1"),
        };
        assert_eq!(from.collect::<Vec<_>>().join(" "), expected, "{}", secret.name);
    }
    // A key that is given beside a secret's name would make a second secret: it is refused before anything changes.
    assert!(TEMPLATE.contains("AssertDescription: Give either VapidPrivateKey or VapidSecretId.\n"));
}
