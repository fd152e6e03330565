//! The table at the end of `cargo xtask test`.

use std::fmt::Write as _;

use super::{Counts, Outcome};

/// The sum over all suites.
pub(crate) fn total(outcomes: &[Outcome]) -> Counts {
    let mut sum = Counts::default();
    for outcome in outcomes {
        sum += outcome.counts();
    }
    sum
}

/// The table, then the total as a line of its own. Targets without a single test are left out.
pub(crate) fn render(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for outcome in outcomes {
        for row in &outcome.rows {
            if row.counts != Counts::default() {
                lines.push((outcome.suite, first_line(&row.target), row.counts));
            }
        }
    }
    let total = total(outcomes);
    let suite_width = width(lines.iter().map(|(suite, ..)| *suite).chain(["suite"]));
    let target_width = width(lines.iter().map(|(_, target, _)| *target).chain(["target"]));

    let mut text = format!(
        "{:suite_width$}  {:target_width$}  {:>7}  {:>7}  {:>7}\n",
        "suite", "target", "passed", "failed", "ignored"
    );
    for (suite, target, counts) in lines.iter().copied().chain([("total", "", total)]) {
        let _ = writeln!(
            text,
            "{suite:suite_width$}  {target:target_width$}  {:>7}  {:>7}  {:>7}",
            counts.passed, counts.failed, counts.ignored
        );
    }
    let _ = writeln!(text, "\n{} passed, {} failed", total.passed, total.failed);
    text
}

/// Errors may have many lines, of which the output above has all.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn width<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::Row;

    fn outcome(suite: &'static str, rows: &[(&str, u64, u64)]) -> Outcome {
        let rows = rows
            .iter()
            .map(|&(target, passed, failed)| Row {
                target: target.to_owned(),
                counts: Counts {
                    passed,
                    failed,
                    ignored: 0,
                },
            })
            .collect();
        Outcome { suite, rows }
    }

    #[test]
    fn the_last_line_is_the_total() {
        let text = render(&[
            outcome("tests", &[("core", 5, 0), ("sqlite", 2, 1)]),
            outcome("docs", &[("core", 1, 0)]),
        ]);
        assert_eq!(text.lines().last(), Some("8 passed, 1 failed"));
    }

    #[test]
    fn a_target_without_tests_has_no_line() {
        let text = render(&[outcome("tests", &[("empty", 0, 0), ("core", 1, 0)])]);
        assert!(!text.contains("empty") && text.contains("core"), "{text}");
    }

    #[test]
    fn an_error_of_many_lines_takes_one() {
        let text = render(&[outcome("prove", &[("first\nsecond", 0, 1)])]);
        assert!(text.contains("first") && !text.contains("second"), "{text}");
    }
}
