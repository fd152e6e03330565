//! Everything the store holds, for the differential test and the audit.

use durable_core::Timestamp;
use uuid::Uuid;

use super::db::Db;
use super::tables::{
    attributes, audit, breakers, dead_letters, dedup, events, facts, keys, messages, outbox,
    rollups, runs, schedules, signals, step_logs, tasks, timers, updates, workers,
};
use crate::persistence::StoreResult;
use crate::persistence::model::{Dump, RunDump, StepLogFilter, WorkerFilter};

pub(super) fn dump(db: Db<'_>) -> StoreResult<Dump> {
    let mut dumped = Vec::new();
    for run_id in runs::ids(db)? {
        dumped.extend(dump_run(db, run_id)?);
    }
    Ok(Dump {
        runs: dumped,
        keys: keys::list(db)?,
        dead_letters: dead_letters::dump(db)?,
        schedules: schedules::dump(db)?,
        workers: workers::list(db, &WorkerFilter::default())?,
        breakers: breakers::list(db)?,
        dedup: dedup::list(db)?,
        rollups: rollups::since(db, Timestamp::MIN)?,
        audit: audit::dump(db)?,
    })
}

fn dump_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Option<RunDump>> {
    let Some(run) = runs::get(db, run_id)? else {
        return Ok(None);
    };
    Ok(Some(RunDump {
        run,
        events: events::after(db, run_id, 0, usize::MAX)?,
        tasks: tasks::of_run(db, run_id)?,
        timers: timers::of_run(db, run_id)?,
        facts: facts::of_run(db, run_id)?,
        signals: signals::of_run(db, run_id)?,
        updates: updates::of_run(db, run_id)?,
        attributes: attributes::of_run(db, run_id)?,
        messages: messages::of_run(db, run_id)?,
        outbox: outbox::of_run(db, run_id)?,
        step_logs: step_logs::list(db, StepLogFilter::of_run(run_id), usize::MAX, 0)?,
    }))
}
