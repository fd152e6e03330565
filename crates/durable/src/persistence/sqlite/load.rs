//! Reads what an intent asks for. The writer is alone, so there is nothing to lock and no key to reserve.

use super::db::Db;
use super::tables::{
    dead_letters, facts, keys, outbox, runs, schedules, signals, tasks, timers, updates,
};
use crate::persistence::StoreResult;
use crate::persistence::sql::rows::{Load, Loaded};

pub(super) fn load(db: Db<'_>, load: Load) -> StoreResult<Loaded> {
    let mut loaded = Loaded::default();
    load_heads(db, &load, &mut loaded)?;
    load_tasks(db, &load, &mut loaded)?;
    load_belongings(db, load, &mut loaded)?;
    Ok(loaded)
}

fn load_heads(db: Db<'_>, load: &Load, loaded: &mut Loaded) -> StoreResult<()> {
    for (kind, key) in &load.keys {
        if let Some(record) = keys::get(db, *kind, key)? {
            loaded.keys.insert((*kind, key.clone()), record);
        }
    }
    for id in &load.schedules {
        if let Some(schedule) = schedules::get(db, id)? {
            loaded.schedules.insert(id.clone(), schedule);
        }
    }
    for run_id in &load.runs {
        if let Some(head) = runs::head(db, *run_id)? {
            loaded.runs.insert(*run_id, head);
        }
    }
    Ok(())
}

fn load_tasks(db: Db<'_>, load: &Load, loaded: &mut Loaded) -> StoreResult<()> {
    for (run_id, id) in load.tasks.iter().chain(&load.leased) {
        if let Some(task) = tasks::get(db, *run_id, *id)? {
            loaded.tasks.insert((*run_id, *id), task);
        }
    }
    for run_id in &load.tasks_of {
        for task in tasks::of_run(db, *run_id)? {
            loaded.tasks.insert((*run_id, task.id), task);
        }
    }
    Ok(())
}

fn load_belongings(db: Db<'_>, load: Load, loaded: &mut Loaded) -> StoreResult<()> {
    for key in load.timers {
        if let Some(timer) = timers::get(db, key.0, &key.1)? {
            loaded.timers.insert(key, timer);
        }
    }
    for run_id in load.facts_of {
        for fact in facts::of_run(db, run_id)? {
            loaded.facts.insert((run_id, fact.arrival), fact);
        }
    }
    for key in load.signals {
        if let Some(signal) = signals::get(db, key.0, key.1)? {
            loaded.signals.insert(key, signal);
        }
    }
    for key in load.updates {
        if let Some(update) = updates::get(db, key.0, &key.1)? {
            loaded.updates.insert(key, update);
        }
    }
    for key in load.letters {
        if let Some(letter) = dead_letters::get(db, key.0, key.1)? {
            loaded.letters.insert(key, letter);
        }
    }
    for key in load.outbox {
        if let Some(event) = outbox::get(db, key.0, key.1)? {
            loaded.outbox.insert(key, event);
        }
    }
    Ok(())
}
