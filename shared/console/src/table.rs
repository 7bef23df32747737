//! Tables for people: aligned columns, two spaces apart, without borders. A column may say which of its cells stand out.
//!
//! Where a terminal's width is given, columns give way in their own order: they are left out or cut, never wrapped, so that a
//! row stays one line for `grep` and the eye. Table crates such as `comfy-table` wrap instead, and know neither an order nor
//! pages that keep the widths of the first one.

use std::borrow::Cow;

use textwrap::core::display_width;

use crate::{line::Line, tone::Tone};

const GAP: usize = 2;

/// No cell is cut to fewer characters.
const LEAST_WIDTH: usize = 8;

/// How a column makes room in a terminal that is too narrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Narrow {
    LeaveOut,
    /// Keeps the start of each cell.
    CutEnd,
    /// Keeps the end of each cell: of a host name, that says the most.
    CutStart,
}

#[derive(Clone, Debug)]
pub struct Column {
    heading: Cow<'static, str>,
    is_number: bool,
    narrow: Option<(u8, Narrow)>,
    /// No cell is cut to fewer characters.
    least: usize,
    tone: fn(&str) -> Option<Tone>,
}

impl Column {
    /// Aligned to the left.
    pub fn text(heading: impl Into<Cow<'static, str>>) -> Self {
        Self { heading: heading.into(), is_number: false, narrow: None, least: LEAST_WIDTH, tone: |_| None }
    }

    /// Aligned to the right.
    pub fn number(heading: impl Into<Cow<'static, str>>) -> Self {
        Self { is_number: true, ..Self::text(heading) }
    }

    /// Lets the column make room; columns do so in ascending order, until the table fits.
    pub fn narrowed(self, order: u8, narrow: Narrow) -> Self {
        Self { narrow: Some((order, narrow)), ..self }
    }

    /// Cuts no cell to fewer characters than this.
    pub fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// What a cell of this text means.
    pub fn toned(self, tone: fn(&str) -> Option<Tone>) -> Self {
        Self { tone, ..self }
    }

    /// The text as it fits, and the spaces that fill up the column.
    fn cell<'a>(&self, text: &'a str, width: usize) -> (Cow<'a, str>, String) {
        let text = match self.narrow {
            Some((_, Narrow::CutEnd)) if display_width(text) > width => {
                Cow::Owned(within(text.chars(), width - 1).into_iter().chain(['…']).collect())
            }
            Some((_, Narrow::CutStart)) if display_width(text) > width => {
                let end = within(text.chars().rev(), width - 1);
                Cow::Owned(['…'].into_iter().chain(end.into_iter().rev()).collect())
            }
            Some(_) | None => Cow::Borrowed(text),
        };
        let fill = " ".repeat(width.saturating_sub(display_width(&text)));
        (text, fill)
    }

    /// The line with a cell of this column at its end.
    fn append(&self, line: Line, text: &str, width: usize, tone: Option<Tone>) -> Line {
        let (text, fill) = self.cell(text, width);
        if self.is_number {
            line.then(&fill, None).then(&text, tone)
        } else {
            line.then(&text, tone).then(&fill, None)
        }
    }
}

/// The first characters, as many as that many columns of a terminal show.
fn within(text: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut left = columns;
    let fits = |c: &char| {
        let width = display_width(c.encode_utf8(&mut [0; 4]));
        let has_room = width <= left;
        left = left.saturating_sub(width);
        has_room
    };
    text.take_while(fits).collect()
}

/// The rows of a page of a long list; the first of them fix the widths of the columns.
pub const ROWS: usize = 50;

