//! What operators write in the small tables.

use super::db::Db;
use super::tables::{breakers, dead_letters, schedules, workers};
use crate::persistence::StoreResult;
use crate::persistence::sql::rows::{RegistryWrite, Touched};

pub(super) fn write(db: Db<'_>, write: &RegistryWrite) -> StoreResult<Touched> {
    let found = |found: bool| Touched::rows(u64::from(found));
    Ok(match write {
        RegistryWrite::PutSchedule(schedule) => {
            schedules::put(db, schedule)?;
            Touched::rows(1)
        }
        RegistryWrite::CreateSchedule(schedule) => found(schedules::create(db, schedule)?),
        RegistryWrite::DeleteSchedule(id) => found(schedules::delete(db, id)?),
        RegistryWrite::SetWorkerStatus(id, status) => {
            let former = workers::set_status(db, id, *status)?;
            Touched {
                rows: u64::from(former.is_some()),
                changed: former.is_some_and(|former| former != *status),
            }
        }
        RegistryWrite::DeleteWorker(id) => found(workers::delete(db, id)?),
        RegistryWrite::DeleteBreaker(key) => found(breakers::delete(db, key)?),
        RegistryWrite::PurgeLetters(filter, max) => {
            Touched::rows(dead_letters::purge(db, filter, *max)?)
        }
    })
}
