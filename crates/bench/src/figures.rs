//! What a measurement came to, whichever job it was.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::options::Mode;

/// One case of one job, measured.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Which job.
    pub(crate) job: &'static str,
    /// Where the work was done.
    pub(crate) mode: Mode,
    /// What distinguishes this case: sizes, variants.
    pub(crate) parameters: Map<String, Value>,
    /// What was measured.
    pub(crate) values: Map<String, Value>,
    /// The figure that counts most: the one that is compared with bare statements and with checkpoints.
    pub(crate) headline: Headline,
    /// The same by bare statements, in the headline's unit.
    pub(crate) raw: Option<f64>,
    /// Latencies, for the report's charts.
    pub(crate) histograms: Vec<(&'static str, Histogram<u64>)>,
    /// What was done up to a moment, for the report's charts.
    pub(crate) series: Option<Series>,
}

/// The figure that counts most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Headline {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its value.
    pub(crate) value: f64,
    /// Whether more is better.
    pub(crate) better: Better,
}

/// Which way a figure should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// A rate.
    Higher,
    /// A time, a cost.
    Lower,
}

impl Figures {
    /// A case with its headline figure.
    pub(crate) fn new(job: &'static str, mode: Mode, headline: Headline) -> Self {
        let mut values = Map::new();
        values.insert(headline.name.to_owned(), number(headline.value));
        Self {
            job,
            mode,
            parameters: Map::new(),
            values,
            headline,
            raw: None,
            histograms: Vec::new(),
            series: None,
        }
    }

    /// A case whose headline is a rate.
    pub(crate) fn rate(job: &'static str, mode: Mode, name: &'static str, value: f64) -> Self {
        let better = Better::Higher;
        Self::new(
            job,
            mode,
            Headline {
                name,
                value,
                better,
            },
        )
    }

    /// A case whose headline is a time.
    pub(crate) fn time(job: &'static str, mode: Mode, name: &'static str, value: f64) -> Self {
        let better = Better::Lower;
        Self::new(
            job,
            mode,
            Headline {
                name,
                value,
                better,
            },
        )
    }

    /// The same with a parameter.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a measured value.
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        self.values.insert(name.to_owned(), number(value));
    }

    /// Adds several measured values.
    pub(crate) fn add_all<'a>(&mut self, values: impl IntoIterator<Item = (&'a str, f64)>) {
        for (name, value) in values {
            self.add(name, value);
        }
    }

    /// Adds a list of measured values.
    pub(crate) fn add_list(&mut self, name: &str, values: &[f64]) {
        let list = values.iter().map(|value| number(*value)).collect();
        self.values.insert(name.to_owned(), Value::Array(list));
    }

    /// Adds a latency's percentiles as `PREFIXp50_ms` and `PREFIXp99_ms`, and keeps its histogram for the report.
    pub(crate) fn add_latency(&mut self, prefix: &'static str, latency: Histogram<u64>) {
        self.add(&format!("{prefix}p50_ms"), percentile_ms(&latency, 50.0));
        self.add(&format!("{prefix}p99_ms"), percentile_ms(&latency, 99.0));
        let title = if prefix.is_empty() {
            "latency"
        } else {
            prefix.trim_end_matches('_')
        };
        self.histograms.push((title, latency));
    }

    /// Headline to bare statements.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.raw
            .filter(|raw| *raw > 0.0)
            .map(|raw| self.headline.value / raw)
    }

    /// Everything as one object.
    pub(crate) fn json(&self, db: &str) -> Value {
        let mut object = Map::new();
        object.insert("job".to_owned(), json!(self.job));
        object.insert("db".to_owned(), json!(db));
        object.insert("mode".to_owned(), json!(self.mode.as_str()));
        object.extend(self.parameters.clone());
        object.extend(self.values.clone());
        if let Some(raw) = self.raw {
            object.insert("raw".to_owned(), number(raw));
            let ratio = self.ratio().map_or(Value::Null, number);
            object.insert("ratio".to_owned(), ratio);
        }
        Value::Object(object)
    }
}

/// A number with as many digits as one can believe.
fn number(value: f64) -> Value {
    let digits = if value.abs() >= 100.0 { 10.0 } else { 10_000.0 };
    json!((value * digits).round() / digits)
}

/// A histogram of microseconds: three digits, up to an hour.
///
/// # Errors
/// Bounds that contradict each other, which these do not.
pub(crate) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 3_600_000_000, 3)?)
}

/// Notes a latency; one beyond the histogram's end counts as its end.
pub(crate) fn note(histogram: &mut Histogram<u64>, latency: Duration) {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    histogram.saturating_record(micros);
}

/// A percentile in milliseconds.
#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn percentile_ms(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    histogram.value_at_percentile(percentile) as f64 / 1e3
}

/// How much per second.
#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// How much was done up to which moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    points: Vec<(f64, f64)>,
}

impl Series {
    /// Notes how much was done by now.
    pub(crate) fn note(&mut self, at: Duration, done: f64) {
        self.points.push((at.as_secs_f64(), done));
    }

    /// Seconds and rate, from sample to sample.
    pub(crate) fn rates(&self) -> Vec<(f64, f64)> {
        self.points
            .windows(2)
            .filter(|pair| pair[1].0 > pair[0].0)
            .map(|pair| (pair[1].0, (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)))
            .collect()
    }

    /// The rate of the last quarter of the work to the rate of the quarter before: below 1 it decays. None where there are too few samples to tell.
    pub(crate) fn last_half(&self) -> Option<f64> {
        let total = self.points.last()?.1;
        let reached = |part: f64| {
            let point = self.points.iter().find(|point| point.1 >= total * part)?;
            Some(*point)
        };
        let (half, three, end) = (reached(0.5)?, reached(0.75)?, reached(1.0)?);
        let rate = |from: (f64, f64), to: (f64, f64)| (to.1 - from.1) / (to.0 - from.0);
        let ratio = rate(three, end) / rate(half, three);
        ratio.is_finite().then_some(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_to_bare_statements() {
        let mut figures = Figures::rate("J1", Mode::Embedded, "activities_per_s", 20.0);
        assert!(figures.json("memory").get("raw").is_none());
        figures.raw = Some(40.0);
        let json = figures.json("postgres");
        assert_eq!((&json["raw"], &json["ratio"]), (&json!(40.0), &json!(0.5)));
    }

    #[test]
    fn percentiles_come_from_the_histogram() {
        let mut latency = histogram().expect("bounds");
        for ms in 1..=100 {
            note(&mut latency, Duration::from_millis(ms));
        }
        let mut figures = Figures::time("J3", Mode::Embedded, "p50_ms", 50.0);
        figures.add_latency("", latency);
        let p99 = figures.values["p99_ms"].as_f64().expect("a number");
        assert!((98.9..=99.2).contains(&p99), "{p99}");
    }

    #[test]
    fn decay_shows_in_the_last_half() {
        let mut steady = Series::default();
        let mut slower = Series::default();
        for tick in 0..=100_u32 {
            steady.note(Duration::from_secs(tick.into()), f64::from(tick));
            // From three quarters on it takes twice as long.
            let late = f64::from(tick.saturating_sub(75));
            slower.note(
                Duration::from_secs_f64(f64::from(tick) + late),
                f64::from(tick),
            );
        }
        let about = |value: Option<f64>, is: f64| value.is_some_and(|v| (v - is).abs() < 0.05);
        assert!(about(steady.last_half(), 1.0), "{:?}", steady.last_half());
        assert!(about(slower.last_half(), 0.5), "{:?}", slower.last_half());
    }
}
