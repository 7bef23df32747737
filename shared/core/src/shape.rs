//! Reading JSON objects field by field, with errors that a producer can act on and that reveal nothing.
//!
//! serde's own errors quote the value that they reject, and that value may be a key or an endpoint. An error made here names the
//! field's path, what was expected and the *type* that was found, and no more. All of an object's errors are collected, up to
//! [`MOST_ERRORS`], so that the producer can correct them all at once. Values stay raw text until they are read, so a payload keeps
//! the exact bytes that were written.
//!
//! The work is linear in the length of the text: reading stops at the first field over [`MOST_FIELDS`], and names are looked up in
//! their order.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest path that an error carries, in characters: an unknown field's name is the producer's own text.
const MAX_PATH: usize = 64;

/// The most fields of an object that is read field by field.
pub const MOST_FIELDS: usize = 256;

/// The most errors that are kept of one reading: the first ones.
pub const MOST_ERRORS: usize = 32;

/// Longest value that an error quotes, in characters, where it may quote at all.
const MAX_QUOTED: usize = 48;

/// What an error expects at a field that this release does not know.
pub const NO_SUCH_FIELD: &str = "no such field";

/// Words of an error: constant, or made for it.
pub type Words = Cow<'static, str>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShapeError {
    /// Where: `to.web_push.keys.auth`; empty for the whole text.
    pub path: String,
    pub expected: Words,
    /// What was found: a type, or `nothing`; the value too, where [`Errors::quoting`] allowed it.
    pub found: Words,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(the whole text)" } else { &self.path };
        write!(f, "{path}: expected {}, found {}", self.expected, self.found)
    }
}

pub(crate) fn joined(errors: &[ShapeError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[derive(Debug, Default)]
pub struct Errors {
    all: RefCell<Vec<ShapeError>>,
    quoting: bool,
}

impl Errors {
    /// For a document without secrets, such as an operator's policy: errors quote the value that was found.
    pub fn quoting() -> Self {
        Self { quoting: true, ..Self::default() }
    }

    /// Adds an error; the first [`MOST_ERRORS`] are kept.
    pub fn add(&self, path: &str, expected: impl Into<Words>, found: impl Into<Words>) {
        let mut all = self.all.borrow_mut();
        if all.len() < MOST_ERRORS {
            let path = cut(path, MAX_PATH);
            all.push(ShapeError { path, expected: expected.into(), found: found.into() });
        }
    }

    pub fn result<T>(self, read: Option<T>) -> Result<T, Vec<ShapeError>> {
        match read {
            Some(read) if self.is_empty() => Ok(read),
            Some(_) | None => Err(self.into_vec()),
        }
    }

    pub fn into_vec(self) -> Vec<ShapeError> {
        self.all.into_inner()
    }

    /// Adds the error that the object at `path` has more than [`MOST_FIELDS`] fields.
    pub fn too_many_fields(&self, path: &str) {
        self.add(path, format!("at most {MOST_FIELDS} fields"), "more");
    }

    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// A number that was found; its type alone where values are not quoted.
    pub fn a_number(&self, number: impl fmt::Display) -> Words {
        if self.quoting { number.to_string().into() } else { "an integer".into() }
    }

    fn naming(&self, value: &RawValue) -> Words {
        let kind = type_of(value);
        if self.quoting && kind != "null" {
            format!("{kind}: {}", cut(value.get(), MAX_QUOTED)).into()
        } else {
            kind.into()
        }
    }
}

/// The first characters of `text`, without control characters.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// An object's fields as written: names in order, values as raw text.
pub type RawFields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FieldsError {
    #[error("not a JSON object")]
    NotAnObject,
    #[error("more than {MOST_FIELDS} fields")]
    TooMany,
}

/// A JSON object whose fields are taken one by one.
#[derive(Debug)]
pub struct Object<'a> {
    path: String,
    fields: Vec<Field<'a>>,
    /// The indexes of the fields that come first under their name, in the [`order`] of the names.
    by_name: Vec<usize>,
    errors: &'a Errors,
}

#[derive(Debug)]
struct Field<'a> {
    name: Cow<'a, str>,
    value: &'a RawValue,
    /// Whether it was taken, or is an error already.
    is_done: bool,
}

/// The shorter name is first: most comparisons end with the lengths.
fn order(one: &str, other: &str) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

impl<'a> Object<'a> {
    /// Reads `text` as an object at `path`. A repeated field is an error, and so are more than [`MOST_FIELDS`].
    pub fn parse(text: &'a str, path: &str, errors: &'a Errors) -> Option<Self> {
        let fields = match raw_fields(text) {
            Ok(fields) => fields,
            Err(FieldsError::TooMany) => {
                errors.too_many_fields(path);
                return None;
            }
            Err(FieldsError::NotAnObject) => {
                let found = serde_json::from_str::<&RawValue>(text).map_or("invalid JSON", type_of);
                errors.add(path, "a JSON object", found);
                return None;
            }
        };
        let field = |(name, value)| Field { name, value, is_done: false };
        let mut fields: Vec<Field<'a>> = fields.into_iter().map(field).collect();
        let mut by_name: Vec<usize> = (0..fields.len()).collect();
        by_name.sort_unstable_by(|one, other| {
            order(&fields[*one].name, &fields[*other].name).then(one.cmp(other))
        });
        by_name.dedup_by(|later, first| {
            let is_again = fields[*later].name == fields[*first].name;
            fields[*later].is_done |= is_again;
            is_again
        });
        for again in fields.iter().filter(|field| field.is_done) {
            errors.add(&join(path, &again.name), "this field once", "it twice");
        }
        Some(Self { path: path.to_owned(), fields, by_name, errors })
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        let place = self.by_name.binary_search_by(|at| order(&self.fields[*at].name, name));
        place.ok().map(|place| self.by_name[place])
    }

