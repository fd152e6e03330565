//! Retention: many small commits, each bounded in rows and bytes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use durable_core::Timestamp;
use tracing::warn;
use uuid::Uuid;

use super::SqlStore;
use crate::persistence::model::{DeleteOutcome, PurgeOld, PurgeRuns, PurgedOld, cut};
use crate::persistence::sql::intents::retention::{
    DeleteRun, DuePurges, EndedRuns, ListEnded, PAST_RUNS, PostponePurge, PurgeEnded, PurgeKeys,
    PurgeOldRows, PurgePast, PurgeShard, PurgeSlice, Sliced, StuckPurges,
};
use crate::persistence::sql::rows::{EndedAt, OldRows, PurgeRecord, Slice, SliceLimit};
use crate::persistence::sql::tx::{Concern, Database};
use crate::persistence::{StoreError, StoreResult, limits};

/// What one slice of a deletion takes of each kind. On SQLite, where all writes wait for each
/// other, that is some 20 ms.
const SLICE: SliceLimit = SliceLimit {
    rows: 5000,
    bytes: 16 << 20,
};
/// A slice of one run alone, after a larger one failed.
const SMALL_SLICE: SliceLimit = SliceLimit {
    rows: 250,
    bytes: 1 << 20,
};
/// Slices that one call takes; the next call goes on.
const SLICES_AT_ONCE: usize = 20;
/// Searches for ended runs in one shard by one call: most of what they find may be waiting for its
/// outbox.
const SEARCHES_AT_ONCE: usize = 10;
/// Batches of old tombstones, ticks and audit rows that one call takes; [`PurgedOld::more`] says
/// whether tombstones and audit rows are left.
const KEY_BATCHES_AT_ONCE: usize = 20;
/// What a log line calls them.
const KEYS: &str = "tombstones, ticks and audit rows";
/// Bytes of an error that are kept with a deletion that failed.
const ERROR_BYTES_MAX: usize = 1000;

/// Where bounded searches go on, by shard. A search that reaches the end begins anew.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Among ended runs.
    ended: Mutex<BTreeMap<i32, EndedAt>>,
    /// Among runs with earlier iterations.
    past: Mutex<BTreeMap<i32, Uuid>>,
}

/// Errors of kinds and shards that do not stop the others. The first one is answered when all have
/// been tried, the others are logged.
#[derive(Debug, Default)]
struct Errors {
    first: Option<StoreError>,
}

impl Errors {
    fn note<T: Default>(&mut self, what: &'static str, result: StoreResult<T>) -> T {
        match result {
            Ok(answer) => return answer,
            Err(error) if self.first.is_none() => self.first = Some(error),
            Err(error) => warn!(what, %error, "old rows could not be deleted"),
        }
        T::default()
    }

