//! The table for people.

use comfy_table::Table;
use serde_json::{Map, Value};

use super::{Earlier, Line};
use crate::figures::{Better, Figures};

/// One row a case: what was measured, what bare statements reach, what it was before.
pub(super) fn render(lines: &[Line]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "job",
        "mode",
        "case",
        "figures",
        "raw",
        "ratio",
        "checkpoint",
    ]);
    for line in lines {
        match line {
            Line::Measured { figures, earlier } => {
                table.add_row([
                    figures.job.to_owned(),
                    figures.mode.as_str().to_owned(),
                    pairs(&figures.parameters),
                    pairs(&figures.values),
                    figures
                        .raw
                        .map_or_else(String::new, |raw| format!("{raw:.3}")),
                    figures
                        .ratio()
                        .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                    earlier
                        .as_ref()
                        .map_or_else(String::new, |earlier| change(figures, earlier)),
                ]);
            }
            Line::Failed { job, why } => {
                table.add_row([*job, "", "failed", why, "", "", ""]);
            }
            Line::Skipped { job, why } => {
                table.add_row([*job, "", "skipped", why, "", "", ""]);
            }
        }
    }
    table
}

fn pairs(values: &Map<String, Value>) -> String {
    let shown: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name} {}", plain(value)))
        .collect();
    shown.join("\n")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// How the headline has changed: `+3.1 % better than quiet`.
pub(super) fn change(figures: &Figures, earlier: &Earlier) -> String {
    let change = (figures.headline.value / earlier.value - 1.0) * 100.0;
    let good = match figures.headline.better {
        Better::Higher => change >= 0.0,
        Better::Lower => change <= 0.0,
    };
    let word = if good { "better" } else { "worse" };
    format!("{change:+.1} %, {word} than {}", earlier.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    #[test]
    fn better_depends_on_the_figure() {
        let earlier = Earlier {
            name: "then".to_owned(),
            value: 10.0,
        };
        let rate = Figures::rate("J1", Mode::Embedded, "activities_per_s", 11.0);
        assert_eq!(change(&rate, &earlier), "+10.0 %, better than then");
        let time = Figures::time("J3", Mode::Embedded, "p50_ms", 11.0);
        assert_eq!(change(&time, &earlier), "+10.0 %, worse than then");
    }

    #[test]
    fn what_failed_is_in_the_table() {
        let line = Line::Failed {
            job: "J6",
            why: "too slow".to_owned(),
        };
        let table = render(&[line]).to_string();
        assert!(
            table.contains("J6") && table.contains("too slow"),
            "{table}"
        );
    }
}
