//! A refused command line in the words of all other errors: which argument, what was expected, what was found, and what was perhaps meant.

use std::{env, error::Error as _, ffi::OsString};

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

use crate::failure::Failure;

/// Where a range ends that has no end.
const UNBOUNDED: [&str; 4] = ["4294967295", "=4294967295", "18446744073709551615", "=18446744073709551615"];

/// A value is shown as far as this many characters.
const SHOWN: usize = 60;

/// The errors of a refusal of these arguments, a line each.
pub(super) fn failure(error: &Error, command: &Command, arguments: &[OsString]) -> Failure {
    let refused = Refused { error, command: Place::of(command, arguments), arguments };
    Failure::Input(refused.lines())
}

struct Refused<'a> {
    error: &'a Error,
    command: Place<'a>,
    arguments: &'a [OsString],
}

impl Refused<'_> {
    fn lines(&self) -> Vec<String> {
        let argument = self.argument();
        let path = &self.command.path;
        let help = format!("`{path} --help`");
        match self.error.kind() {
            ErrorKind::UnknownArgument if argument.starts_with('-') => {
                let meant = self.meant(&[ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand]);
                let operand = self.operand_like(&argument);
                vec![format!("{argument}: `{path}` has no such option{meant}; {help} lists them{operand}")]
            }
            ErrorKind::UnknownArgument | ErrorKind::TooManyValues => {
                let meant = self.meant(&[ContextKind::SuggestedSubcommand]);
                vec![format!("{}: `{path}` takes no further argument{meant}; see {help}", shown(&argument))]
            }
            ErrorKind::InvalidSubcommand => {
                let given = self.text(ContextKind::InvalidSubcommand);
                let meant = self.meant(&[ContextKind::SuggestedSubcommand]);
                vec![format!("{}: `{path}` has no such command{meant}; {help} lists them", shown(&given))]
            }
            ErrorKind::MissingRequiredArgument => self
                .texts(ContextKind::InvalidArg)
                .iter()
                .map(|missing| format!("{}: required, and not given; {help} has examples", one_of(missing)))
                .collect(),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::NoEquals => {
                let found = match self.text(ContextKind::InvalidValue) {
                    value if value.is_empty() => "nothing".to_owned(),
                    value => format!("`{}`", shown(&value)),
                };
                let meant = self.meant(&[ContextKind::SuggestedValue]);
                vec![format!("{argument}: expected {}, found {found}{meant}", self.expected())]
            }
            ErrorKind::ArgumentConflict => {
                let others = self.texts(ContextKind::PriorArg);
                let others: Vec<&str> = others.iter().map(|other| name(other)).collect();
                match &others[..] {
                    [] => vec![format!("{argument}: cannot be combined with other arguments; see {help}")],
                    [same] if *same == argument => vec![format!("{argument}: given twice")],
                    _ => vec![format!("{argument}: cannot be combined with {}", list(&others, "and"))],
                }
            }
            ErrorKind::MissingSubcommand => {
                let all = self.texts(ContextKind::ValidSubcommand);
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                vec![format!("{path}: expected a command, {}; see {help}", list(&all, "or"))]
            }
            ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
                vec![format!("{argument}: expected another number of values; see {help}")]
            }
            ErrorKind::InvalidUtf8 => vec!["expected arguments in UTF-8, found other bytes".to_owned()],
            // Of kinds that do not come here, or that a later clap has.
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayVersion
            | ErrorKind::Io
            | ErrorKind::Format
            | _ => vec![self.error.kind().to_string()],
        }
    }

    /// What is refused: the option or the name of the argument, or the variable that its value is from.
    fn argument(&self) -> String {
        let texts = self.texts(ContextKind::InvalidArg);
        let argument = texts.first().map_or("", |text| name(text));
        self.variable(argument).unwrap_or_else(|| argument.to_owned())
    }

    fn variable(&self, option: &str) -> Option<String> {
        let long = option.strip_prefix("--")?;
        let is_given = |it: &OsString| it.to_str().is_some_and(|it| it.split('=').next() == Some(option));
        let argument = self.command.command.get_arguments().find(|it| it.get_long() == Some(long))?;
        let variable = argument.get_env().filter(|_| !self.arguments.iter().any(is_given))?;
        env::var_os(variable).and_then(|_| Some(variable.to_str()?.to_owned()))
    }

    /// How a value is given that looks like a short option, where the command takes one.
    fn operand_like(&self, option: &str) -> String {
        let operand = self.command.command.get_positionals().next().filter(|_| !option.starts_with("--"));
        let name = operand.and_then(|it| it.get_value_names()?.first());
        name.map_or_else(String::new, |name| format!("; put {name} after -- if it begins with -"))
    }

    /// What would do.
    fn expected(&self) -> String {
        let values = self.texts(ContextKind::ValidValue);
        if !values.is_empty() {
            return list(&values.iter().map(String::as_str).collect::<Vec<_>>(), "or");
        }
        match self.error.source() {
            Some(source) => in_words(&source.to_string()),
            None => {
                let texts = self.texts(ContextKind::InvalidArg);
                let value = texts.first().and_then(|text| text.split_once(' '));
                value.map_or_else(|| "a value".to_owned(), |(_, value)| format!("a value, {value}"))
            }
        }
    }

    fn meant(&self, kinds: &[ContextKind]) -> String {
        let meant: Vec<String> = kinds.iter().flat_map(|kind| self.texts(*kind)).collect();
        let meant: Vec<&str> = meant.iter().map(String::as_str).collect();
        if meant.is_empty() { String::new() } else { format!(" (did you mean {}?)", list(&meant, "or")) }
    }

    fn text(&self, kind: ContextKind) -> String {
        self.texts(kind).into_iter().next().unwrap_or_default()
    }

    fn texts(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }
}

