//! Lines for a terminal, broken at words.

use std::borrow::Cow;

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, core::Word};

/// How far a line's continuation stands to the right of its beginning.
const HANGING: usize = 2;

/// The text with each line broken into lines of that many columns. A word is never broken, nor is a command between backticks, so that
/// both can be copied, and a line of JSON stays as it is.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    wrapped_below(text, columns, 0)
}

/// The same, where lines go on below what stands at a column, as the last column of a table does.
pub fn wrapped_below(text: &str, columns: usize, at: usize) -> Vec<String> {
    text.split('\n').flat_map(|line| line_wrapped(line, columns, at)).collect()
}

fn line_wrapped(line: &str, columns: usize, at: usize) -> Vec<String> {
    if line.starts_with(['{', '[']) {
        return vec![line.to_owned()];
    }
    let indent = line.len() - line.trim_start_matches(' ').len() + HANGING;
    let indent = " ".repeat(indent.max(at).min(columns / 2));
    let options = Options::new(columns)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(line, options).into_iter().map(Cow::into_owned).collect()
}

/// Words with the spaces after them. What stands between backticks is one word.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let (mut ends, mut is_quoted, mut was_space) = (Vec::new(), false, true);
    for (at, c) in line.char_indices() {
        if was_space && c != ' ' && !is_quoted && at > 0 {
            ends.push(at);
        }
        is_quoted ^= c == '`';
        was_space = c == ' ';
    }
    ends.push(line.len());
    let mut begin = 0;
    Box::new(ends.into_iter().map(move |end| Word::from(&line[std::mem::replace(&mut begin, end)..end])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_broken_at_words_and_goes_on_further_to_the_right() {
        let line = "  because: the table cannot be read";
        assert_eq!(wrapped(line, 20), ["  because: the table", "    cannot be read"]);
        assert_eq!(wrapped("short\n\n  lines", 20), ["short", "", "  lines"]);
        assert_eq!(wrapped("Grüße an die Wüste", 12), ["Grüße an die", "  Wüste"]);
    }

    #[test]
    fn what_can_be_copied_stays_whole() {
        let command = "see it: `redial status m1 --json` or later";
        assert_eq!(wrapped(command, 24), ["see it:", "  `redial status m1 --json`", "  or later"]);
        let url = "http://127.0.0.1:4566/000000000000/redial-ingest";
        assert_eq!(wrapped(&format!("queue {url}"), 20), ["queue", &format!("  {url}")]);
        let json = r#"{"messages": [1, 2, 3], "tenant": "acme"}"#;
        assert_eq!(wrapped(json, 20), [json]);
    }

    #[test]
    fn a_line_may_go_on_below_its_last_column() {
        let line = "ok   tables  the six tables are active";
        assert_eq!(
            wrapped_below(line, 26, 13),
            ["ok   tables  the six", "             tables are", "             active"]
        );
    }

    #[test]
    fn columns_stay_aligned_where_they_fit() {
        assert_eq!(wrapped("ID      STATE", 20), ["ID      STATE"]);
    }
}
