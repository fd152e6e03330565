//! Coverage: which outcomes of which intents a run has seen, and which states. A run in which something never
//! happened proves nothing about it.

mod cells;
mod outcomes;
mod states;

use std::collections::BTreeMap;

use comfy_table::{ContentArrangement, Table, presets};
use everruns_durable::persistence::model::Dump;

use super::request::{Answer, Request};

/// How often each outcome was seen.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    seen: BTreeMap<(&'static str, &'static str), u64>,
}

impl Coverage {
    /// Counts the outcomes of one call.
    pub(crate) fn count(&mut self, request: &Request, answer: &Answer) {
        for outcome in outcomes::of(request, answer) {
            self.hit(request.method(), outcome);
        }
    }

    /// Counts the kinds of rows that a store holds.
    pub(crate) fn look(&mut self, dump: &Dump) {
        for (table, state) in states::of(dump) {
            self.hit(table, state);
        }
    }

    fn hit(&mut self, subject: &'static str, outcome: &'static str) {
        *self.seen.entry((subject, outcome)).or_default() += 1;
    }

    /// What is listed and never happened, as `subject: outcome`.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        listed()
            .filter(|cell| !self.seen.contains_key(cell))
            .map(|(subject, outcome)| format!("{subject}: {outcome}"))
            .collect()
    }

    /// The table of everything listed and everything seen.
    #[must_use]
    pub fn table(&self) -> String {
        let mut rows: BTreeMap<(&str, &str), u64> = listed().map(|cell| (cell, 0)).collect();
        rows.extend(self.seen.iter().map(|(cell, count)| (*cell, *count)));
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["intent", "outcome", "times"]);
        let mut last = "";
        for ((subject, outcome), count) in rows {
            let shown = if subject == last { "" } else { subject };
            table.add_row([shown.to_owned(), outcome.to_owned(), count.to_string()]);
            last = subject;
        }
        table.to_string()
    }
}

fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    cells::CELLS
        .iter()
        .flat_map(|(subject, outcomes)| outcomes.iter().map(move |outcome| (*subject, *outcome)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_contract_is_listed_with_an_outcome() {
        for method in Request::METHODS {
            assert!(listed().any(|(subject, _)| subject == *method), "{method}");
        }
    }

    #[test]
    fn what_never_happened_is_missing() {
        let mut coverage = Coverage::default();
        assert!(coverage.missing().contains(&"counts: read".to_owned()));
        coverage.hit("counts", "read");
        assert!(!coverage.missing().contains(&"counts: read".to_owned()));
    }
}
