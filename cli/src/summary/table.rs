//! Tables and numbers that fit 80 columns.

/// What everything fits, unless a terminal has more room.
pub(super) const COLUMNS: usize = 80;

/// Between two columns.
const GAP: usize = 2;

/// A table: its first `left` columns are words, the others numbers. The first column is cut at its front where the line would
/// be longer than `room`.
pub(super) fn lines<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    left: usize,
    room: usize,
) -> Vec<String> {
    let headings = headings.map(str::to_owned);
    let all = || std::iter::once(&headings).chain(rows);
    let mut widths: [usize; N] =
        std::array::from_fn(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let rest = widths.iter().skip(1).map(|width| width + GAP).sum::<usize>();
    let least = headings[0].chars().count();
    widths[0] = widths[0].min(room.saturating_sub(rest)).max(least);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| {
            let cell = if at == 0 { cut(cell, width) } else { cell.clone() };
            if at < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    all().map(line).collect()
}

/// The end of a text that is too long: of a host, it tells the most.
fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let end = text.chars().skip(length - width.saturating_sub(1));
    std::iter::once('…').chain(end).collect()
}

/// A number in five characters at most: `99999`, `123k`, `1.2M`, `12M`.
pub(super) fn short(n: u64) -> String {
    match n {
        0..=99_999 => n.to_string(),
        100_000..=999_999 => format!("{}k", n / 1_000),
        1_000_000..=9_999_999 => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
        10_000_000..=999_999_999 => format!("{}M", n / 1_000_000),
        1_000_000_000.. => format!("{}G", n / 1_000_000_000),
    }
}

/// A text in lines of at most `room` characters, those after the first a little to the right.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right_and_the_first_column_gives_way() {
        let rows = [["updates.push.services.mozilla.com", "open", "7"], ["a", "closed", "12"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            lines(["ORIGIN", "BREAKER", "TRIED"], &rows, 2, 35),
            [
                "ORIGIN               BREAKER  TRIED",
                "…rvices.mozilla.com  open         7",
                "a                    closed      12",
            ]
        );
        assert!(lines(["ORIGIN", "BREAKER", "TRIED"], &rows, 2, 80)[1].starts_with("updates.push"));
        assert!(lines(["ORIGIN", "BREAKER", "TRIED"], &rows, 2, 5)[1].starts_with("…a.com"));
    }

    #[test]
    fn a_number_keeps_what_has_room() {
        let numbers = [0, 99_999, 123_456, 1_234_567, 12_345_678, 7_000_000_000];
        assert_eq!(numbers.map(short), ["0", "99999", "123k", "1.2M", "12M", "7G"]);
    }

    #[test]
    fn a_sentence_is_broken_between_words() {
        assert_eq!(wrapped("one two three four", 9), ["one two", "  three", "  four"]);
        assert_eq!(wrapped("https://a-long-word", 9), ["https://a-long-word"]);
    }
}
