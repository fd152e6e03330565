//! Finished runs are deleted, and details of runs that go on.
//!
//! A run is deleted in one small commit: its row goes, a tombstone refuses its id, and a row in
//! `durable_purges` says that its belongings are still to be deleted. They go in slices with
//! commits of their own, so that no transaction grows with a run's history.
//!
//! A run whose own row the database refuses to delete gets such a note too, with the error. The run
//! stays whole: its row is tried again when the note is due, before anything that belongs to it.

use std::collections::BTreeSet;

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::audit::{self, Change};
use crate::persistence::limits::{AUDIT_DAYS, TOMBSTONE_DAYS};
use crate::persistence::model::{DeleteOutcome, KeyKind};
use crate::persistence::sql::intents::noted::Noticeable;
use crate::persistence::sql::rows::{
    Changes, EndedAt, Load, Loaded, OldRows, PostponedPurge, PurgeRecord, RunHead, Slice,
    SliceLimit,
};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};

const SECONDS_A_DAY: i64 = 24 * 60 * 60;
/// Ended runs that one search looks at: most of them may be waiting for their outbox.
const CANDIDATES: usize = 1000;
/// Bytes of payloads in the rows of the runs that one commit deletes.
const RUN_BYTES: i64 = 16 << 20;
/// Deleted runs whose belongings one slice takes.
const RUNS_IN_A_SLICE: usize = 200;
/// Runs with earlier iterations that one slice looks at.
pub(crate) const PAST_RUNS: usize = 200;

/// A search for finished runs of one shard.
#[derive(Debug, Clone)]
pub(crate) struct EndedRuns {
    pub(crate) shard: i32,
    pub(crate) finished_before: Timestamp,
    /// Where the last search of this shard stopped.
    pub(crate) behind: Option<EndedAt>,
    pub(crate) max: usize,
    pub(crate) now: Option<Timestamp>,
}

impl EndedRuns {
    /// The runs to delete, and where to go on.
    async fn choose<T: Tx>(&self, tx: &mut T) -> StoreResult<(Vec<EndedAt>, Option<EndedAt>)> {
        let candidates = CANDIDATES.max(self.max);
        let found = tx
            .purgeable_runs(self.shard, self.finished_before, self.behind, candidates)
            .await?;
        let mut next = found.next;
        let mut chosen: Vec<EndedAt> = Vec::new();
        let mut bytes = 0;
        for (run, size) in found.runs {
            if chosen.len() >= self.max || bytes >= RUN_BYTES {
                next = chosen.last().copied().or(self.behind);
                break;
            }
            bytes += size;
            chosen.push(run);
        }
        Ok((chosen, next))
    }
}

/// Names the finished runs that [`PurgeShard`] would delete.
#[derive(Debug)]
pub(crate) struct ListEnded(pub(crate) EndedRuns);

impl Intent for ListEnded {
    /// The runs, and where to go on.
    type Answer = (Vec<EndedAt>, Option<EndedAt>);

    fn at(&self) -> Option<Timestamp> {
        self.0.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        Ok((self.0.choose(tx).await?, Changes::default()))
    }
}

/// Deletes finished runs of one shard.
#[derive(Debug)]
pub(crate) struct PurgeShard(pub(crate) EndedRuns);

impl Intent for PurgeShard {
    /// How many went, and where to go on.
    type Answer = (u64, Option<EndedAt>);

