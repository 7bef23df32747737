//! Where functions' bodies are in a source file: as much of Rust's lexical structure as that needs.

use std::ops::Range;

/// A function with a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Function {
    /// Its body, without the braces.
    pub(super) body: Range<usize>,
    /// Whether its body may differ from run to run: not that of a `const fn`, nor one that returns a type that only the compiler knows.
    pub(super) is_switchable: bool,
}

/// The innermost function whose body holds all of `range`.
pub(super) fn around(source: &str, range: &Range<usize>) -> Option<Function> {
    let holds = |it: &Function| it.body.start <= range.start && range.end <= it.body.end;
    functions(source).into_iter().filter(holds).min_by_key(|it| it.body.len())
}

fn functions(source: &str) -> Vec<Function> {
    let mut found = Vec::new();
    // The braces that are open, each with whether a function's body begins there.
    let mut open: Vec<(usize, Option<bool>)> = Vec::new();
    let (mut signature, mut former): (Option<usize>, Option<usize>) = (None, None);
    let mut before = "";
    for (at, token) in tokens(source) {
        match token {
            "fn" => (former, signature) = (signature, Some(at)),
            // The type of a pointer to a function.
            "(" if before == "fn" => signature = former,
            ";" if signature.is_some() && !is_in_brackets(source, signature, at) => signature = None,
            // A parameter that is taken apart.
            "{" if is_in_brackets(source, signature, at) => open.push((at, None)),
            "{" => {
                let starts = signature.take().map(|from| {
                    let is_const = source[..from].trim_end().ends_with("const");
                    !is_const && !source[from..at].contains("-> impl ")
                });
                open.push((at, starts));
            }
            "}" => {
                if let Some((from, Some(is_switchable))) = open.pop() {
                    found.push(Function { body: from + 1..at, is_switchable });
                }
            }
            _ => {}
        }
        before = token;
    }
    found
}

/// Whether a place in a signature is in its parameters or in an array's type.
fn is_in_brackets(source: &str, signature: Option<usize>, at: usize) -> bool {
    let text = &source[signature.unwrap_or(at)..at];
    ["[]", "()"].iter().any(|pair| {
        let (opening, closing) = pair.split_at(1);
        text.matches(opening).count() > text.matches(closing).count()
    })
}

/// Words and punctuation with their places; comments and literals are left out.
fn tokens(source: &str) -> Vec<(usize, &str)> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let length = if word > 0 { word } else { rest.chars().next().map_or(1, char::len_utf8) };
            if !rest[..length].trim().is_empty() {
                tokens.push((at, &rest[..length]));
            }
            length
        };
        at += length;
    }
    tokens
}

/// How long the string or character is that a text begins with, if it begins with one. A lifetime is none.
fn literal(rest: &str) -> Option<usize> {
    let hashes = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'));
    if let Some(hashes) = hashes {
        let count = hashes.len() - hashes.trim_start_matches('#').len();
        if hashes[count..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(count));
            let begin = rest.len() - hashes.len() + count + 1;
            return rest[begin..].find(&end).map(|at| begin + at + end.len());
        }
    }
    let quoted = rest.strip_prefix('b').unwrap_or(rest);
    let begin = rest.len() - quoted.len() + 1;
    let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    if quote == '\'' {
        let mut chars = quoted[1..].chars();
        let (first, second) = (chars.next()?, chars.next()?);
        if first != '\\' && second != '\'' {
            return None;
        }
    }
    let mut is_escaped = false;
    for (at, c) in rest[begin..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return Some(begin + at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_around_a_text_is_found() {
        let source = r##"
            const fn fixed() -> u8 { 1 }
            // fn comment() {
            pub async fn outer<'a>(of: fn(u8) -> u8, list: [u8; 2]) -> &'a str {
                let text = "} fn {"; let brace = '{'; let raw = r#"}"}"#;
                fn inner() { two() }
                three()
            }
            trait Port { fn declared(&self); }
            fn opaque() -> impl Iterator { four() }
            fn apart(Pair { one, .. }: &Pair) { five(one) }
        "##;
        for (text, body) in [
            ("two()", Some(true)),
            ("three()", Some(true)),
            ("four()", Some(false)),
            ("five(one)", Some(true)),
        ] {
            let at = source.find(text).expect("it is there");
            let range = at..at + text.len();
            let found = around(source, &range).map(|it| it.is_switchable);
            assert_eq!(found, body, "{text}");
        }
        let at = source.find("two()").expect("it is there");
        let inner = around(source, &(at..at + 1)).expect("inner");
        assert_eq!(source[inner.body].trim(), "two()");
        let at = source.find("1 }").expect("it is there");
        assert_eq!(around(source, &(at..at + 1)).map(|it| it.is_switchable), Some(false));
    }
}