    fn answer<T>(self, answer: T) -> StoreResult<T> {
        self.first.map_or(Ok(answer), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set<T>(places: &Mutex<BTreeMap<i32, T>>, shard: i32, place: Option<T>) {
    let mut places = lock(places);
    match place {
        Some(place) => places.insert(shard, place),
        None => places.remove(&shard),
    };
}

impl<D: Database> SqlStore<D> {
    /// Contract.
    pub(super) async fn purge_ended(&self, purge: PurgeRuns) -> StoreResult<u64> {
        let mut purged = 0;
        let mut errors = Errors::default();
        for shard in self.database.shards().from(purge.first_shard) {
            let max = purge.max - usize::try_from(purged).unwrap_or(usize::MAX);
            if max == 0 {
                break;
            }
            purged += errors.note("runs", self.purge_shard(&purge, shard, max).await);
            let belongings = self.delete_belongings(shard, None, purge.now).await;
            errors.note("rows of deleted runs", belongings);
        }
        for _ in 0..KEY_BATCHES_AT_ONCE {
            let slots = purged < purge.max as u64;
            let keys = self.purge_keys(slots, purge.now).await;
            if !errors.note(KEYS, keys) {
                break;
            }
        }
        errors.answer(purged)
    }

    /// Deletes a batch of old tombstones and audit rows, and of ticks. True: there may be more.
    async fn purge_keys(&self, slots: bool, now: Option<Timestamp>) -> StoreResult<bool> {
        let keys = PurgeKeys {
            max: limits::BATCH_ITEMS_MAX,
            slots,
            now,
        };
        self.database.write(Concern::Registry, keys).await
    }

    /// Deletes ended runs of a shard, not yet what belongs to them.
    async fn purge_shard(&self, purge: &PurgeRuns, shard: i32, max: usize) -> StoreResult<u64> {
        let mut purged = 0;
        let mut behind = lock(&self.places.ended).get(&shard).copied();
        for _ in 0..SEARCHES_AT_ONCE {
            let left = max - usize::try_from(purged).unwrap_or(usize::MAX);
            let search = EndedRuns {
                shard,
                finished_before: purge.finished_before,
                behind,
                max: left,
                now: purge.now,
            };
            let all = PurgeShard(search.clone());
            let (gone, next) = match self.database.write(Concern::Registry, all).await {
                Ok(answer) => answer,
                Err(error) => self.purge_one_by_one(search, error).await?,
            };
            purged += gone;
            behind = next;
            if behind.is_none() || purged >= max as u64 {
                // From the first one again: what was found is gone or set aside.
                set(&self.places.ended, shard, None);
                return Ok(purged);
            }
        }
        set(&self.places.ended, shard, behind);
        Ok(purged)
    }

    /// Deletes each run of a search by itself, after the deletion of all of them failed, and sets
    /// those aside that fail alone. Answers how many went, and where to go on.
    async fn purge_one_by_one(
        &self,
        search: EndedRuns,
        error: StoreError,
    ) -> StoreResult<(u64, Option<EndedAt>)> {
        let (shard, now) = (search.shard, search.now);
        warn!(shard, %error, "ended runs could not be deleted; trying each run alone");
        let finished_before = search.finished_before;
        let found = self.database.write(Concern::Registry, ListEnded(search));
        let (runs, next) = found.await?;
        let mut purged = 0;
        for (_, run_id) in runs {
            let one = PurgeEnded {
                run_id,
                finished_before,
                now,
            };
            match self.database.write(Concern::Registry, one).await {
                Ok(gone) => purged += u64::from(gone),
                Err(error) => {
                    let purge = PurgeRecord {
                        run_id,
                        idempotency_key: None,
                        business_id: None,
                        failures: 0,
                        events_through: 0,
                    };
                    self.postpone(purge, &error, now).await?;
                }
            }
        }
        Ok((purged, next))
    }

    /// Deletes what belongs to deleted runs of a shard, or to one of them, in slices. True: more is
    /// left.
    async fn delete_belongings(
        &self,
        shard: i32,
        only: Option<Uuid>,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        for _ in 0..SLICES_AT_ONCE {
            let intent = PurgeSlice {
                shard,
                only,
                limit: SLICE,
                now,
            };
            match self.database.write(Concern::Registry, intent).await {
                Ok(Sliced::Nothing) => return Ok(false),
                Ok(Sliced::Done) if only.is_some() => return Ok(false),
                Ok(Sliced::Done | Sliced::More) => {}
                Err(error) if only.is_some() => return Err(error),
                Err(error) => self.delete_one_by_one(shard, now, error).await?,
            }
        }
        Ok(true)
    }

    /// Takes a small slice of each deleted run by itself, after a slice of several failed, and sets
    /// those aside that fail alone.
    async fn delete_one_by_one(
        &self,
        shard: i32,
        now: Option<Timestamp>,
        error: StoreError,
    ) -> StoreResult<()> {
        warn!(shard, %error, "a slice of deleted runs' rows could not be deleted; trying each run alone");
        let due = DuePurges { shard, now };
        let purges = self.database.write(Concern::Registry, due).await?;
        for purge in purges {
            let intent = PurgeSlice {
                shard,
                only: Some(purge.run_id),
                limit: SMALL_SLICE,
                now,
            };
            if let Err(error) = self.database.write(Concern::Registry, intent).await {
                self.postpone(purge, &error, now).await?;
            }
        }
        Ok(())
    }

    async fn postpone(
        &self,
        purge: PurgeRecord,
        error: &StoreError,
        now: Option<Timestamp>,
    ) -> StoreResult<()> {
        let (run_id, failures) = (purge.run_id, purge.failures.saturating_add(1));
        warn!(%run_id, failures, %error, "a run could not be deleted; its deletion is set aside for later");
        let intent = PostponePurge {
            purge,
            error: limits::clip(error.to_string(), ERROR_BYTES_MAX),
            now,
        };
        self.database.write(Concern::Registry, intent).await
    }

    /// Contract.
    pub(super) async fn delete_ended(
        &self,
        run_id: Uuid,
        now: Option<Timestamp>,
    ) -> StoreResult<DeleteOutcome> {
        let intent = DeleteRun { run_id, now };
        let outcome = self.write_noted(Concern::Registry, intent).await?;
        if !matches!(outcome, DeleteOutcome::Deleted | DeleteOutcome::Deleting) {
            return Ok(outcome);
        }
        let shard = self.database.shards().of_run(run_id);
        let more = self.delete_belongings(shard, Some(run_id), now).await?;
        Ok(if more {
            DeleteOutcome::Deleting
        } else {
            DeleteOutcome::Deleted
        })
    }

    /// Contract.
    pub(super) async fn purge_details(&self, purge: PurgeOld) -> StoreResult<PurgedOld> {
        let now = purge.now;
        let mut purged = PurgedOld::default();
        let mut errors = Errors::default();
        for shard in self.database.shards().from(0) {
            let belongings = self.delete_belongings(shard, None, now).await;
            purged.more |= errors.note("rows of deleted runs", belongings);
            let stuck = StuckPurges { shard, now };
            let stuck = self.database.write(Concern::Registry, stuck).await;
            purged.stuck_runs += errors.note("deletions that failed", stuck);
            if let Some(before) = purge.history_before {
                let past = self.purge_past(shard, before, purge.max, now).await;
                let (events, more) = errors.note("events of earlier iterations", past);
                purged.events += events;
                purged.more |= more;
            }
        }
        let kinds = [
            (OldRows::Signals, purge.signals_before, &mut purged.signals),
            (OldRows::Updates, purge.updates_before, &mut purged.updates),
            (OldRows::Logs, purge.logs_before, &mut purged.step_logs),
            (OldRows::Outbox, purge.outbox_before, &mut purged.outbox),
            (
                OldRows::Letters,
                purge.letters_before,
                &mut purged.dead_letters,
            ),
            (OldRows::Results, purge.results_before, &mut purged.results),
            (OldRows::Workers, purge.workers_before, &mut purged.workers),
            (OldRows::Rollups, purge.rollups_before, &mut purged.rollups),
        ];
        // Looking for ticks reads all that there are: they are left to the deletion of runs.
        purged.more |= errors.note(KEYS, self.purge_keys(false, now).await);
        for (rows, before, gone) in kinds {
            let Some(before) = before else { continue };
            let slices = self.old(rows, before, &purge, &mut errors).await;
            *gone = slices.rows;
            purged.more |= slices.more;
        }
        errors.answer(purged)
    }

    /// One slice of each shard's old rows of a kind.
    async fn old(
        &self,
        rows: OldRows,
        before: Timestamp,
        purge: &PurgeOld,
        errors: &mut Errors,
    ) -> Slice {
        let shards = self.database.shards().from(0);
        let shards = shards.take(if rows.is_sharded() { usize::MAX } else { 1 });
        let mut all = Slice::default();
        for shard in shards {
            let intent = PurgeOldRows {
                rows,
                shard,
                before: rounded_up(before),
                limit: limited(purge.max),
                now: purge.now,
            };
            let slice = self.database.write(Concern::Registry, intent).await;
            let slice = errors.note(rows.as_str(), slice);
            all.rows += slice.rows;
            all.more |= slice.more;
        }
        all
    }

    /// Deletes events of earlier iterations of a shard's runs. Where the events of one run cannot be
    /// deleted, those of the others are, and the error is answered at the end.
    async fn purge_past(
        &self,
        shard: i32,
        before: Timestamp,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<(u64, bool)> {
        let mut gone = 0;
        let mut behind = lock(&self.places.past).get(&shard).copied();
        let mut runs = PAST_RUNS;
        let mut failed = None;
        for _ in 0..SLICES_AT_ONCE {
            let left = max.saturating_sub(usize::try_from(gone).unwrap_or(usize::MAX));
            if left == 0 {
                break;
            }
            let slice_of = |before| PurgePast {
                shard,
                before,
                behind,
                runs,
                limit: limited(left),
                now,
            };
            let intent = slice_of(rounded_up(before));
            let (Slice { rows, more }, next) =
                match self.database.write(Concern::Registry, intent).await {
                    Ok(answer) => answer,
                    Err(_) if runs > 1 => {
                        // One of them may be at fault: one at a time.
                        runs = 1;
                        continue;
                    }
                    Err(error) => {
                        failed.get_or_insert(error);
                        // No event is as old as that: it answers which run to go on behind.
                        let pass_over = slice_of(Timestamp::UNIX_EPOCH);
                        self.database.write(Concern::Registry, pass_over).await?
                    }
                };
            gone += rows;
            if more {
                // The same runs again.
                continue;
            }
            behind = next;
            if behind.is_none() {
                set(&self.places.past, shard, None);
                return failed.map_or(Ok((gone, false)), Err);
            }
        }
        set(&self.places.past, shard, behind);
        failed.map_or(Ok((gone, true)), Err)
    }
}

/// At most a slice.
fn limited(max: usize) -> SliceLimit {
    SliceLimit {
        rows: max.min(SLICE.rows),
        ..SLICE
    }
}

/// Stored instants hold no fractions of a microsecond: what is below the next one is below this.
fn rounded_up(before: Timestamp) -> Timestamp {
    let whole = cut(before);
    if whole == before {
        return before;
    }
    whole
        .checked_add(jiff::SignedDuration::from_micros(1))
        .unwrap_or(whole)
}
