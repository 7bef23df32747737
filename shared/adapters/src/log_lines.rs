//! The form of log lines: a JSON object each, with `timestamp` and `level`, the fields in the order in which they are given, and `target`.
//!
//! Each attempt has a line, so a line is written as one text. tracing-subscriber's own JSON hands each name, quote and colon through a
//! serializer and a writer by itself, which takes three times as many instructions.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Longer than the line of an attempt, in bytes.
const USUAL_LENGTH: usize = 640;

#[derive(Debug)]
pub(crate) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Line(String::with_capacity(USUAL_LENGTH));
        line.0.push_str("{\"timestamp\":\"");
        SystemTime.format_time(&mut Writer::new(&mut line.0))?;
        line.0.extend(["\",\"level\":\"", metadata.level().as_str(), "\""]);
        event.record(&mut line);
        line.name("target");
        line.text(metadata.target());
        line.0.push_str("}\n");
        writer.write_str(&line.0)
    }
}

/// An object that is being written.
struct Line(String);

impl Line {
    fn name(&mut self, name: &str) {
        self.0.push(',');
        self.text(name);
        self.0.push(':');
    }

    fn text(&mut self, text: &str) {
        if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
            self.value(&Value::from(text));
        } else {
            self.0.extend(["\"", text, "\""]);
        }
    }

    fn value(&mut self, value: &dyn fmt::Display) {
        write!(self.0, "{value}").expect("invariant: a String takes every text");
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, text: &str) {
        self.name(field.name());
        self.text(text);
    }

    fn record_u64(&mut self, field: &Field, number: u64) {
        self.name(field.name());
        self.value(&number);
    }

    fn record_i64(&mut self, field: &Field, number: i64) {
        self.name(field.name());
        self.value(&number);
    }

    fn record_f64(&mut self, field: &Field, number: f64) {
        self.name(field.name());
        self.value(&Value::from(number));
    }

    fn record_bool(&mut self, field: &Field, truth: bool) {
        self.name(field.name());
        self.value(&truth);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The only line that is written while `what` runs.
    fn line(what: impl FnOnce()) -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let writer = Mutex::new(file.reopen().expect("the file"));
        let lines = tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(writer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), what);
        std::fs::read_to_string(file.path()).expect("text")
    }

    #[test]
    fn a_line_has_its_fields_in_order_between_level_and_target() {
        let line = line(|| {
            tracing::info!(target: "t", text = "a", none = None::<u64>, number = 7_u64, below = -7_i64, is_so = true);
        });
        let after_the_time = line.split_once("Z\",").expect("a time").1;
        let expected = r#""level":"INFO","text":"a","number":7,"below":-7,"is_so":true,"target":"t"}"#;
        assert_eq!(after_the_time, format!("{expected}\n"));
        assert!(line.starts_with("{\"timestamp\":\"20"), "{line}");
    }

    #[test]
    fn every_text_is_written_as_json() {
        for text in ["", "plain", "a \"quote\"", "back\\slash", "two\nlines", "\u{7f}\u{0}", "é \u{1f600}"] {
            let line = line(|| tracing::warn!(text, debug = ?text, not_a_number = f64::NAN, "the message"));
            let line: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(
                (&line["text"], &line["debug"], &line["not_a_number"], &line["message"]),
                (&json!(text), &json!(format!("{text:?}")), &Value::Null, &json!("the message")),
            );
        }
    }
}
