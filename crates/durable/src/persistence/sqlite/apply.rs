//! Writes what an intent decided, in the order of the fields of [`Changes`].

use super::db::Db;
use super::tables::{
    attributes, audit, breakers, dead_letters, events, facts, keys, messages, outbox, purges,
    rollups, runs, schedules, signals, step_logs, tasks, timers, updates,
};
use crate::persistence::StoreResult;
use crate::persistence::sql::rows::Changes;

pub(super) fn apply(db: Db<'_>, changes: &Changes) -> StoreResult<()> {
    take_away(db, changes)?;
    go_on(db, changes)?;
    deliver(db, changes)?;
    record(db, changes)?;
    forget(db, changes)
}

/// What is over leaves.
fn take_away(db: Db<'_>, changes: &Changes) -> StoreResult<()> {
    for letter in &changes.bury_tasks {
        dead_letters::bury(db, letter)?;
    }
    for (run_id, id) in &changes.delete_tasks {
        tasks::delete(db, *run_id, *id)?;
    }
    for run_id in &changes.delete_tasks_of {
        tasks::delete_of_run(db, *run_id)?;
    }
    for (run_id, timer_id) in &changes.delete_timers {
        timers::delete(db, *run_id, timer_id)?;
    }
    for run_id in &changes.delete_timers_of {
        timers::delete_of_run(db, *run_id)?;
    }
    for keep in &changes.keep_unread {
        facts::keep_unread(db, keep, changes.now)?;
    }
    for (run_id, through) in &changes.consume_facts {
        facts::consume(db, *run_id, *through, changes.now)?;
    }
    for run_id in &changes.drop_stale_facts {
        facts::drop_stale(db, *run_id)?;
    }
    for run_id in &changes.drop_iteration_facts {
        facts::drop_iteration(db, *run_id)?;
    }
    Ok(())
}

/// Runs, their histories, and what they wait for next.
fn go_on(db: Db<'_>, changes: &Changes) -> StoreResult<()> {
    for run in &changes.insert_runs {
        runs::insert(db, run)?;
    }
    for run in &changes.update_runs {
        runs::update(db, run)?;
    }
    for run in &changes.advance_runs {
        runs::advance(db, run)?;
    }
    for event in &changes.insert_events {
        events::insert(db, event, changes.now)?;
    }
    for timer in &changes.insert_timers {
        timers::insert(db, timer)?;
    }
    for task in &changes.insert_tasks {
        tasks::insert(db, task)?;
    }
    for task in &changes.update_tasks {
        tasks::update(db, task)?;
    }
    for run_id in &changes.release_lines {
        tasks::release_line(db, *run_id, changes.now)?;
    }
    Ok(())
}

/// What reaches runs, and what they tell each other.
fn deliver(db: Db<'_>, changes: &Changes) -> StoreResult<()> {
    for (run_id, fact) in &changes.insert_facts {
        facts::insert(db, *run_id, fact)?;
    }
    for signal in &changes.put_signals {
        signals::put(db, signal)?;
    }
    for update in &changes.insert_updates {
        updates::insert(db, update)?;
    }
    for answer in &changes.answer_updates {
        updates::answer(db, answer, changes.now)?;
    }
    for (run_id, failure) in &changes.fail_open_updates {
        updates::fail_open(db, *run_id, failure, changes.now)?;
    }
    for (run_id, name, value) in &changes.attributes {
        attributes::put(db, *run_id, name, value.as_ref())?;
    }
    for message in &changes.insert_messages {
        messages::insert(db, message)?;
    }
    for key in &changes.delete_messages {
        messages::delete(db, *key)?;
    }
    Ok(())
}

/// What is kept beside the runs.
fn record(db: Db<'_>, changes: &Changes) -> StoreResult<()> {
    for key in &changes.put_keys {
        keys::put(db, key)?;
    }
    for letter in &changes.put_letters {
        dead_letters::put(db, letter)?;
    }
    for event in &changes.insert_outbox {
        outbox::insert(db, event)?;
    }
    for event in &changes.update_outbox {
        outbox::update(db, event)?;
    }
    for log in &changes.insert_logs {
        step_logs::insert(db, log)?;
    }
    for schedule in &changes.put_schedules {
        schedules::put_fired(db, schedule)?;
    }
    for rollup in &changes.add_rollups {
        rollups::add(db, rollup)?;
    }
    for row in &changes.insert_audit {
        audit::insert(db, row)?;
    }
    Ok(())
}

/// What is kept no longer.
fn forget(db: Db<'_>, changes: &Changes) -> StoreResult<()> {
    for run_id in &changes.delete_runs {
        runs::delete(db, *run_id)?;
    }
    for purge in &changes.insert_purges {
        purges::insert(db, purge, changes.now)?;
    }
    for purge in &changes.postpone_purges {
        purges::postpone(db, purge)?;
    }
    for run_id in &changes.delete_purges {
        purges::delete(db, *run_id)?;
    }
    for (kind, key, run_id) in &changes.delete_keys {
        keys::delete(db, *kind, key, *run_id)?;
    }
    if let Some(before) = changes.forget_limiters {
        breakers::forget_limiters(db, before)?;
    }
    Ok(())
}
