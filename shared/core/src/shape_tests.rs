use super::*;
use crate::fixtures::texts;

fn errors_of(text: &str) -> Vec<String> {
    let errors = Errors::default();
    if let Some(mut object) = Object::parse(text, "", &errors) {
        object.required("name", "a string", string);
        object.optional("age", "an integer from 0", unsigned);
        if let Some(inner) = object.object("inner") {
            inner.finish();
        }
        object.finish();
    }
    texts(&errors.into_vec())
}

#[test]
fn every_error_has_its_path_and_no_value() {
    let text = r#"{"age": "forty-two", "inner": {"secret": "abc"}, "more": [1]}"#;
    assert_eq!(
        errors_of(text),
        [
            "name: expected a string, found nothing",
            "age: expected an integer from 0, found a string",
            "inner.secret: expected no such field, found a string",
            "more: expected no such field, found an array",
        ]
    );
}

#[test]
fn every_repetition_of_a_field_is_an_error_and_the_first_one_counts() {
    let errors = Errors::default();
    let mut object = Object::parse(r#"{"b":1,"a":2,"b":3,"a":4,"b":5}"#, "", &errors).expect("an object");
    let read = ["a", "b", "c"].map(|name| object.raw(name).map(RawValue::get));
    assert_eq!(read, [Some("2"), Some("1"), None]);
    object.finish();
    let repeated = ["b", "a", "b"].map(|name| format!("{name}: expected this field once, found it twice"));
    assert_eq!(texts(&errors.into_vec()), repeated);
}

#[test]
fn the_256th_field_is_read_and_nothing_after_it() {
    let with = |n: usize, rest: &str| {
        let fields: Vec<String> = (0..n).map(|at| format!(r#""{at}":0"#)).collect();
        raw_fields(&format!("{{{}{rest}", fields.join(","))).map(|fields| fields.len())
    };
    for (fields, rest, expected) in [
        (MOST_FIELDS, "}", Ok(256)),
        (MOST_FIELDS + 1, "}", Err(FieldsError::TooMany)),
        (MOST_FIELDS + 1, " no JSON", Err(FieldsError::TooMany)),
        (MOST_FIELDS, " no JSON", Err(FieldsError::NotAnObject)),
        (MOST_FIELDS, "} more", Err(FieldsError::NotAnObject)),
    ] {
        assert_eq!(with(fields, rest), expected, "{fields} fields and {rest}");
    }
}

#[test]
fn a_sole_field_is_the_only_one() {
    let name = |text| sole_field(text).map(|(name, _)| name.into_owned());
    assert_eq!(name(r#"{"a":1}"#).as_deref(), Some("a"));
    for text in ["{}", r#"{"a":1,"b":2}"#, "[1]", r#"{"a":1} x"#] {
        assert_eq!(name(text), None, "{text}");
    }
}

#[test]
fn errors_of_a_document_without_secrets_quote_values() {
    let errors = Errors::quoting();
    let mut object =
        Object::parse(r#"{"age": "forty-two", "odd": [1, "2"], "n": null}"#, "", &errors).expect("an object");
    object.optional("age", "an integer from 0", unsigned);
    assert_eq!(object.list("odd", "an integer from 0", 9, unsigned), None);
    object.finish();
    assert_eq!(
        texts(&errors.into_vec()),
        [
            r#"age: expected an integer from 0, found a string: "forty-two""#,
            r#"odd[1]: expected an integer from 0, found a string: "2""#,
            "n: expected no such field, found null",
        ]
    );
}

#[test]
fn a_list_reports_its_length_and_every_invalid_element() {
    for (text, expected, expected_errors) in [
        (r#"{"l": [1, 2]}"#, Some(vec![1, 2]), &[][..]),
        ("{}", None, &[]),
        (r#"{"l": [1, 2, 3]}"#, None, &["p.l: expected at most 2 elements, found 3 elements"]),
        (
            r#"{"l": ["x", -1]}"#,
            None,
            &["p.l[0]: expected an integer, found a string", "p.l[1]: expected an integer, found an integer"],
        ),
        (r#"{"l": 1}"#, None, &["p.l: expected an array, each element an integer, found an integer"]),
    ] {
        let errors = Errors::default();
        let mut object = Object::parse(text, "p", &errors).expect("an object");
        assert_eq!(object.list("l", "an integer", 2, unsigned), expected, "{text}");
        assert_eq!(texts(&errors.into_vec()), expected_errors, "{text}");
    }
}

#[test]
fn a_text_that_is_no_object_is_named_by_its_type() {
    for (text, found) in [("[1]", "an array"), ("{\"a\":", "invalid JSON"), ("{} trailing", "invalid JSON")] {
        assert_eq!(errors_of(text), [format!("(the whole text): expected a JSON object, found {found}")]);
    }
}

#[test]
fn the_first_32_errors_are_kept_with_short_paths_without_control_characters() {
    let errors = Errors::default();
    (0..100).for_each(|at| errors.add(&format!("{at}\n{}", "x".repeat(100)), "nothing", "it"));
    let kept = errors.into_vec();
    assert_eq!((kept.len(), kept[31].path.as_str()), (32, format!("31?{}", "x".repeat(61)).as_str()));
}
