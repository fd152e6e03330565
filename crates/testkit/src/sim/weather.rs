//! What befalls store calls and nodes: a climate for each seed, a fate for each call.

use std::time::Duration;

use crate::differential::Random;

/// What a seed is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Climate {
    /// Small delays and nothing else.
    Calm,
    /// Calls fail, with and without effect, or happen twice.
    Errors,
    /// Nodes are killed, restarted and shut down.
    Crashes,
    /// Calls and answers are held for longer than leases.
    Stalls,
    /// All of it.
    Everything,
}

impl Climate {
    pub(super) fn of(random: &mut Random) -> Self {
        match random.below(100) {
            0..15 => Self::Calm,
            15..30 => Self::Errors,
            30..50 => Self::Crashes,
            50..65 => Self::Stalls,
            _ => Self::Everything,
        }
    }

    /// Nothing that is meant to lose a lease; several renewals in a row that fail still may.
    pub(super) const fn is_steady(self) -> bool {
        matches!(self, Self::Calm | Self::Errors)
    }

    pub(super) const fn kills(self) -> bool {
        matches!(self, Self::Crashes | Self::Everything)
    }

    /// Whether what is called may fail.
    pub(super) const fn fails(self) -> bool {
        matches!(self, Self::Errors | Self::Everything)
    }

    pub(super) const fn rates(self) -> Rates {
        let calm = Rates {
            delayed: 300,
            failed_before: 0,
            failed_after: 0,
            repeated: 0,
            stalled: 0,
        };
        match self {
            Self::Calm | Self::Crashes => calm,
            Self::Errors => Rates {
                failed_before: 25,
                failed_after: 25,
                repeated: 20,
                ..calm
            },
            Self::Stalls => Rates {
                stalled: 12,
                ..calm
            },
            Self::Everything => Rates {
                failed_before: 25,
                failed_after: 25,
                repeated: 20,
                stalled: 6,
                ..calm
            },
        }
    }
}

/// How often each fault happens, in thousandths of the calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    delayed: u64,
    failed_before: u64,
    failed_after: u64,
    repeated: u64,
    stalled: u64,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) before: Duration,
    pub(super) after: Duration,
    pub(super) kind: FateKind,
}

/// The kind of fault, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FateKind {
    Works,
    FailsBefore,
    FailsAfter,
    HappensTwice,
    StallsBefore,
    StallsAfter,
}

impl Rates {
    pub(super) fn fate(&self, random: &mut Random) -> Fate {
        let before = self.delay(random);
        let after = self.delay(random);
        let mut fate = Fate {
            before,
            after,
            kind: FateKind::Works,
        };
        let roll = random.below(1000);
        let stalled = self.stalled / 2;
        let kinds = [
            (self.failed_before, FateKind::FailsBefore),
            (self.failed_after, FateKind::FailsAfter),
            (self.repeated, FateKind::HappensTwice),
            (stalled, FateKind::StallsBefore),
            (self.stalled - stalled, FateKind::StallsAfter),
        ];
        let mut below = 0;
        for (rate, kind) in kinds {
            below += rate;
            if roll < below {
                fate.kind = kind;
                break;
            }
        }
        match fate.kind {
            FateKind::StallsBefore => fate.before += stall(random),
            FateKind::StallsAfter => fate.after += stall(random),
            _ => {}
        }
        fate
    }

    fn delay(&self, random: &mut Random) -> Duration {
        if random.below(1000) >= self.delayed {
            return Duration::ZERO;
        }
        let most = if random.one_in(10) { 120 } else { 12 };
        Duration::from_millis(1 + random.below(most))
    }
}

fn stall(random: &mut Random) -> Duration {
    Duration::from_millis(2_500 + random.below(5_000))
}
