//! Prometheus' text form.

use std::fmt::Write as _;

use everruns_durable::admin::Durations;

use crate::measures::Histogram;

/// A page of measures under construction.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Says what a measure is; its values follow.
    pub(super) fn measure(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = writeln!(self.0, "{name}{} {value}", shown(labels));
    }

    /// A measure with one value.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.measure(name, kind, help);
        self.value(name, &[], value);
    }

    /// A histogram of whatever was counted.
    #[allow(clippy::cast_precision_loss, reason = "Prometheus' values are doubles")]
    pub(super) fn counted(&mut self, name: &str, help: &str, values: &Histogram) {
        self.measure(name, "histogram", help);
        for (bound, count) in values.buckets() {
            self.bucket(name, &[], &bound.to_string(), count);
        }
        self.bucket(name, &[], "+Inf", values.count());
        self.value(&format!("{name}_sum"), &[], values.sum());
        self.value(&format!("{name}_count"), &[], values.count() as f64);
    }

    /// A histogram of durations, in seconds.
    #[allow(clippy::cast_precision_loss, reason = "Prometheus' values are doubles")]
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], durations: &Durations) {
        let mut seen = 0;
        for (exp, count) in &durations.by_exp {
            seen += count;
            let within = (f64::from(*exp).exp2() / 1_000.0).to_string();
            self.bucket(name, labels, &within, seen);
        }
        self.bucket(name, labels, "+Inf", durations.count);
        self.value(
            &format!("{name}_sum"),
            labels,
            durations.total_ms as f64 / 1_000.0,
        );
        self.value(&format!("{name}_count"), labels, durations.count as f64);
    }

    #[allow(clippy::cast_precision_loss, reason = "Prometheus' values are doubles")]
    fn bucket(&mut self, name: &str, labels: &[(&str, &str)], within: &str, count: u64) {
        let mut labels = labels.to_vec();
        labels.push(("le", within));
        self.value(&format!("{name}_bucket"), &labels, count as f64);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

fn shown(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| {
        value
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', r"\n")
    };
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.value("m", &[("a", "x\"\\\n")], 1.5);
        assert_eq!(text.finish(), "m{a=\"x\\\"\\\\\\n\"} 1.5\n");
    }

    #[test]
    fn buckets_add_up() {
        let durations = Durations {
            by_exp: [(0, 1), (10, 2)].into(),
            count: 3,
            total_ms: 2_000,
            wait_ms: 0,
        };
        let mut text = Text::default();
        text.histogram("d", &[], &durations);
        let lines = [
            "d_bucket{le=\"0.001\"} 1",
            "d_bucket{le=\"1.024\"} 3",
            "d_bucket{le=\"+Inf\"} 3",
            "d_sum 2",
            "d_count 3",
            "",
        ];
        assert_eq!(text.finish(), lines.join("\n"));
    }
}
