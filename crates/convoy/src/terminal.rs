//! How convoy speaks to people: colour and bars on a terminal, plain lines when piped.

use std::io::IsTerminal as _;

/// Whether output may be coloured and redrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// A person watches: colour, bars.
    Terminal,
    /// A file, a pipe or a log: one line a step, no escape sequences.
    Plain,
}

impl Display {
    /// What standard output and standard error are. `NO_COLOR` and `TERM=dumb` ask for plain output.
    pub(crate) fn detect() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() && !set("NO_COLOR") && !dumb {
            Self::Terminal
        } else {
            Self::Plain
        }
    }

    /// The text in a colour, where colour is shown.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        match self {
            Self::Terminal => format!("\x1b[{}m{text}\x1b[0m", colour as u8),
            Self::Plain => text.to_owned(),
        }
    }
}

/// Colours by what they mean, as SGR codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold = 1,
    Bad = 31,
    Good = 32,
    Changed = 33,
    Place = 36,
}

/// A table with left-aligned columns, three spaces apart, as kubectl prints them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

/// Text of a cell and its colour; the width is that of the text alone.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), colour: None }
    }
}

impl Cell {
    pub(crate) fn coloured(text: impl Into<String>, colour: Colour) -> Self {
        Self { text: text.into(), colour: Some(colour) }
    }
}

impl Table {
    /// A table with headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).into()).collect()] }
    }

    /// Adds a row; it has as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text, a line for each row.
    pub(crate) fn render(&self, display: Display) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|index| {
                self.rows.iter().filter_map(|row| row.get(index)).map(Cell::width).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let painted =
                    cell.colour.map_or_else(|| cell.text.clone(), |colour| display.paint(colour, &cell.text));
                line.push_str(&painted);
                if index + 1 < row.len() {
                    line.push_str(&" ".repeat(width - cell.width() + 3));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Cell {
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "STATUS"]);
        table.row(vec!["web-prod-eu".into(), Cell::coloured("Ready", Colour::Good)]);
        table.row(vec!["b".into(), "".into()]);
        table
    }

    #[test]
    fn columns_align_and_lines_have_no_trailing_space() {
        assert_eq!(table().render(Display::Plain), "NAME          STATUS\nweb-prod-eu   Ready\nb\n");
    }

    #[test]
    fn colour_does_not_move_columns() {
        let text = table().render(Display::Terminal);
        assert!(text.contains("web-prod-eu   \x1b[32mReady\x1b[0m\n"), "{text:?}");
    }
}
