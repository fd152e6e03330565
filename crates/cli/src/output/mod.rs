//! What commands print: tables for people, JSON for programs. Data goes to standard output, everything else to standard error.

mod progress;
mod table;
mod time;

use std::io::{IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

pub(crate) use progress::during;
pub(crate) use table::{Cell, Colour, Table};
pub(crate) use time::{ago, until};

use crate::exact::{Exact, indented};
use crate::exit::{Exit, Failure, Result};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns and relative times.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
}

/// Where and how data is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    colour: bool,
}

impl Output {
    /// To standard output, coloured where a person looks at it and `NO_COLOR` is not set.
    pub(crate) fn new(format: Format) -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { format, colour }
    }

    /// Whether a person reads it.
    pub(crate) fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Items: a table, an array, or a line for each.
    pub(crate) fn list<T: Serialize>(
        &self,
        items: &[T],
        table: impl FnOnce() -> Table,
    ) -> Result<()> {
        match self.format {
            Format::Table => print(&table().render(self.colour)),
            Format::Json => print(&document(&items)?),
            Format::Jsonl => items.iter().try_for_each(|item| print(&line(item)?)),
        }
    }

    /// A page of the server's, whose items are under `key`: as JSON the whole answer, cursor included.
    pub(crate) fn page(
        &self,
        answer: &Exact,
        key: &str,
        table: impl FnOnce(&[Exact]) -> Table,
    ) -> Result<()> {
        let items = answer.field(key).items();
        match self.format {
            Format::Table => {
                print(&table(&items).render(self.colour))?;
                match answer["next_cursor"].as_str() {
                    Some(cursor) => note(&format!("more: --cursor {cursor}")),
                    None => Ok(()),
                }
            }
            Format::Json => print(&document(answer)?),
            Format::Jsonl => items.iter().try_for_each(|item| print(&line(item)?)),
        }
    }

    /// One thing that people read as a table.
    pub(crate) fn table_of<T: Serialize>(
        &self,
        item: &T,
        table: impl FnOnce() -> Table,
    ) -> Result<()> {
        self.one(item, || table().render(self.colour))
    }

    /// One thing: as text for people, as JSON for programs.
    pub(crate) fn one<T: Serialize>(&self, item: &T, text: impl FnOnce() -> String) -> Result<()> {
        match self.format {
            Format::Table => print(&text()),
            Format::Json => print(&document(item)?),
            Format::Jsonl => print(&line(item)?),
        }
    }

    /// One thing as two columns: names and values.
    pub(crate) fn fields<T: Serialize>(
        &self,
        item: &T,
        fields: impl FnOnce() -> Vec<(String, Cell)>,
    ) -> Result<()> {
        let colour = self.colour;
        self.one(item, || {
            let mut table = Table::without_header();
            for (name, value) in fields() {
                table.row([Cell::from(name).colour(Colour::Dim), value]);
            }
            table.render(colour)
        })
    }

    /// A line of a stream: text for people, one JSON object for programs, whichever form was asked for.
    pub(crate) fn event<T: Serialize>(
        &self,
        item: &T,
        cells: impl FnOnce() -> Vec<Cell>,
    ) -> Result<()> {
        match self.format {
            Format::Table => {
                let cells = cells();
                let shown = cells.iter().map(|cell| cell.show(self.colour));
                print(&shown.collect::<Vec<_>>().join("  "))
            }
            Format::Json | Format::Jsonl => print(&line(item)?),
        }
    }
}

/// Prints to standard output. Whoever closed the other end (`| head`) has seen enough.
pub(crate) fn print(text: &str) -> Result<()> {
    written(writeln!(
        std::io::stdout().lock(),
        "{}",
        text.trim_end_matches('\n')
    ))
}

/// Says what a server, or a worker, has to say to whoever started it. It serves on where nobody listens any more.
pub(crate) fn announce(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The same on standard error.
pub(crate) fn announce_aside(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Tells a person something that is not data.
pub(crate) fn note(text: &str) -> Result<()> {
    written(writeln!(std::io::stderr().lock(), "{text}"))
}

fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

fn document<T: Serialize>(item: &T) -> Result<String> {
    Ok(indented(&line(item)?))
}

fn line<T: Serialize>(item: &T) -> Result<String> {
    serde_json::to_string(item).map_err(|error| Failure::new(Exit::Failure, error))
}

/// A JSON value as people read it: text without its quotes, nothing for null.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The same, cut to one short line.
pub(crate) fn brief(value: &Exact) -> String {
    const CHARS_MAX: usize = 80;
    let text = value.plain().replace(['\n', '\r'], " ");
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    let cut: String = text.chars().take(CHARS_MAX - 1).collect();
    cut + "…"
}

/// A stored failure in one line.
pub(crate) fn failure(error: &Value) -> String {
    let message = error["message"]
        .as_str()
        .map_or_else(|| plain(error), str::to_owned);
    match error["type"].as_str() {
        Some(kind) if !message.is_empty() => format!("{kind}: {message}"),
        Some(kind) => kind.to_owned(),
        None => message,
    }
}
