//! Counts of values by size.

/// How many values were at most as large as each bound.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, not added up; larger values are in the count alone.
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    /// Bounds ascend.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len()],
            count: 0,
            sum: 0.0,
        }
    }

    pub(super) fn add(&mut self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.count += 1;
        self.sum += value;
    }

    /// Each bound with the number of values that are not above it.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let seen = self.counts.iter().scan(0, |seen, count| {
            *seen += count;
            Some(*seen)
        });
        self.bounds.iter().copied().zip(seen)
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) const fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_every_bound_that_it_is_not_above() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 3.0] {
            histogram.add(value);
        }
        assert_eq!(
            histogram.buckets().collect::<Vec<_>>(),
            [(1.0, 2), (2.0, 3)]
        );
        assert_eq!((histogram.count(), histogram.sum()), (4, 6.0));
    }
}
