//! Reads what an intent asks for. The writer is alone, so there is nothing to lock and no key to reserve.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::db::Db;
use super::tables::{
    attributes, dead_letters, facts, keys, outbox, runs, schedules, signals, tasks, timers, updates,
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
        if let Some(task) = tasks::ruled(db, *run_id, *id)? {
            loaded.tasks.insert((*run_id, *id), task);
        }
    }
    for (run_id, id) in &load.leases {
        if let Some(task) = tasks::leased(db, *run_id, *id)? {
            loaded.tasks.insert((*run_id, *id), task);
        }
    }
    for run_id in &load.queued_of {
        let queued = tasks::queued_of(db, *run_id)?;
        let queued = queued.into_iter().map(|(id, name)| ((*run_id, id), name));
        loaded.queued.extend(queued);
    }
    let mut asked: BTreeMap<Uuid, BTreeSet<&String>> = BTreeMap::new();
    for (run_id, activity_id) in &load.activities {
        asked.entry(*run_id).or_default().insert(activity_id);
    }
    for (run_id, activities) in asked {
        let queued = tasks::queued_of(db, run_id)?.into_iter();
        for (id, activity_id) in queued.filter(|(_, name)| activities.contains(name)) {
            if let Some(task) = tasks::standing(db, run_id, id, activity_id)? {
                loaded.standing.insert((run_id, id), task);
            }
        }
    }
    for run_id in &load.lines_of {
        if let Some(line) = tasks::first_in_line(db, *run_id)? {
            loaded.lines.insert(*run_id, line);
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
    for (run_id, behind) in load.unread_of {
        let slice = facts::unread(db, run_id, behind)?;
        loaded
            .unread
            .extend(slice.map(|slice| (run_id, vec![slice])));
    }
    for run_id in load.attributes_of {
        let names = attributes::names_of(db, run_id)?;
        if !names.is_empty() {
            let names = names.into_iter().collect();
            loaded.attributes.insert(run_id, names);
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
