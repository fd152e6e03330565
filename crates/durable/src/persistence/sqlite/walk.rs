//! A file as an audit reads it: page by page, while it may be in use.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use durable_core::Timestamp;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::checkup::late;
use super::db::Db;
use super::dump::{dump_run, orphans};
use super::sql::{meta, transaction, walk as sql};
use super::tables::{dead_letters, keys};
use super::value::{Id, rows};
use super::{connect, migrate};
use crate::audit::walk::{
    HeldKey, Holder, ORPHANS_MAX, OVERDUE_MAX, Overdue, PAGE_KEYS_MAX, PAGE_RUNS_MAX, Page,
    RUN_ROWS_MAX, Source, held, that_fit,
};
use crate::persistence::checkup::Work;
use crate::persistence::model::{Dump, KeyKind};
use crate::persistence::{Shards, StoreError, StoreResult};

/// A file that is only read.
pub(crate) struct Walk {
    conn: Connection,
    shards: Shards,
}

impl Walk {
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        connect::check_version()?;
        if !path.exists() {
            let message = format!("there is no file {}", path.display());
            return Err(StoreError::open(message));
        }
        let conn = connect::open_to_look(path)?;
        migrate::require_all(&conn)?;
        let unplaced = Db {
            conn: &conn,
            shards: Shards::default(),
        };
        let shards = Shards::new(unplaced.one(meta::SHARDS, [], |row| row.int())?);
        Ok(Self { conn, shards })
    }

    fn db(&self) -> Db<'_> {
        Db {
            conn: &self.conn,
            shards: self.shards,
        }
    }

    /// Several reads at one instant.
    fn at_once<T>(&self, read: impl FnOnce(Db<'_>) -> StoreResult<T>) -> StoreResult<T> {
        self.conn.execute_batch(transaction::BEGIN_READ)?;
        let answer = read(self.db());
        self.conn.execute_batch(transaction::COMMIT)?;
        answer
    }
}

impl Source for Walk {
    fn shards(&self) -> Shards {
        self.shards
    }

    async fn page(&mut self, shard: i32, after: Uuid) -> StoreResult<Page> {
        tokio::task::yield_now().await;
        self.at_once(|db| page(db, shard, after))
    }

    async fn keys(&mut self, shard: i32, after: (&str, &str)) -> StoreResult<Vec<HeldKey>> {
        tokio::task::yield_now().await;
        self.at_once(|db| held_keys(db, shard, after))
    }

    async fn overdue(&mut self, after: Duration) -> StoreResult<Vec<Overdue>> {
        let mut all = Vec::new();
        for work in [Work::Turns, Work::Tasks, Work::Timers] {
            let late = late(&self.conn, work, after, OVERDUE_MAX)?;
            all.extend(late.into_iter().map(|(run_id, seconds)| Overdue {
                run_id,
                what: work.is_late(),
                seconds,
            }));
        }
        let now = Timestamp::now().as_microsecond();
        let before = now.saturating_sub(i64::try_from(after.as_micros()).unwrap_or(i64::MAX));
        for shard in self.shards.from(0) {
            let found = params![shard, before, rows(OVERDUE_MAX)];
            let late = self.db().all(sql::OVERDUE_DEADLINES, found, |row| {
                Ok((row.id()?, row.int::<i64>()?))
            })?;
            all.extend(late.into_iter().map(|(run_id, due)| Overdue {
                run_id,
                what: "its deadline is overdue",
                seconds: (now - due) / 1_000_000,
            }));
        }
        Ok(all)
    }
}

fn page(db: Db<'_>, shard: i32, after: Uuid) -> StoreResult<Page> {
    let next = params![shard, Id(after), rows(PAGE_RUNS_MAX)];
    let ids: Vec<Uuid> = db.all(sql::RUN_IDS, next, |row| row.id())?;
    let mut measured = Vec::with_capacity(ids.len());
    for id in &ids {
        let of = params![shard, Id(*id), rows(RUN_ROWS_MAX + 1)];
        let (number, bytes) = db.one(sql::MEASURE, of, |row| Ok((row.int()?, row.int()?)))?;
        measured.push((*id, number, bytes));
    }
    let (load, too_large, looked) = that_fit(&measured);
    let mut dump = Dump::default();
    for id in load {
        let Some(run) = dump_run(db, id)? else {
            continue;
        };
        if let Some(key) = &run.run.idempotency_key {
            dump.keys.extend(keys::get(db, KeyKind::Idempotency, key)?);
        }
        dump.dead_letters.extend(dead_letters::of_run(db, id)?);
        dump.runs.push(run);
    }
    let more = looked == PAGE_RUNS_MAX || looked < ids.len();
    let last = ids[..looked].last().copied().filter(|_| more);
    let until = last.unwrap_or(Uuid::max());
    dump.orphans = orphans(db, shard, after, until, ORPHANS_MAX)?;
    Ok(Page {
        dump,
        too_large,
        last,
    })
}

fn held_keys(db: Db<'_>, shard: i32, after: (&str, &str)) -> StoreResult<Vec<HeldKey>> {
    let next = params![shard, after.0, after.1, rows(PAGE_KEYS_MAX)];
    let keys = db.all(sql::KEYS, next, |row| {
        Ok((row.name(KeyKind::parse)?, row.text()?, Some(row.id()?)))
    })?;
    let mut holders = BTreeMap::new();
    for run_id in keys.iter().filter_map(|(_, _, run_id)| *run_id) {
        // A run whose row could not be deleted is in both: what it says itself comes last.
        for (deleted, statement) in [(true, sql::DELETED_HOLDER), (false, sql::HOLDER)] {
            let of = params![db.shard(run_id), Id(run_id)];
            let keys = db.first(statement, of, |row| Ok((row.text_opt()?, row.text_opt()?)))?;
            let holder = keys.map(|(idempotency_key, business_id)| Holder {
                idempotency_key,
                business_id,
                deleted,
            });
            holders.extend(holder.map(|holder| (run_id, holder)));
        }
    }
    Ok(held(keys, &holders))
}
