//! What must hold when a seed is over, one file per subject.

mod accepted;
mod attributes;
mod audited;
mod batches;
mod children;
mod cleanup;
mod encoded;
mod executions;
mod heard;
mod limits;
mod namesakes;
mod outcome;
mod prompt;
mod replayed;
mod signals;
mod stopping;
mod tallied;
mod ticks;
mod updates;
mod views;

use durable_core::ExhaustedPolicy;
use everruns_durable::persistence::model::{DeadLetter, Dump, RunDump};
use uuid::Uuid;

use super::client::Told;
use super::ledger::{Execution, Heard};
use super::namesakes::Claim;
use super::timetable::Timetable;
use super::world::World;

/// All that is known at the end of a seed.
pub(super) struct Scene<'a> {
    pub(super) world: &'a World,
    pub(super) dump: &'a Dump,
    /// The same as it is stored: behind the codec, if the seed has one.
    pub(super) stored: &'a Dump,
    pub(super) told: &'a [Told],
    pub(super) executions: Vec<Execution>,
    pub(super) heard: Vec<Heard>,
    pub(super) claims: &'a [Claim],
    pub(super) timetable: Option<&'a Timetable>,
}

impl Scene<'_> {
    fn run(&self, run_id: Uuid) -> Option<&RunDump> {
        self.dump.runs.iter().find(|run| run.run.id == run_id)
    }

    /// Whether the log of a run shows its activities as they were: not where a reset took some back, or somebody decided about one.
    fn is_straight(&self, run: &RunDump) -> bool {
        let mut letters = self.dump.dead_letters.iter();
        let decides = |letter: &DeadLetter| {
            letter.run_id == run.run.id && letter.options.on_exhausted == ExhaustedPolicy::Park
        };
        run.run.epoch == 0 && !letters.any(decides)
    }

    fn violated(&self, run: &RunDump, what: impl AsRef<str>) {
        let key = run.run.idempotency_key.as_deref().unwrap_or("child");
        let id = run.run.id;
        self.world
            .violated(format!("{key} ({id}): {}", what.as_ref()));
    }
}

/// Checks everything.
pub(super) fn all(scene: &Scene<'_>) {
    outcome::check(scene);
    signals::check(scene);
    audited::check(scene);
    replayed::check(scene);
    accepted::check(scene);
    executions::check(scene);
    stopping::check(scene);
    children::check(scene);
    updates::check(scene);
    views::check(scene);
    attributes::check(scene);
    cleanup::check(scene);
    encoded::check(scene);
    heard::check(scene);
    namesakes::check(scene);
    batches::check(scene);
    prompt::check(scene);
    limits::check(scene);
    ticks::check(scene);
    tallied::count(scene);
}
