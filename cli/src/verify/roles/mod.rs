//! The roles: what each may do, against what the template lets it do; and whether something else takes that away.
//!
//! A call that a role does not allow fails on AWS alone, because emulators enforce no role, and perhaps only on the day when the
//! first message waits longer than a quarter of an hour. A permission too many loses nothing, until an attacker is in the function.
//!
//! A boundary or a policy of the organisation can deny what a role's own policies allow. IAM's simulation of each permission
//! shows that; here it is only asked what the role's own policies have.

mod permission;
mod simulated;

use std::collections::BTreeMap;

use aws_sdk_iam::{Client, types::Role};
use futures_util::future::join_all;
use serde_json::Value;

use self::permission::{Permission, Permissions};
use super::{
    release::{Part, Release},
    settings::is_same,
};
use crate::{
    aws_error::{AwsError, classified},
    doctor::{Report, Stack},
};

const GRANT: &str =
    "restore the role's policy as the template has it, or its calls are denied: aws iam put-role-policy";
const REVOKE: &str = "remove what the template does not have, unless you added it on purpose: aws iam put-role-policy, \
                      detach-role-policy";

/// A role as IAM has it.
struct Found {
    role: Role,
    permissions: Permissions,
}

pub(super) async fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let client = Client::new(&stack.target.sdk);
    let roles = release.parts_of("AWS::IAM::Role").filter_map(|part| Some((part.deployed_as?, part)));
    let read = roles.map(async |(name, part)| (found(&client, name).await, part));
    report.well("each role may do what the template lets it do, and nothing else");
    for (read, part) in join_all(read).await {
        let Some(found) = report.read(format!("the role {}", part.name), read) else { continue };
        let Some(expected) = permissions_of(&part, release) else {
            let why = "the template's policy depends on something that the stack does not have";
            report.unchecked(format!("the permissions of {}", part.name), why);
            continue;
        };
        judge(part.name, &expected, &found.permissions, report);
        judge_role(&part, release, &found.role, report);
        if stack.target.is_emulated() {
            let what = format!("whether IAM lets {} use its permissions", part.name);
            report.unchecked(what, "an emulator enforces no boundary and no policy of an organisation");
        } else {
            let held = expected
                .allowed
                .iter()
                .filter(|it| found.permissions.allowed.iter().any(|own| own.covers(it)));
            simulated::check(&client, part.name, found.role.arn(), held, report).await;
        }
    }
}

/// What the template lets a role do.
fn permissions_of(part: &Part<'_>, release: &Release) -> Option<Permissions> {
    let mut permissions = Permissions::default();
    let policies = release.property(part, "Policies")?;
    policies.as_array().into_iter().flatten().for_each(|policy| permissions.add(&policy["PolicyDocument"]));
    Some(permissions)
}

async fn found(client: &Client, name: &str) -> Result<Found, AwsError> {
    let role = classified("iam:GetRole", client.get_role().role_name(name).send().await);
    let role = role.map_err(absent)?.role.ok_or(AwsError::Absent)?;
    let mut permissions = Permissions::default();
    let inline = client.list_role_policies().role_name(name).into_paginator().items().send();
    let inline = inline.collect::<Result<Vec<String>, _>>().await;
    for policy in classified("iam:ListRolePolicies", inline)? {
        let read = client.get_role_policy().role_name(name).policy_name(policy).send().await;
        permissions.add(&document(classified("iam:GetRolePolicy", read)?.policy_document()));
    }
    let attached = client.list_attached_role_policies().role_name(name).into_paginator().items().send();
    let attached = attached.collect::<Result<Vec<_>, _>>().await;
    for policy in classified("iam:ListAttachedRolePolicies", attached)? {
        let arn = policy.policy_arn().unwrap_or_default();
        let policy = classified("iam:GetPolicy", client.get_policy().policy_arn(arn).send().await)?;
        let version = policy.policy().and_then(|it| it.default_version_id()).unwrap_or_default();
        let version = client.get_policy_version().policy_arn(arn).version_id(version).send().await;
        let version = classified("iam:GetPolicyVersion", version)?;
        permissions.add(&document(version.policy_version().and_then(|it| it.document()).unwrap_or_default()));
    }
    Ok(Found { role, permissions })
}

