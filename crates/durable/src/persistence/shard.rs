//! Where a run's rows live.

use uuid::Uuid;

/// How many shards a database has; fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards(u16);

impl Default for Shards {
    fn default() -> Self {
        Self(1)
    }
}

impl Shards {
    /// A number of shards from 1 to [`super::limits::SHARDS_MAX`]; others are clamped.
    #[must_use]
    pub fn new(count: u16) -> Self {
        Self(count.clamp(1, super::limits::SHARDS_MAX))
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0
    }

    /// The shard of a run: a fixed hash of its id's random bytes, so that ids made in the same
    /// millisecond spread out. Never change it: it is where stored rows are.
    #[must_use]
    pub fn of_run(self, run_id: Uuid) -> i32 {
        self.of_bytes(&run_id.as_bytes()[8..])
    }

    /// The shard of a key (idempotency key, business id), by the key's own bytes.
    #[must_use]
    pub fn of_key(self, key: &str) -> i32 {
        self.of_bytes(key.as_bytes())
    }

    /// Every shard once, starting at `first`.
    pub fn from(self, first: u16) -> impl Iterator<Item = i32> {
        (0..self.0).map(move |i| i32::from((first % self.0 + i) % self.0))
    }

    /// FNV-1a, 64 bits.
    fn of_bytes(self, bytes: &[u8]) -> i32 {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // The low bits of FNV mix poorly; fold the high half in.
        i32::try_from((hash ^ (hash >> 32)) % u64::from(self.0))
            .expect("fewer shards than i32::MAX")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_stored_rows_were_placed_by() {
        let run = Uuid::from_u128(0x0190_0000_0000_7000_8000_0123_4567_89ab);
        assert_eq!(Shards::new(1).of_run(run), 0);
        assert_eq!(Shards::new(64).of_run(run), 43);
        assert_eq!(Shards::new(64).of_key("order-1"), 50);
    }

    #[test]
    fn every_shard_is_visited_once() {
        let mut seen: Vec<i32> = Shards::new(4).from(6).collect();
        assert_eq!(seen, [2, 3, 0, 1]);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
