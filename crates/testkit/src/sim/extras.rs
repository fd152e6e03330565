//! What some seeds have besides, drawn by dice of its own: a seed without any of it plays as it did before there was any.

use crate::differential::Random;

/// What a seed has besides runs, their clients and nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    /// Payloads pass through a codec.
    pub(super) codec: bool,
    /// Every engine has a listener.
    pub(super) listeners: bool,
}

impl Extras {
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xe871_2a5d);
        Self {
            codec: random.one_in(4),
            listeners: random.one_in(2),
        }
    }
}
