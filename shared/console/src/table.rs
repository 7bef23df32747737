//! Tables for people: aligned columns, two spaces apart, plain text without colours or borders.
//!
//! Where a terminal's width is given, columns give way in their own order: they are left out or cut, never wrapped, so that a
//! row stays one line for `grep` and the eye. Table crates such as `comfy-table` wrap instead, and know neither an order nor
//! pages that keep the widths of the first one.

use std::borrow::Cow;

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
}

impl Column {
    /// Aligned to the left.
    pub fn text(heading: impl Into<Cow<'static, str>>) -> Self {
        Self { heading: heading.into(), is_number: false, narrow: None }
    }

    /// Aligned to the right.
    pub fn number(heading: impl Into<Cow<'static, str>>) -> Self {
        Self { is_number: true, ..Self::text(heading) }
    }

    /// Lets the column make room; columns do so in ascending order, until the table fits.
    pub fn narrowed(self, order: u8, narrow: Narrow) -> Self {
        Self { narrow: Some((order, narrow)), ..self }
    }

    fn cell(&self, text: &str, width: usize) -> String {
        let length = text.chars().count();
        let text: String = match self.narrow {
            Some((_, Narrow::CutEnd)) if length > width => {
                text.chars().take(width - 1).chain(['…']).collect()
            }
            Some((_, Narrow::CutStart)) if length > width => {
                ['…'].into_iter().chain(text.chars().skip(length - width + 1)).collect()
            }
            Some(_) | None => text.to_owned(),
        };
        if self.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
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
    pub fn lines(mut self) -> Vec<String> {
        self.page()
    }

    /// The rows that were added since the last page. The first page begins with the headings, and the others keep its widths.
    pub fn page(&mut self) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let mut rows = std::mem::take(&mut self.rows);
        if self.layout.is_none() && self.columns.iter().any(|column| !column.heading.is_empty()) {
            rows.insert(0, self.columns.iter().map(|column| column.heading.to_string()).collect());
        }
        let layout = self.layout.take().unwrap_or_else(|| self.arranged(&rows));
        let layout = &*self.layout.insert(layout);
        let line = |row: &Vec<String>| {
            let cells = layout.iter().map(|(at, width)| self.columns[*at].cell(&row[*at], *width));
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }

    /// Columns that are empty from top to bottom are not shown.
    fn arranged(&self, rows: &[Vec<String>]) -> Vec<(usize, usize)> {
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
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
                        let least = LEAST_WIDTH.max(self.columns[at].heading.chars().count()).min(*width);
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
    fn later_pages_keep_the_widths_of_the_first() {
        let mut table = origins(Narrow::CutEnd).within(Some(29));
        assert_eq!(table.page()[0], "ORIGIN                BREAKER");
        table.add(row(["another.origin.that.is.long", "half_open", "1", ""]));
        assert_eq!((table.waiting(), table.page()), (1, vec!["another.origin.that…  half_open".to_owned()]));
        assert!(table.page().is_empty());
    }
}
