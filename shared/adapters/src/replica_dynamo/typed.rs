//! A value of an item as DynamoDB writes it in JSON, with its type beside it, so that nothing is lost.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// `None` for a type that this version of the SDK does not know.
#[expect(clippy::wildcard_enum_match_arm, reason = "a type that the SDK may add has no name")]
pub(super) fn write(value: &AttributeValue) -> Option<Value> {
    let base64 = |bytes: &Blob| STANDARD.encode(bytes.as_ref());
    Some(match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::Bool(truth) => json!({"BOOL": truth}),
        AttributeValue::Null(_) => json!({"NULL": true}),
        AttributeValue::B(bytes) => json!({"B": base64(bytes)}),
        AttributeValue::Ss(texts) => json!({"SS": texts}),
        AttributeValue::Ns(numbers) => json!({"NS": numbers}),
        AttributeValue::Bs(all) => json!({"BS": all.iter().map(base64).collect::<Vec<_>>()}),
        AttributeValue::L(list) => json!({"L": list.iter().map(write).collect::<Option<Vec<_>>>()?}),
        AttributeValue::M(map) => {
            let written = map.iter().map(|(name, value)| Some((name.clone(), write(value)?)));
            json!({"M": written.collect::<Option<Map<_, _>>>()?})
        }
        _ => return None,
    })
}

/// `None` if it is not of that form.
pub(super) fn read(value: &Value) -> Option<AttributeValue> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let (kind, value) = object.iter().next()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let bytes = |value: &Value| Some(Blob::new(STANDARD.decode(value.as_str()?).ok()?));
    Some(match kind.as_str() {
        "S" => AttributeValue::S(text(value)?),
        "N" => AttributeValue::N(text(value)?),
        "BOOL" => AttributeValue::Bool(value.as_bool()?),
        "NULL" => AttributeValue::Null(value.as_bool()?),
        "B" => AttributeValue::B(bytes(value)?),
        "SS" => AttributeValue::Ss(value.as_array()?.iter().map(text).collect::<Option<_>>()?),
        "NS" => AttributeValue::Ns(value.as_array()?.iter().map(text).collect::<Option<_>>()?),
        "BS" => AttributeValue::Bs(value.as_array()?.iter().map(bytes).collect::<Option<_>>()?),
        "L" => AttributeValue::L(value.as_array()?.iter().map(read).collect::<Option<_>>()?),
        "M" => {
            let read = value.as_object()?.iter().map(|(name, value)| Some((name.clone(), read(value)?)));
            AttributeValue::M(read.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
