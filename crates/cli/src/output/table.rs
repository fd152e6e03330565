//! Aligned columns, coloured where a person looks.

use unicode_width::UnicodeWidthStr as _;

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// It went well.
    Good,
    /// It did not.
    Bad,
    /// It is under way, or wants attention.
    Notable,
    /// Beside the point.
    Dim,
}

/// A text, perhaps coloured.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    /// The same, coloured.
    pub(crate) fn colour(mut self, colour: Colour) -> Self {
        self.colour = Some(colour);
        self
    }

    /// The same, filled up to a width.
    pub(crate) fn wide(mut self, width: usize) -> Self {
        let gap = width.saturating_sub(self.text.width());
        self.text.push_str(&" ".repeat(gap));
        self
    }

    /// A status, in the colour it has everywhere.
    pub(crate) fn status(status: impl Into<String>) -> Self {
        let text = status.into();
        let colour = match text.as_str() {
            "completed" | "healthy" | "active" | "closed" | "ok" | "applied" => Colour::Good,
            "failed" | "terminated" | "dead" | "unhealthy" | "stale" | "open" | "blocked" => {
                Colour::Bad
            }
            "running" | "claimed" | "draining" | "degraded" | "half_open" | "warn" => {
                Colour::Notable
            }
            _ => Colour::Dim,
        };
        Self::from(text).colour(colour)
    }

    /// With its colour, where that is wanted.
    pub(crate) fn show(&self, coloured: bool) -> String {
        let code = match self.colour {
            Some(Colour::Good) => "32",
            Some(Colour::Bad) => "31",
            Some(Colour::Notable) => "33",
            Some(Colour::Dim) => "2",
            None => return self.text.clone(),
        };
        if coloured {
            format!("\u{1b}[{code}m{}\u{1b}[0m", self.text)
        } else {
            self.text.clone()
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    /// Control characters would move the reader's cursor, or worse: they are shown as what they are.
    fn from(text: T) -> Self {
        let text: String = text.into();
        let text = if text.chars().any(char::is_control) {
            text.chars()
                .flat_map(|c| {
                    if c.is_control() {
                        c.escape_default().collect::<Vec<_>>()
                    } else {
                        vec![c]
                    }
                })
                .collect()
        } else {
            text
        };
        Self { text, colour: None }
    }
}

/// Rows of cells.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with a header.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        let header = header.map(|name| Cell::from(name).colour(Colour::Dim));
        Self {
            rows: vec![header.into()],
        }
    }

    pub(crate) fn without_header() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// Columns as wide as their widest cell, two spaces apart.
    pub(crate) fn render(&self, coloured: bool) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<Cell>| {
            let last = row.len().saturating_sub(1);
            let cells = row.iter().enumerate().map(|(at, cell)| {
                let gap = if at == last {
                    0
                } else {
                    widths[at] - cell.text.width()
                };
                format!("{}{}", cell.show(coloured), " ".repeat(gap))
            });
            cells.collect::<Vec<_>>().join("  ")
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_the_letters_and_colours() {
        let mut table = Table::new(["NAME", "STATUS"]);
        table.row(["日本".into(), Cell::status("failed")]);
        table.row(["abcdef".into(), Cell::status("completed")]);
        assert_eq!(
            table.render(false),
            "NAME    STATUS\n日本    failed\nabcdef  completed"
        );
        assert!(table.render(true).contains("\u{1b}[31mfailed\u{1b}[0m"));
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        let cell = Cell::from("a\u{1b}[2Jb\n");
        assert_eq!(cell.show(true), "a\\u{1b}[2Jb\\n");
    }
}
