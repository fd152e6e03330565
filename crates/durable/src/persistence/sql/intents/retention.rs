//! Finished runs are deleted.

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::limits::{AUDIT_DAYS, TOMBSTONE_DAYS};
use crate::persistence::model::KeyKind;
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};

const SECONDS_A_DAY: i64 = 24 * 60 * 60;

/// Deletes finished runs of one shard.
#[derive(Debug)]
pub(crate) struct PurgeShard {
    pub(crate) shard: i32,
    pub(crate) finished_before: Timestamp,
    pub(crate) max: usize,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for PurgeShard {
    type Answer = u64;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let runs = tx
            .purgeable_runs(self.shard, self.finished_before, self.max)
            .await?;
        let loaded = tx
            .load(Load {
                runs: runs.clone(),
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let purged = runs
            .into_iter()
            .filter(|run| work.purge(*run, self.finished_before))
            .count();
        Ok((purged as u64, work.finish()))
    }
}

/// Forgets tombstones that have stood long enough, ticks that nobody could take again, and limiters that nobody asks any more.
#[derive(Debug)]
pub(crate) struct PurgeKeys {
    pub(crate) max: usize,
    /// Also ticks and limiters: looking for them reads all that there are.
    pub(crate) slots: bool,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for PurgeKeys {
    type Answer = ();

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
        let of = |kind| move |(key, run_id)| (kind, key, run_id);
        let tombstones = tombstones.into_iter().map(of(KeyKind::Tombstone));
        let slots = slots.into_iter().map(of(KeyKind::CronSlot));
        Ok((
            (),
            Changes {
                now,
                delete_keys: tombstones.chain(slots).collect(),
                forget_limiters: self.slots.then_some(before),
                forget_audit: Some((days_before(now, AUDIT_DAYS), self.max)),
                ..Changes::default()
            },
        ))
    }
}

fn days_before(now: Timestamp, days: i64) -> Timestamp {
    let age = jiff::SignedDuration::from_secs(days * SECONDS_A_DAY);
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

impl Work {
    fn purge(&mut self, run_id: Uuid, finished_before: Timestamp) -> bool {
        let Some(run) = self.run(run_id) else {
            return false;
        };
        if run.completed_at.is_none_or(|at| at >= finished_before) {
            return false;
        }
        let keys = [
            (KeyKind::Idempotency, run.idempotency_key.clone()),
            (KeyKind::Business, run.business_id.clone()),
        ];
        let keys = keys
            .into_iter()
            .filter_map(|(kind, key)| Some((kind, key?, run_id)));
        self.changes.delete_keys.extend(keys);
        self.changes.purge_runs.push(run_id);
        self.put_key(KeyKind::Tombstone, &run_id.to_string(), run_id);
        true
    }
}
