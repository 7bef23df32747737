use super::*;
use crate::fixtures::texts;

std::thread_local! {
    /// How many names were compared on this thread.
    pub(super) static COMPARISONS: Cell<usize> = const { Cell::new(0) };
}

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
fn a_repeated_field_is_an_error() {
    assert_eq!(errors_of(r#"{"name":"a","name":"b"}"#), ["name: expected this field once, found it twice"]);
}

#[test]
fn every_repetition_of_a_field_is_an_error_and_the_first_one_counts() {
    let errors = Errors::default();
    let text = r#"{"b":1,"a":2,"b":3,"a":4,"b":5}"#;
    let mut object = Object::parse(text, "", &errors).expect("an object");
    let read = ["a", "b", "c"].map(|name| object.raw(name).map(RawValue::get));
    assert_eq!(read, [Some("2"), Some("1"), None]);
    object.finish();
    let paths: Vec<String> = errors.into_vec().into_iter().map(|error| error.path).collect();
    assert_eq!(paths, ["b", "a", "b"]);
}

#[test]
fn names_are_compared_a_few_times_each() {
    for repeated in [false, true] {
        // In an order that is not their names' own.
        let names: Vec<usize> =
            (0..MOST_FIELDS).map(|at| if repeated { 0 } else { at * 97 % MOST_FIELDS }).collect();
        let fields: Vec<String> = names.iter().map(|name| format!(r#""n{name}":0"#)).collect();
        let text = format!("{{{}}}", fields.join(","));
        COMPARISONS.set(0);
        let errors = Errors::default();
        let mut object = Object::parse(&text, "", &errors).expect("an object");
        assert!(names.iter().all(|name| object.raw(&format!("n{name}")).is_some()));
        object.finish();
        let compared = COMPARISONS.get();
        assert!(compared <= 20 * MOST_FIELDS, "{compared} comparisons of {MOST_FIELDS} names");
    }
}

#[test]
fn the_256th_field_is_read_and_nothing_after_it() {
    let with = |n: usize, rest: &str| {
        let fields: Vec<String> = (0..n).map(|at| format!(r#""{at}":0"#)).collect();
        raw_fields(&format!("{{{}{rest}", fields.join(","))).map(|fields| fields.len())
    };
    assert_eq!(with(MOST_FIELDS, "}"), Ok(256));
    assert_eq!(with(MOST_FIELDS + 1, "}"), Err(FieldsError::TooMany));
    assert_eq!(with(MOST_FIELDS + 1, " no JSON"), Err(FieldsError::TooMany));
    assert_eq!(with(MOST_FIELDS, " no JSON"), Err(FieldsError::NotAnObject));
    assert_eq!(with(MOST_FIELDS, "} more"), Err(FieldsError::NotAnObject));
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
fn the_first_32_errors_are_kept() {
    let errors = Errors::default();
    (0..100).for_each(|at| errors.add(&at.to_string(), "nothing", "it"));
    let kept = errors.into_vec();
    assert_eq!((kept.len(), kept[31].path.as_str()), (32, "31"));
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
    assert_eq!(errors_of("[1]"), ["(the whole text): expected a JSON object, found an array"]);
    assert_eq!(errors_of("{\"a\":"), ["(the whole text): expected a JSON object, found no valid JSON"]);
    assert_eq!(errors_of("{} trailing"), ["(the whole text): expected a JSON object, found no valid JSON"]);
}

#[test]
fn long_names_are_cut_and_control_characters_replaced() {
    let errors = Errors::default();
    errors.add(&format!("a\n{}", "x".repeat(100)), "no such field", "null");
    let path = errors.into_vec().remove(0).path;
    assert_eq!(path.chars().count(), 64);
    assert!(path.starts_with("a?x"));
}
