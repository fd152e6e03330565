//! One figure of both databases, and when the full one is worse.

/// How many times worse a figure may be on the full database.
const TIMES_WORSE_MAX: f64 = 1.2;
/// A difference between two medians of one request's time that a machine with two shared cores
/// shows by itself: the scheduler's slice is 3 to 4 ms, and a request of 1 ms that meets a
/// checkpoint or a vacuum takes that much longer. A cost that grows with the finished runs is far
/// beyond it at the sizes of this suite: a scan of ten million rows takes seconds.
const FLOOR_MS: f64 = 5.0;
/// Pages that an operation may touch more on the full database: index levels, the entries of a
/// count up to its cap of 10,000, and pages of a chore that ran beside it.
const PAGES_FLOOR: i64 = 60;
/// Pages that a list or count of a range of starts may touch: no index answers it in its order, and
/// it examines 20,000 runs at most (`LIST_EXAMINED_MAX`), a page each, however many there are.
const EXAMINED_PAGES_MAX: i64 = 20_000;
/// How many times as many pages an operation may touch.
const PAGES_TIMES_MAX: f64 = 1.5;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Milliseconds: less is better.
    Ms,
    /// So many a second: more is better.
    PerSecond,
}

/// A figure of one database.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    /// What was measured.
    pub(super) name: String,
    /// Its unit.
    pub(super) unit: Unit,
    /// Its value.
    pub(super) value: f64,
    /// Pages of the database that one operation touched, where they were counted.
    pub(super) pages: Option<i64>,
    /// An answer that was no success.
    pub(super) refused: Option<String>,
}

impl Figure {
    /// A figure without pages.
    pub(super) fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self {
            name: name.into(),
            unit,
            value,
            pages: None,
            refused: None,
        }
    }
}

/// A figure of one database, measured several times.
#[derive(Debug)]
pub(super) struct Measured {
    first: Figure,
    values: Vec<f64>,
}

impl Measured {
    /// Measured once.
    pub(super) fn new(first: Figure) -> Self {
        Self {
            values: vec![first.value],
            first,
        }
    }

    /// Measured again.
    pub(super) fn add(&mut self, again: Figure) {
        self.values.push(again.value);
        self.first.pages = [self.first.pages, again.pages].into_iter().flatten().min();
        self.first.refused = self.first.refused.take().or(again.refused);
    }

    fn median(&self) -> f64 {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }
}

/// The row of a figure, and why it failed. Pages always count; times only where they are asked for.
pub(super) fn judge(small: &Measured, full: &Measured, share: bool) -> (Vec<String>, Vec<String>) {
    let (before, after) = (small.median(), full.median());
    let unit = small.first.unit;
    let worse = match unit {
        Unit::Ms => after / before.max(1e-3),
        Unit::PerSecond => before / after.max(1e-3),
    };
    let mut failures = Vec::new();
    let beyond_noise = unit == Unit::PerSecond || after - before > FLOOR_MS;
    if !share && worse > TIMES_WORSE_MAX && beyond_noise {
        failures.push(format!("{worse:.1} times worse, at most {TIMES_WORSE_MAX}"));
    }
    if let (Some(few), Some(many)) = (small.first.pages, full.first.pages)
        && many > few + pages_allowed(&full.first.name)
        && ratio(many, few) > PAGES_TIMES_MAX
    {
        failures.push(format!("touches {many} pages, {few} in the small database"));
    }
    for side in [&small.first, &full.first] {
        failures.extend(side.refused.clone());
    }
    let shown = |value: f64| match unit {
        Unit::Ms => format!("{value:.1} ms"),
        Unit::PerSecond => format!("{value:.0}/s"),
    };
    let pages = |pages: Option<i64>| pages.map_or_else(String::new, |pages| pages.to_string());
    let cells = vec![
        small.first.name.clone(),
        shown(before),
        shown(after),
        format!("{worse:.2}"),
        pages(small.first.pages),
        pages(full.first.pages),
    ];
    (cells, failures)
}

/// Pages that an operation may touch beyond those of the small database.
fn pages_allowed(name: &str) -> i64 {
    if name.starts_with("list, created_") || name.starts_with("count, created_") {
        EXAMINED_PAGES_MAX
    } else {
        PAGES_FLOOR
    }
}

#[allow(clippy::cast_precision_loss, reason = "a ratio of page counts")]
fn ratio(many: i64, few: i64) -> f64 {
    many as f64 / few.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(unit: Unit, small: f64, full: f64, share: bool) -> usize {
        let of = |value| Measured::new(Figure::new("x", unit, value));
        judge(&of(small), &of(full), share).1.len()
    }

    #[test]
    fn a_time_fails_past_a_fifth_and_the_noise() {
        assert_eq!(failures(Unit::Ms, 10.0, 11.0, false), 0);
        assert_eq!(failures(Unit::Ms, 1.0, 4.0, false), 0);
        assert_eq!(failures(Unit::Ms, 1.0, 1600.0, false), 1);
        assert_eq!(failures(Unit::Ms, 1.0, 1600.0, true), 0);
    }

    #[test]
    fn a_rate_fails_past_a_fifth() {
        assert_eq!(failures(Unit::PerSecond, 1932.0, 1858.0, false), 0);
        assert_eq!(failures(Unit::PerSecond, 1932.0, 0.4, false), 1);
    }

    #[test]
    fn pages_fail_in_the_share_too() {
        let of = |pages| {
            let mut figure = Figure::new("x", Unit::Ms, 1.0);
            figure.pages = Some(pages);
            Measured::new(figure)
        };
        assert_eq!(judge(&of(40), &of(60), true).1.len(), 0);
        assert_eq!(judge(&of(13), &of(107), true).1.len(), 1);
        assert_eq!(judge(&of(700), &of(7_000), true).1.len(), 1);
        assert_eq!(judge(&of(10_000), &of(10_400), true).1.len(), 0);
    }
}