    pub(crate) fn errors(&self) -> &'a Errors {
        self.errors
    }

    pub fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }

    pub fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.place_of(name)?;
        let field = &mut self.fields[at];
        field.is_done = true;
        Some(field.value)
    }

    pub fn refuse(&self, name: &str, expected: impl Into<Words>, found: Option<&RawValue>) {
        self.error(name, expected, found.map_or("nothing".into(), |value| self.errors.naming(value)));
    }

    /// Adds an error about a field, with words for what was found.
    pub fn error(&self, name: &str, expected: impl Into<Words>, found: impl Into<Words>) {
        self.errors.add(&self.path_of(name), expected, found);
    }

    /// Takes a field through `read`, which returns `None` for an invalid one; an absent field is `None` without an error.
    pub fn optional<T>(
        &mut self,
        name: &str,
        expected: impl Into<Words>,
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
        expected: impl Into<Words>,
        read: impl FnOnce(&'a RawValue) -> Option<T>,
    ) -> Option<T> {
        if self.place_of(name).is_none() {
            self.refuse(name, expected, None);
            return None;
        }
        self.optional(name, expected, read)
    }

    /// Takes a field that is an array of at most `most` elements, each through `read`, with an error for each invalid one. `None`
    /// if anything was wrong, or there is no such field.
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
            self.error(name, format!("at most {most} elements"), format!("{} elements", elements.len()));
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

    pub fn object(&mut self, name: &str) -> Option<Self> {
        let raw = self.raw(name)?;
        Self::parse(raw.get(), &self.path_of(name), self.errors)
    }

    pub(crate) fn into_fields(self) -> impl Iterator<Item = (Cow<'a, str>, &'a RawValue)> {
        self.fields.into_iter().map(|field| (field.name, field.value))
    }

    /// All fields as written, whether they were taken or not.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.fields.iter().map(|field| (field.name.as_ref(), field.value))
    }

    /// Ends the reading: every field that was not taken is unknown, and an error.
    pub fn finish(self) {
        for field in self.fields.iter().filter(|field| !field.is_done) {
            self.refuse(&field.name, NO_SUCH_FIELD, Some(field.value));
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The fields of a JSON object as written. Reading stops after [`MOST_FIELDS`].
pub fn raw_fields(text: &str) -> Result<RawFields<'_>, FieldsError> {
    fields_up_to(MOST_FIELDS, text)
}

/// The field of a JSON object that has exactly one.
pub fn sole_field(text: &str) -> Option<(Cow<'_, str>, &RawValue)> {
    fields_up_to(1, text).ok()?.pop()
}

fn fields_up_to(most: usize, text: &str) -> Result<RawFields<'_>, FieldsError> {
    #[derive(Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    struct Fields<'c> {
        most: usize,
        too_many: &'c Cell<bool>,
    }
    impl<'de> Visitor<'de> for Fields<'_> {
        type Value = RawFields<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(Name(name)) = map.next_key()? {
                if fields.len() == self.most {
                    self.too_many.set(true);
                    return Err(de::Error::custom("too many fields"));
                }
                fields.push((name, map.next_value()?));
            }
            Ok(fields)
        }
    }
    let too_many = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let fields = deserializer
        .deserialize_map(Fields { most, too_many: &too_many })
        .and_then(|fields| deserializer.end().map(|()| fields));
    fields.map_err(|_| if too_many.get() { FieldsError::TooMany } else { FieldsError::NotAnObject })
}

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

pub fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

pub fn text<T>(parse: impl Fn(&str) -> Option<T>) -> impl Fn(&RawValue) -> Option<T> {
    move |raw| parse(&string(raw)?)
}

pub fn text_of(bytes: RangeInclusive<usize>) -> impl Fn(&RawValue) -> Option<String> {
    move |raw| string(raw).filter(|text| bytes.contains(&text.len()))
}

pub fn unsigned(value: &RawValue) -> Option<u64> {
    serde_json::from_str(value.get()).ok()
}

pub fn integer<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&RawValue) -> Option<T> {
    move |raw| T::try_from(unsigned(raw).filter(|n| range.contains(n))?).ok()
}

pub fn number(value: &RawValue) -> Option<f64> {
    serde_json::from_str::<f64>(value.get()).ok().filter(|n| n.is_finite())
}

pub fn number_in(range: RangeInclusive<f64>) -> impl Fn(&RawValue) -> Option<f64> {
    move |raw| number(raw).filter(|n| range.contains(n))
}

pub fn boolean(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

/// The text of a JSON object with these fields, whose values are JSON already.
pub(crate) fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut object = String::from("{");
    for (name, value) in fields {
        if object.len() > 1 {
            object.push(',');
        }
        object.push_str(&serde_json::Value::from(name).to_string());
        object.push(':');
        object.push_str(value);
    }
    object.push('}');
    object
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