/// The command that the arguments lead to, and how it is called.
struct Place<'a> {
    command: &'a Command,
    path: String,
}

impl<'a> Place<'a> {
    /// As far as the first arguments are subcommands: no option stands before one.
    fn of(root: &'a Command, arguments: &[OsString]) -> Self {
        let mut place = Self { command: root, path: root.get_name().to_owned() };
        for word in arguments.iter().skip(1).filter_map(|it| it.to_str()) {
            let inner = place.command.find_subcommand(word).filter(|inner| inner.get_name() != "help");
            let Some(inner) = inner else { break };
            place = Self { command: inner, path: format!("{} {word}", place.path) };
        }
        place
    }
}

/// `--tenant` of `--tenant <TENANT>`, and `ID` of `<ID>`.
fn name(argument: &str) -> &str {
    let first = argument.split(' ').next().unwrap_or(argument);
    first.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

/// A group of which one is needed, `<--weight <N>|--concurrency <N>>`, in words; an argument as it is.
fn one_of(missing: &str) -> String {
    match missing.strip_prefix("<-").and_then(|group| group.strip_suffix('>')) {
        Some(group) => format!("-{}", group.replace('|', " or ")),
        None => missing.to_owned(),
    }
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

fn list(all: &[&str], last: &str) -> String {
    match all {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// What a parser expects, without the word; Rust's and clap's own parsers say what is wrong instead.
fn in_words(error: &str) -> String {
    let range = error.split_once(" is not in ").and_then(|(_, range)| range.split_once(".."));
    if let Some((least, most)) = range {
        return if most.is_empty() || UNBOUNDED.contains(&most) {
            format!("a whole number of at least {least}")
        } else {
            format!("a whole number from {least} to {}", most.trim_start_matches('='))
        };
    }
    // What says first what was found.
    if let Some((_, expected)) = error.split_once(": expected ").filter(|(found, _)| found.starts_with("it "))
    {
        return expected.to_owned();
    }
    match error {
        "invalid digit found in string"
        | "number too large to fit in target type"
        | "number too small to fit in target type"
        | "cannot parse integer from empty string" => "a whole number".to_owned(),
        "invalid float literal" | "cannot parse float from empty string" => "a number".to_owned(),
        other => other.strip_prefix("expected ").unwrap_or(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parsers_of_others_say_is_put_into_our_words() {
        for (error, words) in [
            ("0 is not in 1..", "a whole number of at least 1"),
            ("0 is not in 1..4294967295", "a whole number of at least 1"),
            ("99 is not in 1..=64", "a whole number from 1 to 64"),
            ("invalid digit found in string", "a whole number"),
            ("expected all or none", "all or none"),
            ("it starts at 10 s and ends at 5 s: expected START before END", "START before END"),
            ("a time that is not in the future", "a time that is not in the future"),
            ("1 to 64 letters", "1 to 64 letters"),
        ] {
            assert_eq!(in_words(error), words);
        }
    }

    #[test]
    fn an_argument_is_named_as_it_is_typed() {
        for (argument, named) in
            [("--tenant <TENANT>", "--tenant"), ("<ID>", "ID"), ("[FILE]...", "FILE"), ("-o", "-o")]
        {
            assert_eq!(name(argument), named);
        }
        assert_eq!(one_of("<--weight <W>|--limit <N>>"), "--weight <W> or --limit <N>");
        assert_eq!(one_of("<ID>"), "<ID>");
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(list(&["a", "b", "c"], "or"), "a, b or c");
    }
}