/// IAM's own code for what does not exist.
fn absent(error: AwsError) -> AwsError {
    match &error {
        AwsError::Failed { code: Some(code), .. } if code == "NoSuchEntity" => AwsError::Absent,
        AwsError::Failed { .. } | AwsError::Absent | AwsError::Refused { .. } => error,
    }
}

/// IAM returns policies as JSON that is encoded for a URL.
fn document(text: &str) -> Value {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn judge(role: &str, expected: &Permissions, found: &Permissions, report: &mut Report) {
    for (on, actions) in grouped(found.missing(expected)) {
        report.fault(format!("{role} may not {actions} on {on}, and the template lets it"), GRANT);
    }
    for (on, actions) in grouped(expected.missing(found)) {
        report.warning(format!("{role} may {actions} on {on}, and the template does not let it"), REVOKE);
    }
    for (on, actions) in grouped(found.denied.iter().collect()) {
        report.fault(format!("{role} is denied {actions} on {on} by a policy of its own"), REVOKE);
    }
    if found.others > expected.others {
        report.unchecked(
            format!("{} statements of {role}'s policies", found.others - expected.others),
            "they are not lists of actions and resources",
        );
    }
}

/// The actions by the resource and the condition that they are for.
fn grouped(permissions: Vec<&Permission>) -> BTreeMap<String, String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for permission in permissions {
        let condition = &permission.condition;
        let condition = if condition.is_null() { String::new() } else { format!(" if {condition}") };
        groups.entry(format!("{}{condition}", permission.on())).or_default().push(&permission.action);
    }
    groups.into_iter().map(|(on, actions)| (on, actions.join(", "))).collect()
}

/// Who may assume the role, and what bounds it.
fn judge_role(part: &Part<'_>, release: &Release, found: &Role, report: &mut Report) {
    let trust = document(found.assume_role_policy_document().unwrap_or_default());
    let expected = release.property(part, "AssumeRolePolicyDocument");
    if expected.is_some_and(|expected| !is_same(&expected["Statement"], &trust["Statement"])) {
        report.fault(
            format!(
                "the trust policy of {} is not the template's: its service may not assume it, or others may",
                part.name
            ),
            "aws iam update-assume-role-policy, with the template's AssumeRolePolicyDocument",
        );
    }
    let boundary = found.permissions_boundary().and_then(|it| it.permissions_boundary_arn());
    let expected = release.property(part, "PermissionsBoundary");
    if expected.is_some_and(|expected| expected.as_str() != boundary) {
        report.warning(
            format!(
                "the boundary of {} is {}, which the template does not give it",
                part.name,
                boundary.unwrap_or("not set")
            ),
            "deploy with PermissionsBoundary, so that it is kept when the role is made again",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{permission::tests::allowing, *};
    use crate::doctor::finds;

    #[test]
    fn a_permission_too_few_is_a_fault_and_one_too_many_a_warning() {
        let queue = "arn:aws:sqs:r:1:q";
        let expected = allowing(&["sqs:SendMessage", "sqs:ReceiveMessage"], queue);
        let mut denied = expected.clone();
        denied.add(&json!({"Statement": {"Effect": "Deny", "Action": "sqs:SendMessage", "Resource": "*"}}));
        for (found, finding) in [
            (expected.clone(), ""),
            (allowing(&["sqs:SendMessage"], queue), "fault: R may not sqs:ReceiveMessage on q"),
            (Permissions::default(), "fault: R may not sqs:SendMessage, sqs:ReceiveMessage on q"),
            (
                allowing(&["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:PurgeQueue"], queue),
                "warning: R may sqs:PurgeQueue on q",
            ),
            (denied, "fault: R is denied sqs:SendMessage on *"),
        ] {
            finds(finding, |report| judge("R", &expected, &found, report));
        }
    }

    #[test]
    fn a_policy_is_read_as_iam_returns_it() {
        for text in ["%7B%22a%22%3A%5B%22%2A%22%5D%7D", r#"{"a":["*"]}"#] {
            assert_eq!(document(text), json!({"a": ["*"]}), "{text}");
        }
        assert_eq!(document("%"), Value::Null);
    }
}
