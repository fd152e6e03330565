//! From thousands of steps to the few that show a difference.

use super::difference::Difference;
use super::intent::{Intent, Step, smaller};
use super::pair::Pair;
use super::play::{Dumps, Found, replay};
use super::request::Request;

/// Most replays spent on one difference.
const REPLAYS_MAX: usize = 3_000;

/// The few steps that show a difference.
#[derive(Debug, Clone)]
pub struct Minimal {
    /// The calls, as they were made, with their instants.
    pub calls: Vec<String>,
    /// What differs after the last one.
    pub difference: Difference,
    /// How many steps it took to find.
    pub found_after: usize,
}

struct Shrinker<'a> {
    pair: &'a Pair,
    shards: u16,
    replays: usize,
}

/// Takes steps out, then parts of steps, as long as the stores still differ.
pub(crate) async fn shrink(
    pair: &Pair,
    shards: u16,
    mut steps: Vec<Step>,
    found: Found,
    compared_before: usize,
) -> anyhow::Result<Minimal> {
    let found_after = steps.len();
    steps.truncate(found.at + 1);
    let mut shrinker = Shrinker {
        pair,
        shards,
        replays: 0,
    };
    if found.in_dump
        && let Some(earlier) =
            replay(pair, shards, &steps, Dumps::From(compared_before), None).await?
    {
        steps.truncate(earlier.at + 1);
    }
    shrinker.take_out_steps(&mut steps).await?;
    shrinker.take_out_parts(&mut steps).await?;
    let mut requests = Vec::new();
    let last = replay(pair, shards, &steps, Dumps::AtTheEnd, Some(&mut requests)).await?;
    Ok(Minimal {
        calls: steps.iter().zip(&requests).map(shown).collect(),
        difference: last.map_or(found.difference, |found| found.difference),
        found_after,
    })
}

fn shown((step, request): (&Step, &Request)) -> String {
    format!("#{} at {}: {request:?}", step.number, step.now)
}

impl Shrinker<'_> {
    /// Whether these steps still show a difference; if so, cut behind the one that does.
    async fn differs(&mut self, steps: &mut Vec<Step>) -> anyhow::Result<bool> {
        if self.replays >= REPLAYS_MAX {
            return Ok(false);
        }
        self.replays += 1;
        let found = replay(self.pair, self.shards, steps, Dumps::AtTheEnd, None).await?;
        if let Some(found) = &found {
            steps.truncate(found.at + 1);
        }
        Ok(found.is_some())
    }

    /// Delta debugging: chunks of half the list, then of a quarter, down to single steps, from the end.
    async fn take_out_steps(&mut self, steps: &mut Vec<Step>) -> anyhow::Result<()> {
        let mut chunk = steps.len().div_ceil(2).max(1);
        loop {
            let mut end = steps.len();
            let mut shorter = false;
            while end > 0 {
                let start = end.saturating_sub(chunk);
                let mut rest = [&steps[..start], &steps[end..]].concat();
                if !rest.is_empty() && self.differs(&mut rest).await? {
                    *steps = rest;
                    shorter = true;
                }
                end = start.min(steps.len());
            }
            if chunk == 1 && !shorter {
                return Ok(());
            }
            chunk = (chunk / 2).max(1);
            if self.replays >= REPLAYS_MAX {
                return Ok(());
            }
        }
    }

    /// Makes single steps smaller.
    async fn take_out_parts(&mut self, steps: &mut Vec<Step>) -> anyhow::Result<()> {
        let mut at = 0;
        while at < steps.len() {
            let ways: Vec<Intent> = smaller(&steps[at].intent);
            let mut changed = false;
            for intent in ways {
                let mut trial = steps.clone();
                trial[at].intent = intent;
                if self.differs(&mut trial).await? {
                    *steps = trial;
                    changed = true;
                    break;
                }
            }
            if !changed {
                at += 1;
            }
        }
        Ok(())
    }
}
