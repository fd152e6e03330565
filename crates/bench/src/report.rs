//! Figures, for people and for programs.

use comfy_table::Table;
use serde_json::json;

/// One batch size, measured.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) db: String,
    pub(crate) batch: usize,
    pub(crate) runs: usize,
    pub(crate) connections: usize,
    /// Turns per second of each repetition.
    pub(crate) store: Vec<f64>,
    /// The same by bare statements; empty where there is no raw counterpart.
    pub(crate) raw: Vec<f64>,
}

impl Figure {
    fn ratio(&self) -> Option<f64> {
        let ratios = self
            .store
            .iter()
            .zip(&self.raw)
            .map(|(store, raw)| store / raw);
        median(&ratios.collect::<Vec<_>>())
    }

    /// One line of JSON.
    pub(crate) fn json(&self) -> String {
        let raw = median(&self.raw).map(f64::round);
        json!({
            "job": "store", "db": self.db, "mode": "embedded", "batch": self.batch, "runs": self.runs,
            "connections": self.connections, "turns_per_s": median(&self.store).map(f64::round),
            "raw": raw, "ratio": self.ratio().map(|r| (r * 1000.0).round() / 1000.0),
        })
        .to_string()
    }
}

/// A table for people.
pub(crate) fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.set_header(["batch", "runs", "turns/s", "bare statements/s", "ratio"]);
    for figure in figures {
        let show = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        };
        table.add_row([
            figure.batch.to_string(),
            figure.runs.to_string(),
            show(median(&figure.store), 0),
            show(median(&figure.raw), 0),
            show(figure.ratio(), 2),
        ]);
    }
    table
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }
}
