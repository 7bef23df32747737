//! API keys on a stack: created, listed, found and revoked. The secret is printed once and stored nowhere.
//!
//! The functions are placeholders: none of them has published keys when the first one is created.

use redial_adapters::access_dynamo::DynamoAccess;
use redial_core::access::{ApiKey, ApiKeyId, IamArn, Principal, Scope};
use redial_engine::ports::AccessKeys as _;

use crate::prelude::*;

const ROLE: &str = "arn:aws:iam::111122223333:role/teams/Shop";

#[tokio::test]
async fn keys_are_created_listed_and_revoked_and_no_secret_is_stored() {
    let stack = TestStack::with_placeholders().await;
    // A worker that has cached nothing yet.
    let worker = || DynamoAccess::new(stack.dynamodb.clone(), stack.tables().control.clone());
    let find = async |key: &ApiKey| worker().find(key.id()).await.expect("it answers").expect("it is stored");
    let find_iam =
        async |session: &IamArn| worker().find_iam(session).await.expect("it answers").expect("it is stored");
    assert_eq!(stack.json("api-keys list"), json!({"keys": []}));

    // The key is alone on standard output, and is valid.
    let created =
        stack.redial("api-keys create --tenant acme --scope send,read --label shop --expires-in 90d");
    let said = created.stderr.clone();
    let shown = created.succeeds();
    let text = shown.strip_suffix('\n').expect("a line");
    let key = ApiKey::parse(text).expect("a key and nothing else");
    assert!(!said.contains(text) && said.contains("not shown again"), "{said}");
    let grant = find(&key).await.grant_to(&key, System.now()).expect("it is valid");
    assert_eq!((grant.tenant.as_str(), grant.scopes), ("acme", [Scope::Send, Scope::Read].into()));

    // A second one, for a script; and the permission of a role.
    let second = stack.json("api-keys create --tenant bolt --scope subscribe");
    let second_text = second["key"].as_str().expect("the key");
    let second_key = ApiKey::parse(second_text).expect("a key");
    assert_fields(&second, json!({"id": second_key.id().as_str(), "expires_at": null}));
    let of_role = format!("api-keys create --tenant acme --scope send --iam-arn {ROLE}");
    let permission = ApiKeyId::parse(stack.shown(&of_role).trim_end()).expect("an id");
    let session = IamArn::parse("arn:aws:sts::111122223333:assumed-role/Shop/i-0abc").expect("a session");
    let grant = find_iam(&session).await.grant_to_iam(&session, System.now()).expect("it is valid");
    assert_eq!(grant.principal, Principal::Iam(session.clone()));
    let again = stack.redial(&of_role).refused_with(1);
    assert!(again.contains(&format!("redial api-keys revoke {permission}")), "{again}");

    // Neither secret is in the table, nor a part of it that would do.
    let table = format!("{:?}", stack.scan(&stack.tables().control).await);
    assert!(table.contains(key.id().as_str()) && table.contains("access-of#acme"), "{table}");
    for secret in [text, second_text] {
        let secret = &secret["rdk_".len() + 13..];
        assert!(!table.contains(secret) && !table.contains(&secret[..20]), "a secret is in the table");
    }

    // Listed without secrets, all or one tenant's.
    let listed = stack.shown("api-keys list");
    assert_eq!(listed.lines().count(), 4, "{listed}");
    for shown in ["send,read", "arn:aws:iam::111122223333:role/Shop"] {
        assert!(listed.contains(shown), "{listed}");
    }
    assert!(!listed.contains("rdk_"), "{listed}");
    let listed = stack.json("api-keys list --tenant acme");
    let keys = listed["keys"].as_array().expect("a list");
    let ids: Vec<_> = keys.iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(ids, [key.id().as_str(), permission.as_str()]);
    assert_fields(&keys[0], json!({"state": "active", "label": "shop"}));

    // Revoked: by its id, and once more by its text.
    let revoke = |key: &str| format!("api-keys revoke {key} --yes");
    stack.redial(format!("api-keys revoke {}", key.id())).refused_with(2);
    assert!(find(&key).await.admits(&key, System.now()), "without a confirmation it stays");
    assert_eq!(stack.shown(revoke(key.id().as_str())), format!("{} revoked\n", key.id()));
    assert_eq!(find(&key).await.grant_to(&key, System.now()), None);
    let again = stack.shown(revoke(text));
    assert!(again.contains("was already revoked") && !again.contains(text), "{again}");
    let revoked = stack.json(revoke(permission.as_str()));
    assert_fields(&revoked, json!({"state": "revoked", "kind": "iam"}));
    assert_eq!(find_iam(&session).await.grant_to_iam(&session, System.now()), None);
    stack.shown(&of_role);
    assert_eq!(stack.redial(revoke("000000000000")).refused_with(1), "no key 000000000000\n");
    assert!(find(&second_key).await.admits(&second_key, System.now()), "the other tenant's stays");
}
