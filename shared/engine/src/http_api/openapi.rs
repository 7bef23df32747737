//! The API's description, in one piece.
//!
//! It is written by hand, and refers to the message's schema in a file of its own. What is published has that schema inside,
//! because few tools follow a reference out of a document; with one difference, that a message may leave out its tenant here.

use redial_core::message::SCHEMA;

const DOCUMENT: &str = include_str!("../../../../infra/openapi.v1.json");

/// What stands in the document for the message's schema.
const REFERENCE: &str = r#""Message": {"$ref": "schema/message.v1.json"}"#;

/// How the schema names its own parts, and how the document does.
const PARTS: (&str, &str) = ("\"#/$defs/", "\"#/components/schemas/Message/$defs/");

/// What a message needs on a queue, and what it needs here.
const REQUIRED: (&str, &str) = (r#""required": ["tenant", "to"]"#, r#""required": ["to"]"#);

/// The API's description: OpenAPI 3.1, as JSON.
pub fn openapi() -> String {
    let schema = SCHEMA.trim_end().replace(PARTS.0, PARTS.1).replacen(REQUIRED.0, REQUIRED.1, 1);
    // The dialect is the document's, and the name is another schema's.
    let own = |line: &&str| !line.starts_with("  \"$schema\":") && !line.starts_with("  \"$id\":");
    let lines: Vec<&str> = schema.lines().filter(own).collect();
    DOCUMENT.replacen(REFERENCE, &format!("\"Message\": {}", lines.join("\n      ")), 1)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_message_s_schema_is_inside_but_for_its_tenant() {
        let document: Value = serde_json::from_str(&openapi()).expect("JSON");
        let mut expected: Value = serde_json::from_str(&SCHEMA.replace(PARTS.0, PARTS.1)).expect("JSON");
        expected["required"] = serde_json::json!(["to"]);
        for name in ["$schema", "$id"] {
            expected.as_object_mut().expect("an object").remove(name).expect("it has one");
        }
        assert_eq!(document["components"]["schemas"]["Message"], expected);
    }
}