/// Columns and the rows that wait to be printed.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    terminal: Option<usize>,
    /// Index and width of the columns that are printed, fixed by the first page.
    layout: Option<Vec<(usize, usize)>>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), terminal: None, layout: None }
    }

    /// Fits the table into this number of characters, if there is one.
    pub fn within(self, terminal: Option<usize>) -> Self {
        Self { terminal, ..self }
    }

    /// Adds rows: a cell for each column.
    pub fn with(mut self, rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>) -> Self {
        rows.into_iter().for_each(|row| self.add(row));
        self
    }

    pub fn add(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    pub fn waiting(&self) -> usize {
        self.rows.len()
    }

    /// The headings, if there are any, and all rows.
    pub fn lines(mut self) -> Vec<Line> {
        self.page()
    }

    /// The rows that were added since the last page. The first page begins with the headings, and the others keep its widths.
    pub fn page(&mut self) -> Vec<Line> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let mut rows = std::mem::take(&mut self.rows);
        let has_headings =
            self.layout.is_none() && self.columns.iter().any(|column| !column.heading.is_empty());
        if has_headings {
            rows.insert(0, self.columns.iter().map(|column| column.heading.to_string()).collect());
        }
        let layout = self.layout.take().unwrap_or_else(|| self.arranged(&rows));
        let layout = &*self.layout.insert(layout);
        let line = |(number, row): (usize, &Vec<String>)| {
            let mut line = Line::default();
            for (nth, (at, width)) in layout.iter().enumerate() {
                let (column, text) = (&self.columns[*at], &row[*at]);
                let tone =
                    if has_headings && number == 0 { Some(Tone::Heading) } else { (column.tone)(text) };
                let gap = if nth == 0 { 0 } else { GAP };
                line = column.append(line.then(&" ".repeat(gap), None), text, *width, tone);
            }
            line.trimmed()
        };
        rows.iter().enumerate().map(line).collect()
    }

    /// Columns that are empty from top to bottom are not shown.
    fn arranged(&self, rows: &[Vec<String>]) -> Vec<(usize, usize)> {
        let width = |at: usize| rows.iter().map(|row| display_width(&row[at])).max().unwrap_or(0);
        let all = (0..self.columns.len()).map(|at| (at, width(at)));
        let mut layout: Vec<(usize, usize)> = all.filter(|(_, width)| *width > 0).collect();
        let mut narrowing: Vec<(u8, Narrow, usize)> = (self.columns.iter().enumerate())
            .filter_map(|(at, column)| column.narrow.map(|(order, narrow)| (order, narrow, at)))
            .collect();
        narrowing.sort_by_key(|(order, ..)| *order);
        for (_, narrow, at) in narrowing {
            let total = layout.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP);
            let over = self.terminal.map_or(0, |terminal| total.saturating_sub(terminal));
            match narrow {
                Narrow::LeaveOut => layout.retain(|(of, _)| over == 0 || *of != at),
                Narrow::CutEnd | Narrow::CutStart => {
                    for (_, width) in layout.iter_mut().filter(|(of, _)| *of == at) {
                        let least =
                            self.columns[at].least.max(display_width(&self.columns[at].heading)).min(*width);
                        *width = width.saturating_sub(over).max(least);
                    }
                }
            }
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
        cells.map(str::to_owned)
    }

    fn origins(narrow: Narrow) -> Table {
        let origin = Column::text("ORIGIN").narrowed(2, narrow);
        let tried = Column::number("TRIED").narrowed(1, Narrow::LeaveOut);
        Table::new([origin, Column::text("BREAKER"), tried, Column::text("")]).with([
            row(["updates.push.services.mozilla.com", "open", "7", ""]),
            row(["a", "closed", "12", ""]),
        ])
    }

    #[test]
    fn words_stand_left_numbers_right_and_empty_columns_nowhere() {
        let whole = [
            "ORIGIN                             BREAKER  TRIED",
            "updates.push.services.mozilla.com  open         7",
            "a                                  closed      12",
        ];
        for terminal in [None, Some(whole[0].len()), Some(1_000)] {
            assert_eq!(origins(Narrow::CutEnd).within(terminal).lines(), whole, "{terminal:?}");
        }
        let without_headings = Table::new([Column::text(""), Column::text("")]);
        assert_eq!(without_headings.with([row(["k1", "x"])]).lines(), ["k1  x"]);
    }

    #[test]
    fn columns_give_way_in_their_order() {
        let second = |narrow, terminal| origins(narrow).within(Some(terminal)).lines()[1].clone();
        assert_eq!(second(Narrow::CutEnd, 48), "updates.push.services.mozilla.com  open");
        assert_eq!(second(Narrow::CutEnd, 29), "updates.push.servic…  open");
        assert_eq!(second(Narrow::CutStart, 29), "…ervices.mozilla.com  open");
        assert_eq!(second(Narrow::CutStart, 5), "…lla.com  open");
    }

    #[test]
    fn a_tone_takes_no_room_and_is_of_the_whole_cell() {
        let state = Column::text("STATE").narrowed(1, Narrow::CutEnd);
        let state = state.toned(|text| (text == "quarantined").then_some(Tone::Alarm));
        let table = Table::new([state, Column::number("N").toned(|_| Some(Tone::Caution))]);
        let table = table.with([row(["quarantined", "7"]), row(["active", "12"])]);
        let plain = table.clone().lines();
        assert_eq!(plain, ["STATE         N", "quarantined   7", "active       12"]);
        let painted: Vec<String> =
            table.within(Some(12)).lines().iter().map(|line| line.painted(str::to_owned)).collect();
        let (bold, red, yellow, end) = ("\u{1b}[1m", "\u{1b}[31m", "\u{1b}[33m", "\u{1b}[0m");
        let expected = [
            format!("{bold}STATE{end}      {bold}N{end}"),
            format!("{red}quarant…{end}   {yellow}7{end}"),
            format!("active    {yellow}12{end}"),
        ];
        assert_eq!(painted, expected);
    }

    #[test]
    fn a_column_is_as_wide_as_what_is_seen() {
        let label = Column::text("LABEL").narrowed(1, Narrow::CutEnd);
        let table = Table::new([label, Column::text("ID")])
            .with([row(["日本語の店", "k1"]), row(["e\u{301}", "k2"])]);
        assert_eq!(table.clone().lines(), ["LABEL       ID", "日本語の店  k1", "e\u{301}           k2"]);
        assert_eq!(table.within(Some(12)).lines()[1], "日本語…   k1");
    }

    #[test]
    fn a_column_may_keep_more_than_others() {
        let id = Column::text("ID").narrowed(1, Narrow::CutEnd).at_least(12);
        let table = Table::new([id, Column::text("WHERE").narrowed(2, Narrow::CutEnd)]);
        let table = table.with([row(["an-id-that-is-long", "waiting for its hours"])]).within(Some(28));
        assert_eq!(table.lines()[1], "an-id-that-…  waiting for i…");
    }

    #[test]
    fn later_pages_keep_the_widths_of_the_first() {
        let mut table = origins(Narrow::CutEnd).within(Some(29));
        assert_eq!(table.page()[0], "ORIGIN                BREAKER");
        table.add(row(["another.origin.that.is.long", "half_open", "1", ""]));
        assert_eq!((table.waiting(), table.page()), (1, vec!["another.origin.that…  half_open".into()]));
        assert!(table.page().is_empty());
    }
}
