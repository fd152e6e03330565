//! What must hold when a seed is over, one file per subject.

mod accepted;
mod attributes;
mod audited;
mod children;
mod cleanup;
mod executions;
mod limits;
mod outcome;
mod prompt;
mod replayed;
mod signals;
mod stopping;
mod tallied;
mod ticks;
mod updates;
mod views;

use everruns_durable::persistence::model::{Dump, RunDump};
use uuid::Uuid;

use super::client::Told;
use super::ledger::Execution;
use super::timetable::Timetable;
use super::world::World;

/// All that is known at the end of a seed.
pub(super) struct Scene<'a> {
    pub(super) world: &'a World,
    pub(super) dump: &'a Dump,
    pub(super) told: &'a [Told],
    pub(super) executions: Vec<Execution>,
    pub(super) timetable: Option<&'a Timetable>,
}

impl Scene<'_> {
    fn run(&self, run_id: Uuid) -> Option<&RunDump> {
        self.dump.runs.iter().find(|run| run.run.id == run_id)
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
    prompt::check(scene);
    limits::check(scene);
    ticks::check(scene);
    tallied::count(scene);
}