    fn at(&self) -> Option<Timestamp> {
        self.0.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let (chosen, next) = self.0.choose(tx).await?;
        let loaded = tx
            .load(Load {
                runs: chosen.iter().map(|(_, id)| *id).collect(),
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let purged = chosen
            .into_iter()
            .filter(|(_, run)| work.purge(*run, Some(self.0.finished_before)))
            .count();
        Ok(((purged as u64, next), work.finish()))
    }
}

/// Deletes one finished run of a search, after the deletion of several failed.
#[derive(Debug)]
pub(crate) struct PurgeEnded {
    pub(crate) run_id: Uuid,
    pub(crate) finished_before: Timestamp,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for PurgeEnded {
    type Answer = bool;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let loaded = tx
            .load(Load {
                runs: vec![self.run_id],
                passing: true,
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let purged = !tx.is_on_its_way(self.run_id).await?
            && work.purge(self.run_id, Some(self.finished_before));
        Ok((purged, work.finish()))
    }
}

/// Deletes one finished run.
#[derive(Debug)]
pub(crate) struct DeleteRun {
    pub(crate) run_id: Uuid,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for DeleteRun {
    /// [`DeleteOutcome::Deleted`]: by this call; [`DeleteOutcome::Deleting`]: before, and rows are
    /// left.
    type Answer = DeleteOutcome;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let run_id = self.run_id;
        let tombstone = (KeyKind::Tombstone, run_id.to_string());
        let loaded = tx
            .load(Load {
                keys: vec![tombstone.clone()],
                runs: vec![run_id],
                ..Load::default()
            })
            .await?;
        let is_buried = loaded.keys.contains_key(&tombstone);
        let mut work = Work::new(tx.now().await?, loaded);
        let outcome = match work.run(run_id).map(|run| run.status) {
            None if tx.purge_of(run_id).await?.is_some() => DeleteOutcome::Deleting,
            None if is_buried => DeleteOutcome::AlreadyDeleted,
            None => DeleteOutcome::NotFound,
            Some(status) if !status.is_terminal() => DeleteOutcome::Open(status),
            Some(_) if tx.is_on_its_way(run_id).await? => DeleteOutcome::Undelivered,
            Some(_) => {
                work.purge(run_id, None);
                DeleteOutcome::Deleted
            }
        };
        Ok((outcome, work.finish()))
    }
}

impl Noticeable for DeleteRun {
    fn items(&self) -> usize {
        1
    }

    fn changed(&self, outcome: &DeleteOutcome, _: &Changes) -> Vec<(usize, Change)> {
        let change = audit::run_deleted(self.run_id, *outcome == DeleteOutcome::Deleted);
        change.map(|change| (0, change)).into_iter().collect()
    }
}

/// Deletes a slice of what belongs to deleted runs; once nothing is left, their keys and the note
/// that they are to be deleted.
#[derive(Debug)]
pub(crate) struct PurgeSlice {
    pub(crate) shard: i32,
    /// Only of this run.
    pub(crate) only: Option<Uuid>,
    pub(crate) limit: SliceLimit,
    pub(crate) now: Option<Timestamp>,
}

/// What a slice did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sliced {
    /// There was nothing to delete.
    Nothing,
    /// Rows went; more are left.
    More,
    /// The runs of the slice have no rows left.
    Done,
}

impl Intent for PurgeSlice {
    type Answer = Sliced;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let mut purges = match self.only {
            Some(run_id) => tx.purge_of(run_id).await?.into_iter().collect(),
            None => tx.due_purges(self.shard, RUNS_IN_A_SLICE).await?,
        };
        let mut changes = rows_before_belongings(tx, &mut purges).await?;
        if purges.is_empty() {
            return Ok((Sliced::Nothing, changes));
        }
        let (slice, events_through) = tx
            .delete_belongings(self.shard, &purges, self.limit)
            .await?;
        if slice.more {
            changes.advance_purges = events_through;
            return Ok((Sliced::More, changes));
        }
        let mut runs = purges.iter().map(|purge| purge.run_id).collect();
        changes.delete_keys = purges.into_iter().flat_map(keys_of).collect();
        changes.delete_purges.append(&mut runs);
        Ok((Sliced::Done, changes))
    }
}

/// Deletes the rows of runs that the database refused before, in the commit of the first slice of
/// what belongs to them: a run is there or gone, never in part. A run that is locked is left for
/// later. Of one that must stay, because it was opened again or has messages on their way, only the
/// note goes.
async fn rows_before_belongings<T: Tx>(
    tx: &mut T,
    purges: &mut Vec<PurgeRecord>,
) -> StoreResult<Changes> {
    let failed = purges.iter().filter(|purge| purge.failures > 0);
    let failed: Vec<Uuid> = failed.map(|purge| purge.run_id).collect();
    let mut loaded = Loaded::default();
    if !failed.is_empty() {
        loaded = tx
            .load(Load {
                runs: failed.clone(),
                passing: true,
                ..Load::default()
            })
            .await?;
    }
    let mut work = Work::new(tx.now().await?, loaded);
    let mut left: BTreeSet<Uuid> = std::mem::take(&mut work.loaded.busy);
    for run_id in failed {
        if work.run(run_id).is_none() {
            continue;
        }
        if tx.is_on_its_way(run_id).await? || !work.purge(run_id, None) {
            work.changes.delete_purges.push(run_id);
            left.insert(run_id);
        }
    }
    purges.retain(|purge| !left.contains(&purge.run_id));
    Ok(work.finish())
}

/// The keys that a run had.
fn keys_of(purge: PurgeRecord) -> impl Iterator<Item = (KeyKind, String, Uuid)> {
    let run_id = purge.run_id;
    let keys = [
        (KeyKind::Idempotency, purge.idempotency_key),
        (KeyKind::Business, purge.business_id),
    ];
    keys.into_iter()
        .filter_map(move |(kind, key)| Some((kind, key?, run_id)))
}

/// Which deleted runs of a shard still have rows.
#[derive(Debug)]
pub(crate) struct DuePurges {
    pub(crate) shard: i32,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for DuePurges {
    type Answer = Vec<PurgeRecord>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let purges = tx.due_purges(self.shard, RUNS_IN_A_SLICE).await?;
        Ok((purges, Changes::default()))
    }
}

/// Sets a deletion that failed aside for a while, and notes it if the run itself is still there.
/// The tombstone of one that is gone is renewed: the id stays refused while rows are left.
#[derive(Debug)]
pub(crate) struct PostponePurge {
    pub(crate) purge: PurgeRecord,
    pub(crate) error: String,
    pub(crate) now: Option<Timestamp>,
}

/// The longest pause between two attempts at a deletion that fails.
const PAUSE_MAX_SECONDS: i64 = 6 * 60 * 60;

impl Intent for PostponePurge {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let PurgeRecord {
            run_id, failures, ..
        } = self.purge;
        let loaded = tx
            .load(Load {
                runs: vec![run_id],
                passing: true,
                ..Load::default()
            })
            .await?;
        let now = tx.now().await?;
        let doublings = failures.clamp(0, 16).unsigned_abs();
        let pause = (60_i64 << doublings).min(PAUSE_MAX_SECONDS);
        let retry_at = now
            .checked_add(jiff::SignedDuration::from_secs(pause))
            .unwrap_or(now);
        let mut work = Work::new(now, loaded);
        match work.run(run_id).map(purge_of) {
            Some(purge) => work.changes.insert_purges.push(purge),
            None if work.loaded.busy.contains(&run_id) => {}
            None => work.put_key(KeyKind::Tombstone, &run_id.to_string(), run_id),
        }
        work.changes.postpone_purges.push(PostponedPurge {
            run_id,
            failures: failures.saturating_add(1),
            retry_at,
            error: self.error.clone(),
        });
        Ok(((), work.finish()))
    }
}

/// How many deletions of a shard failed at their last attempt.
#[derive(Debug)]
pub(crate) struct StuckPurges {
    pub(crate) shard: i32,
    pub(crate) now: Option<Timestamp>,
}

/// Deletions that failed are counted up to that, in each shard.
const STUCK_COUNTED: usize = 1000;

impl Intent for StuckPurges {
    type Answer = u64;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let stuck = tx.stuck_purges(self.shard, STUCK_COUNTED).await?;
        Ok((stuck, Changes::default()))
    }
}

