//! Reading JSON objects field by field, with errors that a producer can act on and that reveal nothing.
//!
//! serde's own errors quote the value that they dislike, and that value may be a key or an endpoint. An error made here
//! names the field's path, what was expected and the *type* that was found, and no more. All of an object's errors are
//! collected, so that one look mends them all. Values stay raw text until they are asked for, so a payload keeps the
//! very bytes that were written.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest path that an error carries, in characters: an unknown field's name is the producer's own text.
const MAX_PATH: usize = 64;

/// Longest value that an error quotes, in characters, where it may quote at all.
const MAX_QUOTED: usize = 48;

/// What an error expects at a field that this release does not know.
pub const NO_SUCH_FIELD: &str = "no such field";

/// One thing that is wrong with a JSON text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShapeError {
    /// Where: `to.web_push.keys.auth`; empty for the whole text.
    pub path: String,
    /// What would do.
    pub expected: Cow<'static, str>,
    /// What was found: a type, or `nothing`; the value too, where [`Errors::quoting`] allowed it.
    pub found: Cow<'static, str>,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(the whole text)" } else { &self.path };
        write!(f, "{path}: expected {}, found {}", self.expected, self.found)
    }
}

/// Where the errors of one reading are collected.
#[derive(Debug, Default)]
pub struct Errors {
    all: RefCell<Vec<ShapeError>>,
    quoting: bool,
}

impl Errors {
    /// For a document that holds no secret, an operator's own policy: errors quote the value that was found.
    pub fn quoting() -> Self {
        Self { quoting: true, ..Self::default() }
    }

    /// Adds one.
    pub fn add(
        &self,
        path: &str,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) {
        let path = cut(path, MAX_PATH);
        self.all.borrow_mut().push(ShapeError { path, expected: expected.into(), found: found.into() });
    }

    /// All that were added, in order.
    pub fn into_vec(self) -> Vec<ShapeError> {
        self.all.into_inner()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// How an error names a value that was found.
    fn naming(&self, value: &RawValue) -> Cow<'static, str> {
        let kind = type_of(value);
        if self.quoting && kind != "null" {
            format!("{kind}: {}", cut(value.get(), MAX_QUOTED)).into()
        } else {
            kind.into()
        }
    }
}

/// The first characters of `text`, none of them one that a terminal obeys.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// An object's fields as written: names in order, values as raw text.
pub type RawFields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// A JSON object whose fields are taken one by one.
#[derive(Debug)]
pub struct Object<'a> {
    path: String,
    fields: Vec<(Cow<'a, str>, &'a RawValue, bool)>,
    errors: &'a Errors,
}

