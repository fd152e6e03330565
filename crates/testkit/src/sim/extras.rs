//! What some seeds have besides, drawn by dice of its own: a seed without any of it plays as it did before there was any.

use crate::differential::Random;

/// What a seed has besides runs, their clients and nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    /// Payloads pass through a codec.
    pub(super) codec: bool,
    /// Every engine has a listener.
    pub(super) listeners: bool,
    /// So many clients start runs under one workflow id.
    pub(super) namesakes: usize,
    /// Runs are cancelled and terminated by batches.
    pub(super) batches: bool,
    /// The schedule, if there is one, is triggered too.
    pub(super) triggers: bool,
}

impl Extras {
    /// Drawn from dice that are used for nothing but what they bring along.
    pub(super) fn of(random: &mut Random) -> Self {
        Self {
            codec: random.one_in(4),
            listeners: random.one_in(2),
            namesakes: if random.one_in(4) {
                2 + random.index(3)
            } else {
                0
            },
            batches: random.one_in(3),
            triggers: random.one_in(2),
        }
    }
}