/// Deletes a slice of rows that are old.
#[derive(Debug)]
pub(crate) struct PurgeOldRows {
    pub(crate) rows: OldRows,
    pub(crate) shard: i32,
    pub(crate) before: Timestamp,
    pub(crate) limit: SliceLimit,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for PurgeOldRows {
    type Answer = Slice;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let slice = tx
            .delete_old(self.rows, self.shard, self.before, self.limit)
            .await?;
        Ok((slice, Changes::default()))
    }
}

/// Deletes a slice of the events of earlier iterations.
#[derive(Debug)]
pub(crate) struct PurgePast {
    pub(crate) shard: i32,
    pub(crate) before: Timestamp,
    /// Where the last slice of this shard stopped.
    pub(crate) behind: Option<Uuid>,
    /// Runs to look at.
    pub(crate) runs: usize,
    pub(crate) limit: SliceLimit,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for PurgePast {
    type Answer = (Slice, Option<Uuid>);

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let answer = tx
            .delete_past(self.shard, self.before, self.behind, self.runs, self.limit)
            .await?;
        Ok((answer, Changes::default()))
    }
}

/// Forgets tombstones and audit rows that have stood long enough, ticks that no schedule can take again, and limiters that are no longer used.
#[derive(Debug)]
pub(crate) struct PurgeKeys {
    pub(crate) max: usize,
    /// Also ticks and limiters: looking for them reads all that there are.
    pub(crate) slots: bool,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for PurgeKeys {
    /// Whether as many of a kind went as one call takes: there may be more.
    type Answer = bool;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let now = tx.now().await?;
        // Those that stood for longer than that, to the microsecond.
        let before = days_before(now, TOMBSTONE_DAYS);
        let tombstones = tx.old_tombstones(before, self.max).await?;
        let slots = if self.slots {
            tx.old_slots(before, self.max).await?
        } else {
            Vec::new()
        };
        let audit_before = days_before(now, AUDIT_DAYS);
        let audit_rows = tx.forget_audit(audit_before, self.max).await?;
        let max = self.max as u64;
        let counts = [tombstones.len() as u64, slots.len() as u64, audit_rows];
        let more = counts.into_iter().any(|count| count >= max);
        let of = |kind| move |(key, run_id)| (kind, key, run_id);
        let tombstones = tombstones.into_iter().map(of(KeyKind::Tombstone));
        let slots = slots.into_iter().map(of(KeyKind::CronSlot));
        Ok((
            more,
            Changes {
                now,
                delete_keys: tombstones.chain(slots).collect(),
                forget_limiters: self.slots.then_some(before),
                ..Changes::default()
            },
        ))
    }
}

pub(crate) fn days_before(now: Timestamp, days: i64) -> Timestamp {
    let age = jiff::SignedDuration::from_secs(days * SECONDS_A_DAY);
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// The note that a run is to be deleted.
fn purge_of(run: &RunHead) -> PurgeRecord {
    PurgeRecord {
        run_id: run.id,
        idempotency_key: run.idempotency_key.clone(),
        business_id: run.business_id.clone(),
        failures: 0,
        events_through: 0,
    }
}

impl Work {
    /// Deletes a run that ended, before an instant where one is given.
    fn purge(&mut self, run_id: Uuid, finished_before: Option<Timestamp>) -> bool {
        let Some(run) = self.run(run_id) else {
            return false;
        };
        let is_early = |at: Timestamp| finished_before.is_none_or(|before| at < before);
        if !run.status.is_terminal() || !run.completed_at.is_some_and(is_early) {
            return false;
        }
        let purge = purge_of(run);
        self.changes.insert_purges.push(purge);
        self.changes.delete_runs.push(run_id);
        self.put_key(KeyKind::Tombstone, &run_id.to_string(), run_id);
        true
    }
}
