//! What each function's role may do in the table that all of them share, as the template says it.
//!
//! The emulator enforces no role, so a call that a role denies fails on AWS alone. Tests hold what the functions do against this.

use serde_json::Value;

const TEMPLATE: &str = include_str!("../../infra/template.yaml");

/// A statement of a role's policy about the `control` table.
#[derive(PartialEq, Eq, Debug)]
pub struct Permission {
    /// `GetItem`, without its service.
    pub actions: Vec<&'static str>,
    /// What partition keys have to be; `*` stands for any text.
    pub leading_keys: Vec<&'static str>,
}

impl Permission {
    fn allows(&self, action: &str, pk: &str) -> bool {
        self.actions.contains(&action) && self.leading_keys.iter().any(|pattern| is_like(pk, pattern))
    }
}

/// The permissions of a role, such as `DispatchRole`, in `control`.
pub fn in_control(role: &str) -> Vec<Permission> {
    let head = format!("  {role}:");
    let of_role = TEMPLATE.lines().skip_while(|line| *line != head).skip(1);
    let of_role: Vec<&str> = of_role.take_while(|line| line.is_empty() || line.starts_with("   ")).collect();
    let statements = of_role.split(|line| line.trim_start().starts_with("- Sid: "));
    let on_control =
        |lines: &&[&str]| lines.iter().any(|line| line.trim() == "Resource: !GetAtt ControlTable.Arn");
    let permissions: Vec<Permission> = statements.filter(on_control).map(permission).collect();
    assert!(!permissions.is_empty(), "{role} may do nothing in the control table");
    permissions
}

/// Without a condition, it applies to every key.
fn permission(lines: &[&'static str]) -> Permission {
    let list = |name: &str| {
        let value = lines.iter().find_map(|line| line.trim_start().strip_prefix(name))?;
        let items = value.trim().strip_prefix('[')?.strip_suffix(']')?.split(',');
        Some(items.map(|item| item.trim().trim_matches('"')).collect::<Vec<_>>())
    };
    let actions = list("Action:").expect("a list of actions in one line");
    let actions =
        actions.iter().map(|it| it.strip_prefix("dynamodb:").expect("an action of DynamoDB")).collect();
    let is_conditional = lines.iter().any(|line| line.trim() == "ForAllValues:StringLike:");
    let keys = list("dynamodb:LeadingKeys:").filter(|_| is_conditional);
    Permission { actions, leading_keys: keys.unwrap_or_else(|| vec!["*"]) }
}

/// Whether a text is like one of IAM's patterns whose one `*`, if any, is at the end.
fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == pattern,
    }
}

/// The items of `table` that a call of DynamoDB's reads or writes: each with the action that it takes, and its partition key.
pub fn touched(operation: &str, body: &Value, table: &str) -> Vec<(String, String)> {
    let pk = |item: &Value| item["pk"]["S"].as_str().expect("a partition key").to_owned();
    let one = |action: &str, request: &Value| {
        if request["TableName"] != table {
            return None;
        }
        let key = match action {
            "PutItem" => pk(&request["Item"]),
            "Query" => {
                request["ExpressionAttributeValues"][":pk"]["S"].as_str().expect("a partition").to_owned()
            }
            _ => pk(&request["Key"]),
        };
        Some((action.to_owned(), key))
    };
    match operation {
        "BatchGetItem" => {
            let keys = body["RequestItems"][table]["Keys"].as_array();
            keys.into_iter().flatten().map(|key| (operation.to_owned(), pk(key))).collect()
        }
        "TransactWriteItems" => {
            let writes = body["TransactItems"].as_array().expect("writes");
            let parts = writes.iter().filter_map(Value::as_object).flatten();
            parts.filter_map(|(kind, request)| one(&format!("{kind}Item"), request)).collect()
        }
        "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem" | "Query" => {
            one(operation, body).into_iter().collect()
        }
        // Statements name their table in their text.
        _ => {
            assert!(!body.to_string().contains(table), "{operation} on the control table");
            Vec::new()
        }
    }
}

/// Whether a role may do this in `control`.
pub fn allows(role: &str, action: &str, pk: &str) -> bool {
    in_control(role).iter().any(|permission| permission.allows(action, pk))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_statement_is_read_with_its_condition() {
        let lines = [
            "                Effect: Allow",
            "                Action: [dynamodb:GetItem, dynamodb:Query]",
            "                Resource: !GetAtt ControlTable.Arn",
        ];
        let conditional = ["ForAllValues:StringLike:", r##"  dynamodb:LeadingKeys: [waits, "prune#*"]"##];
        let unconditional = permission(&lines);
        assert!(unconditional.allows("Query", "access#1") && !unconditional.allows("PutItem", "waits"));
        let read = permission(&[&lines[..], &conditional].concat());
        assert_eq!(read.leading_keys, ["waits", "prune#*"]);
        for (pk, expected) in [
            ("waits", true),
            ("waits2", false),
            ("prune#7", true),
            ("prune-windows", false),
            ("access#1", false),
        ] {
            assert_eq!(read.allows("GetItem", pk), expected, "{pk}");
        }
    }

    #[test]
    fn the_items_of_a_call_are_those_of_the_one_table() {
        let key = |pk: &str| json!({"pk": {"S": pk}, "sk": {"S": "x"}});
        let batch = json!({"RequestItems": {"control": {"Keys": [key("a"), key("b")]}, "other": {"Keys": [key("c")]}}});
        let writes = json!({"TransactItems": [
            {"Put": {"TableName": "other", "Item": key("c")}},
            {"Update": {"TableName": "control", "Key": key("d")}},
        ]});
        let query = json!({"TableName": "control", "ExpressionAttributeValues": {":pk": {"S": "e"}}});
        let put = json!({"TableName": "control", "Item": key("f")});
        for (operation, body, expected) in [
            ("BatchGetItem", batch, &[("BatchGetItem", "a"), ("BatchGetItem", "b")][..]),
            ("TransactWriteItems", writes, &[("UpdateItem", "d")]),
            ("Query", query, &[("Query", "e")]),
            ("PutItem", put, &[("PutItem", "f")]),
            ("GetItem", json!({"TableName": "other", "Key": key("g")}), &[]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(touched(operation, &body, "control"), expected, "{operation}");
        }
    }
}