impl<'a> Object<'a> {
    /// Reads `text` as an object at `path`. A field that stands twice is an error.
    pub fn parse(text: &'a str, path: &str, errors: &'a Errors) -> Option<Self> {
        let Ok(fields) = raw_fields(text) else {
            let found = serde_json::from_str::<&RawValue>(text).map_or("no valid JSON", type_of);
            errors.add(path, "a JSON object", found);
            return None;
        };
        let mut once: Vec<(Cow<'a, str>, &'a RawValue, bool)> = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            if once.iter().any(|(earlier, _, _)| *earlier == name) {
                errors.add(&join(path, &name), "this field once", "it twice");
            } else {
                once.push((name, value, false));
            }
        }
        Some(Self { path: path.to_owned(), fields: once, errors })
    }

    /// The path of one of its fields.
    pub fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Takes a field as it is written.
    pub fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let (_, value, taken) = self.fields.iter_mut().find(|(known, _, _)| known == name)?;
        *taken = true;
        Some(value)
    }

    /// Notes that a field is missing or unfit.
    pub fn refuse(&self, name: &str, expected: impl Into<Cow<'static, str>>, found: Option<&RawValue>) {
        let found = found.map_or(Cow::Borrowed("nothing"), |value| self.errors.naming(value));
        self.errors.add(&self.path_of(name), expected, found);
    }

    /// Takes a field through `read`, which gives `None` for an unfit one; an absent field is `None` without an error.
    pub fn optional<T>(
        &mut self,
        name: &str,
        expected: impl Into<Cow<'static, str>>,
        read: impl FnOnce(&'a RawValue) -> Option<T>,
    ) -> Option<T> {
        let raw = self.raw(name)?;
        let value = read(raw);
        if value.is_none() {
            self.refuse(name, expected, Some(raw));
        }
        value
    }

    /// Takes a field through `read`; an absent one is an error too.
    pub fn required<T>(
        &mut self,
        name: &str,
        expected: impl Into<Cow<'static, str>>,
        read: impl FnOnce(&'a RawValue) -> Option<T>,
    ) -> Option<T> {
        let Some(raw) = self.raw(name) else {
            self.refuse(name, expected, None);
            return None;
        };
        let value = read(raw);
        if value.is_none() {
            self.refuse(name, expected, Some(raw));
        }
        value
    }

    /// Takes a field that is an array: every element through `read`, with an error for each unfit one. At most `most`
    /// elements; `None` if anything was wrong, or there is no such field.
    pub fn list<T>(
        &mut self,
        name: &str,
        element: &'static str,
        most: usize,
        read: impl Fn(&RawValue) -> Option<T>,
    ) -> Option<Vec<T>> {
        let raw = self.raw(name)?;
        let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            self.refuse(name, format!("an array, each element {element}"), Some(raw));
            return None;
        };
        if elements.len() > most {
            let found = format!("{} elements", elements.len());
            self.errors.add(&self.path_of(name), format!("at most {most} elements"), found);
            return None;
        }
        let values: Vec<Option<T>> = elements.iter().map(|value| read(value)).collect();
        for (index, (value, raw)) in values.iter().zip(&elements).enumerate() {
            if value.is_none() {
                self.refuse(&format!("{name}[{index}]"), element, Some(raw));
            }
        }
        values.into_iter().collect()
    }

    /// Takes a field that is an object itself.
    pub fn object(&mut self, name: &str) -> Option<Self> {
        let raw = self.raw(name)?;
        Self::parse(raw.get(), &self.path_of(name), self.errors)
    }

    /// Ends the reading: every field that nobody took is unknown, and an error.
    pub fn finish(self) {
        for (name, value, taken) in &self.fields {
            if !taken {
                self.errors.add(&join(&self.path, name), NO_SUCH_FIELD, self.errors.naming(value));
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The fields of a JSON object as written; `Err` if `text` is no JSON object.
pub fn raw_fields(text: &str) -> Result<RawFields<'_>, serde_json::Error> {
    struct Fields;
    impl<'de> Visitor<'de> for Fields {
        type Value = RawFields<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(name) = map.next_key::<String>()? {
                fields.push((Cow::Owned(name), map.next_value()?));
            }
            Ok(fields)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let fields = deserializer.deserialize_map(Fields)?;
    deserializer.end()?;
    Ok(fields)
}

/// The JSON type of a value, as an error names it.
pub fn type_of(value: &RawValue) -> &'static str {
    let text = value.get();
    match text.bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => "an integer",
        Some(_) => "a number",
        None => "nothing",
    }
}

/// A JSON string's text.
pub fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A JSON integer from 0.
pub fn unsigned(value: &RawValue) -> Option<u64> {
    serde_json::from_str(value.get()).ok()
}

/// A finite JSON number.
pub fn number(value: &RawValue) -> Option<f64> {
    serde_json::from_str::<f64>(value.get()).ok().filter(|n| n.is_finite())
}

/// A JSON boolean.
pub fn boolean(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_error_is_told_with_its_path_and_without_a_value() {
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
    fn a_field_that_stands_twice_is_an_error() {
        assert_eq!(
            errors_of(r#"{"name":"a","name":"b"}"#),
            ["name: expected this field once, found it twice"]
        );
    }

    #[test]
    fn a_document_without_secrets_has_its_values_quoted() {
        let errors = Errors::quoting();
        let mut object = Object::parse(r#"{"age": "forty-two", "odd": [1, "2"], "n": null}"#, "", &errors)
            .expect("an object");
        object.optional("age", "an integer from 0", unsigned);
        assert_eq!(object.list("odd", "an integer from 0", 9, unsigned), None);
        object.finish();
        let told: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                r#"age: expected an integer from 0, found a string: "forty-two""#,
                r#"odd[1]: expected an integer from 0, found a string: "2""#,
                "n: expected no such field, found null",
            ]
        );
    }

    #[test]
    fn a_list_has_its_length_and_every_unfit_element_told() {
        let read = |text: &str| {
            let errors = Errors::default();
            let mut object = Object::parse(text, "p", &errors).expect("an object");
            let list = object.list("l", "an integer", 2, unsigned);
            (list, errors.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read(r#"{"l": [1, 2]}"#), (Some(vec![1, 2]), vec![]));
        assert_eq!(read("{}"), (None, vec![]));
        let told = |text: &str| read(text).1.join("; ");
        assert_eq!(told(r#"{"l": [1, 2, 3]}"#), "p.l: expected at most 2 elements, found 3 elements");
        assert_eq!(
            told(r#"{"l": ["x", -1]}"#),
            "p.l[0]: expected an integer, found a string; p.l[1]: expected an integer, found an integer"
        );
        assert_eq!(told(r#"{"l": 1}"#), "p.l: expected an array, each element an integer, found an integer");
    }

    #[test]
    fn what_is_no_object_is_named_by_its_type() {
        assert_eq!(errors_of("[1]"), ["(the whole text): expected a JSON object, found an array"]);
        assert_eq!(errors_of("{\"a\":"), ["(the whole text): expected a JSON object, found no valid JSON"]);
        assert_eq!(
            errors_of("{} trailing"),
            ["(the whole text): expected a JSON object, found no valid JSON"]
        );
    }

    #[test]
    fn a_long_or_strange_field_name_is_cut_and_cleaned() {
        let errors = Errors::default();
        errors.add(&format!("a\n{}", "x".repeat(100)), "no such field", "null");
        let path = errors.into_vec().remove(0).path;
        assert_eq!(path.chars().count(), 64);
        assert!(path.starts_with("a?x"));
    }
}
