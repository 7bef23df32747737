//! What IAM itself says of permissions that a role's policies have: boundaries and the organisation's policies take part.

use aws_sdk_iam::{
    Client,
    types::{ContextEntry, ContextKeyTypeEnum, EvaluationResult, PolicyEvaluationDecisionType},
};
use serde_json::Value;

use super::permission::Permission;
use crate::{aws_error::classified, doctor::Report};

/// Stands for what a pattern leaves open.
const ANY: &str = "x";

pub(super) async fn check<'a>(
    client: &Client,
    role: &str,
    arn: &str,
    held: impl Iterator<Item = &'a Permission>,
    report: &mut Report,
) {
    let mut together: Vec<(&Permission, Vec<&str>)> = Vec::new();
    for permission in held {
        let same = |(it, _): &&mut (&Permission, Vec<&str>)| {
            it.resource == permission.resource && it.condition == permission.condition
        };
        match together.iter_mut().find(same) {
            Some((_, actions)) => actions.push(&permission.action),
            None => together.push((permission, vec![&permission.action])),
        }
    }
    for (permission, actions) in together {
        let call = client.simulate_principal_policy().policy_source_arn(arn);
        let call = actions.iter().fold(call, |call, action| call.action_names(*action));
        let call = call.resource_arns(concrete(&permission.resource));
        let call =
            context(&permission.condition).into_iter().fold(call, |call, entry| call.context_entries(entry));
        let results = classified("iam:SimulatePrincipalPolicy", call.send().await);
        let what = format!("whether IAM lets {role} use its permissions");
        let Some(results) = report.read(what, results) else { return };
        judge(role, permission.on(), results.evaluation_results(), report);
    }
}

fn judge(role: &str, on: &str, results: &[EvaluationResult], report: &mut Report) {
    let denied = results.iter().filter(|it| *it.eval_decision() != PolicyEvaluationDecisionType::Allowed);
    let denied: Vec<&str> = denied.map(|it| it.eval_action_name()).collect();
    if !denied.is_empty() {
        report.fault(
            format!("{role} has the permission {} on {on}, and IAM denies it", denied.join(", ")),
            "look for a permissions boundary of the role, or a policy of your organisation, that does not allow it",
        );
    }
}

/// A resource that the pattern matches.
fn concrete(pattern: &str) -> String {
    if pattern == "*" { pattern.to_owned() } else { pattern.replace(['*', '?'], ANY) }
}

/// What a condition asks about, with values for which it holds: the first of its list.
fn context(condition: &Value) -> Vec<ContextEntry> {
    let operators = condition.as_object().into_iter().flatten();
    let keys = operators.flat_map(|(_, keys)| keys.as_object().into_iter().flatten());
    let entry = |(key, values): (&String, &Value)| {
        let first = values.as_array().map_or(Some(values), |values| values.first())?.as_str()?;
        let entry = ContextEntry::builder().context_key_name(key).context_key_values(concrete(first));
        Some(entry.context_key_type(ContextKeyTypeEnum::StringList).build())
    };
    keys.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finds;

    #[test]
    fn a_permission_that_iam_denies_is_a_fault() {
        let result = |action: &str, decision| {
            EvaluationResult::builder()
                .eval_action_name(action)
                .eval_decision(decision)
                .build()
                .expect("complete")
        };
        use PolicyEvaluationDecisionType::{Allowed, ExplicitDeny, ImplicitDeny};
        for (decisions, expected) in [
            ([Allowed, Allowed], ""),
            ([Allowed, ImplicitDeny], "fault: R has the permission b on q, and IAM denies it"),
            ([ExplicitDeny, ExplicitDeny], "fault: R has the permission a, b on q"),
        ] {
            let [a, b] = decisions;
            finds(expected, |report| judge("R", "q", &[result("a", a), result("b", b)], report));
        }
    }

    #[test]
    fn conditions_and_patterns_become_values_that_fit_them() {
        let condition = json!({
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["tenant#*", "waits"]},
            "StringLike": {"kms:ViaService": "sqs.*"},
        });
        let entries = context(&condition);
        let shown = |it: &ContextEntry| {
            format!("{}={}", it.context_key_name().unwrap_or(""), it.context_key_values()[0])
        };
        let shown: Vec<String> = entries.iter().map(shown).collect();
        assert_eq!(shown, ["dynamodb:LeadingKeys=tenant#x", "kms:ViaService=sqs.x"]);
        assert_eq!((concrete("*"), concrete("arn:a:b*")), ("*".to_owned(), "arn:a:bx".to_owned()));
    }
}
