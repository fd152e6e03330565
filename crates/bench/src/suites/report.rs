//! What a suite found: rows of figures, and why a row failed.

use std::process::ExitCode;

use comfy_table::Table;
use serde_json::{Map, Value, json};

/// The rows of one suite.
#[derive(Debug)]
pub(super) struct Report {
    columns: &'static [&'static str],
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    failures: Vec<String>,
}

impl Report {
    /// An empty report; the verdict is a column of its own behind these.
    pub(super) const fn new(columns: &'static [&'static str]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row and tells of it at once, since a suite takes long.
    pub(super) fn row(&mut self, cells: Vec<String>, failures: Vec<String>) {
        let verdict = verdict(&failures);
        eprintln!("{}: {verdict}", cells.join(" | "));
        self.rows.push(Row { cells, failures });
    }

    /// Prints all rows and answers what the process exits with. A report without rows is a failure:
    /// nothing was shown.
    pub(super) fn print(self, as_json: bool) -> ExitCode {
        let failed = self.rows.iter().filter(|r| !r.failures.is_empty()).count();
        if as_json {
            for row in &self.rows {
                println!("{}", row.json(self.columns));
            }
        } else {
            let mut table = Table::new();
            // Rows only: the reader's eye needs the columns, and a log has no room for rules.
            table.load_style(comfy_table::presets::NOTHING);
            table.set_header(self.columns.iter().copied().chain(["verdict"]));
            for row in &self.rows {
                table.add_row(row.cells.iter().cloned().chain([clipped(&row.failures)]));
            }
            println!("{table}");
            println!("{} rows, {failed} failed", self.rows.len());
        }
        if failed == 0 && !self.rows.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl Row {
    fn json(&self, columns: &[&str]) -> Value {
        let mut object: Map<String, Value> = columns
            .iter()
            .zip(&self.cells)
            .map(|(column, cell)| ((*column).to_owned(), json!(cell)))
            .collect();
        object.insert("failures".to_owned(), json!(self.failures));
        Value::Object(object)
    }
}

/// Most characters that a table shows of one reason; the line that was printed when it happened has
/// all of it.
const SHOWN_MAX: usize = 100;

fn verdict(failures: &[String]) -> String {
    if failures.is_empty() {
        "ok".to_owned()
    } else {
        format!("FAILED: {}", failures.join("; "))
    }
}

/// The same for a cell of a table.
fn clipped(failures: &[String]) -> String {
    let short: Vec<String> = failures
        .iter()
        .map(|why| why.chars().take(SHOWN_MAX).collect())
        .collect();
    verdict(&short)
}
