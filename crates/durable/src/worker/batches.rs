//! Batches that a store takes: neither too many items in one call nor too many bytes.

use crate::persistence::limits::{BATCH_BYTES_MAX, BATCH_ITEMS_MAX};

/// Most items sent together: well below the limit, so that one call is not a long one.
const ITEMS_MAX: usize = BATCH_ITEMS_MAX / 10;
/// Most bytes sent together, but for a single item that has more.
const BYTES_MAX: usize = BATCH_BYTES_MAX / 4;

/// Splits items into batches, in order.
pub(super) fn batches<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut all = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0_usize);
    for item in items {
        let more = bytes_of(&item);
        let full = batch.len() == ITEMS_MAX || bytes.saturating_add(more) > BYTES_MAX;
        if full && !batch.is_empty() {
            all.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes = bytes.saturating_add(more);
        batch.push(item);
    }
    if !batch.is_empty() {
        all.push(batch);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_items_nor_bytes_pass_their_limit_and_the_order_stays() {
        let light: Vec<usize> = vec![0; ITEMS_MAX * 2 + 1];
        let sizes = |all: Vec<Vec<usize>>| all.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(
            sizes(batches(light, |bytes| *bytes)),
            [ITEMS_MAX, ITEMS_MAX, 1]
        );
        let heavy = vec![1, BYTES_MAX - 1, 1, BYTES_MAX * 2, 2];
        let split = batches(heavy.clone(), |bytes| *bytes);
        assert_eq!(sizes(split.clone()), [2, 1, 1, 1]);
        assert_eq!(split.concat(), heavy);
        assert!(batches(Vec::<usize>::new(), |bytes| *bytes).is_empty());
    }
}
