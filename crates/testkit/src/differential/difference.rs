//! Differences between two stores, readable.

use std::fmt::{self, Debug, Write as _};

use everruns_durable::persistence::model::Dump;

use super::request::Answer;
use crate::audit::AuditReport;

/// Lines shown of one difference.
const LINES_MAX: usize = 80;
/// Lines of which the exact difference is worked out; beyond, the two are shown one after the other.
const ALIGNED_MAX: usize = 600;

/// The first thing on which two stores disagree.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Where: the call, or the table.
    pub what: String,
    /// Lines only the first store has (`-`) and only the second (`+`), with their surroundings.
    pub lines: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        for line in self.lines.iter().take(LINES_MAX) {
            writeln!(f, "    {line}")?;
        }
        let more = self.lines.len().saturating_sub(LINES_MAX);
        if more > 0 {
            writeln!(f, "    … {more} more lines")?;
        }
        Ok(())
    }
}

/// The difference between two answers to the same call, if there is one.
pub(crate) fn of_answers(method: &str, first: &Answer, second: &Answer) -> Option<Difference> {
    (first != second).then(|| Difference {
        what: format!("the answers to {method} differ"),
        lines: diff(first, second),
    })
}

/// What the audit says about content that is equal in both.
pub(crate) fn of_audit(report: &AuditReport) -> Option<Difference> {
    (!report.is_clean()).then(|| Difference {
        what: "both stores hold what the audit does not allow".into(),
        lines: report.violations.iter().map(ToString::to_string).collect(),
    })
}

/// The difference between two dumps, if there is one: the first table, and in it the first row.
pub(crate) fn of_dumps(first: &Dump, second: &Dump) -> Option<Difference> {
    if first == second {
        return None;
    }
    let runs = |dump: &Dump| dump.runs.iter().map(|run| run.run.id).collect::<Vec<_>>();
    if runs(first) != runs(second) {
        return Some(table("runs", &runs(first), &runs(second)));
    }
    for (a, b) in first.runs.iter().zip(&second.runs) {
        if a != b {
            let name = format!("run {}", a.run.id);
            return Some(table(&name, a, b));
        }
    }
    let tables = [
        rows("keys", &first.keys, &second.keys),
        rows("dead letters", &first.dead_letters, &second.dead_letters),
        rows("schedules", &first.schedules, &second.schedules),
        rows("workers", &first.workers, &second.workers),
        rows("breakers", &first.breakers, &second.breakers),
        rows("dedup", &first.dedup, &second.dedup),
        rows("rollups", &first.rollups, &second.rollups),
        rows("audit rows", &first.audit, &second.audit),
    ];
    tables.into_iter().flatten().next()
}

fn rows<T: Debug + PartialEq>(name: &str, first: &[T], second: &[T]) -> Option<Difference> {
    if first == second {
        return None;
    }
    // Rows that both hold say nothing.
    let only = |of: &[T], other: &[T]| -> Vec<String> {
        of.iter()
            .filter(|row| !other.contains(row))
            .map(|row| format!("{row:#?}"))
            .collect()
    };
    let (a, b) = (only(first, second), only(second, first));
    if a.is_empty() && b.is_empty() {
        return Some(table(name, first, second));
    }
    Some(Difference {
        what: format!("the stores hold different {name}"),
        lines: aligned(&a.join("\n"), &b.join("\n")),
    })
}

fn table<T: Debug + ?Sized>(name: &str, first: &T, second: &T) -> Difference {
    Difference {
        what: format!("the stores hold different rows in {name}"),
        lines: diff(first, second),
    }
}

fn diff<T: Debug + ?Sized>(first: &T, second: &T) -> Vec<String> {
    let mut texts = (String::new(), String::new());
    write!(texts.0, "{first:#?}").expect("a String takes all");
    write!(texts.1, "{second:#?}").expect("a String takes all");
    aligned(&texts.0, &texts.1)
}

/// A line diff: what both begin and end with is left out, but for two lines.
fn aligned(first: &str, second: &str) -> Vec<String> {
    let a: Vec<&str> = first.lines().collect();
    let b: Vec<&str> = second.lines().collect();
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail = a[head..]
        .iter()
        .rev()
        .zip(b[head..].iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let (middle_a, middle_b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut lines: Vec<String> = a[head.saturating_sub(2)..head]
        .iter()
        .map(|line| format!("  {line}"))
        .collect();
    if middle_a.len().max(middle_b.len()) > ALIGNED_MAX {
        lines.extend(middle_a.iter().take(30).map(|line| format!("- {line}")));
        lines.extend(middle_b.iter().take(30).map(|line| format!("+ {line}")));
    } else {
        lines.extend(longest_common(middle_a, middle_b));
    }
    let end = a.len() - tail;
    lines.extend(a[end..].iter().take(2).map(|line| format!("  {line}")));
    lines
}

/// The textbook longest common subsequence; runs of equal lines in between are cut to one.
fn longest_common(a: &[&str], b: &[&str]) -> Vec<String> {
    let mut length = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i][j] = if a[i] == b[j] {
                length[i + 1][j + 1] + 1
            } else {
                length[i + 1][j].max(length[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines: Vec<String> = Vec::new();
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            let shown = lines.last().is_some_and(|line| line.starts_with("  "));
            if !shown {
                lines.push(format!("  {}", a[i]));
            }
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && length[i + 1][j] >= length[i][j + 1] {
            lines.push(format!("- {}", a[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn a_diff_shows_what_differs_and_little_else() {
        let lines = aligned("a\nb\nc\nd\ne\nf", "a\nb\nc\nX\ne\nf");
        assert_eq!(lines, ["  b", "  c", "- d", "+ X", "  e", "  f"]);
        assert_eq!(aligned("a", "a\nb"), ["  a", "+ b"]);
    }
}
