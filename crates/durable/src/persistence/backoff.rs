//! Pauses between attempts to connect.

use std::time::Duration;

use uuid::Uuid;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Twice as long each time, up to a limit, and less by chance, so that all processes do not come back at one instant.
pub(crate) struct Backoff {
    ceiling: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { ceiling: SHORTEST }
    }

    /// It worked: the next pause is a short one.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    pub(crate) async fn pause(&mut self) {
        let chance = Uuid::now_v7().as_bytes()[15];
        tokio::time::sleep(self.next(chance)).await;
    }

    /// Between half the ceiling and all of it.
    fn next(&mut self, chance: u8) -> Duration {
        let half = self.ceiling / 2;
        self.ceiling = (self.ceiling * 2).min(LONGEST);
        half + half * u32::from(chance) / u32::from(u8::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::new();
        let pauses: Vec<Duration> = (0..8).map(|_| backoff.next(u8::MAX)).collect();
        assert_eq!(pauses[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(pauses[7], LONGEST);
        backoff.reset();
        assert_eq!(backoff.next(0), SHORTEST / 2);
    }
}
