//! Workers, breakers, results recorded once.

use std::collections::BTreeMap;

use durable_core::{Payload, Timestamp};

use crate::persistence::StoreResult;
use crate::persistence::model::{
    BreakerRecord, WorkerBeat, WorkerFilter, WorkerInfo, WorkerStatus,
};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, at, column, long, maybe_at, payload, value};
use crate::persistence::postgres::reader::{Reader, read_all, read_first};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::registry;
use crate::persistence::sql::tx::Concern;

impl Postgres {
    pub(in crate::persistence::postgres) async fn put_worker(
        &self,
        worker: &WorkerInfo,
        now: Option<Timestamp>,
    ) -> StoreResult<()> {
        let call = rows::registry::register(worker, now);
        self.once(Concern::Registry, call).await.map(drop)
    }

    pub(in crate::persistence::postgres) async fn beat_workers(
        &self,
        beats: &[WorkerBeat],
        now: Option<Timestamp>,
    ) -> StoreResult<BTreeMap<String, WorkerStatus>> {
        let beats = &beats.iter().collect::<Vec<_>>();
        let params = vec![
            column(beats, |beat| beat.worker_id.as_str()),
            column(beats, |beat| i64::from(beat.current_load)),
            column(beats, |beat| beat.accepting_tasks),
            column(beats, |beat| beat.backpressure_reason.as_deref()),
            column(beats, |beat| long(beat.tasks_completed)),
            column(beats, |beat| long(beat.tasks_failed)),
            column(beats, |beat| beat.avg_task_duration_ms),
            value(maybe_at(now)),
        ];
        let call = Call::new(&registry::BEAT_WORKERS, params);
        let rows = self.once(Concern::Registry, call).await?;
        let known = read_all(&rows, |row| {
            Ok((row.next()?, row.name(WorkerStatus::parse)?))
        })?;
        Ok(known.into_iter().collect())
    }

    pub(in crate::persistence::postgres) async fn read_workers(
        &self,
        filter: &WorkerFilter,
    ) -> StoreResult<Vec<WorkerInfo>> {
        let params = vec![
            value(filter.worker_group.as_deref()),
            value(filter.status.map(WorkerStatus::as_str)),
            value(maybe_at(filter.heartbeat_since)),
        ];
        let call = Call::new(&registry::LIST_WORKERS, params);
        read_all(
            &self.read_one(Concern::Registry, call).await?,
            rows::registry::worker,
        )
    }

    pub(in crate::persistence::postgres) async fn stop_workers(
        &self,
        silent_since: Timestamp,
    ) -> StoreResult<Vec<String>> {
        let call = Call::new(
            &registry::STOP_SILENT_WORKERS,
            vec![value(at(silent_since))],
        );
        let rows = self.once(Concern::Registry, call).await?;
        let mut stopped = read_all(&rows, Reader::next::<String>)?;
        stopped.sort_unstable();
        Ok(stopped)
    }

    pub(in crate::persistence::postgres) async fn read_breaker(
        &self,
        key: &str,
    ) -> StoreResult<Option<BreakerRecord>> {
        let call = Call::new(&registry::READ_BREAKER, vec![value(key)]);
        read_first(
            &self.read_one(Concern::Registry, call).await?,
            rows::registry::breaker,
        )
    }

    pub(in crate::persistence::postgres) async fn put_breaker(
        &self,
        breaker: &BreakerRecord,
        now: Option<Timestamp>,
    ) -> StoreResult<bool> {
        let statement = match breaker.version {
            0 => &registry::CREATE_BREAKER,
            _ => &registry::SAVE_BREAKER,
        };
        let call = Call::new(statement, rows::registry::breaker_params(breaker, now));
        Ok(!self.once(Concern::Registry, call).await?.is_empty())
    }

    pub(in crate::persistence::postgres) async fn read_breakers(
        &self,
    ) -> StoreResult<Vec<BreakerRecord>> {
        let call = Call::new(&registry::LIST_BREAKERS, Vec::new());
        read_all(
            &self.read_one(Concern::Registry, call).await?,
            rows::registry::breaker,
        )
    }

    pub(in crate::persistence::postgres) async fn read_once(
        &self,
        key: &str,
    ) -> StoreResult<Option<Payload>> {
        let call = Call::new(&registry::READ_ONCE, vec![value(key)]);
        read_first(
            &self.read_one(Concern::Registry, call).await?,
            Reader::payload,
        )
    }

    /// The first result wins; who comes second reads it. Nothing deletes one in between.
    pub(in crate::persistence::postgres) async fn record_once(
        &self,
        key: &str,
        result: &Payload,
        now: Option<Timestamp>,
    ) -> StoreResult<Payload> {
        let params = vec![value(key), value(payload(result)), value(maybe_at(now))];
        self.once(Concern::Registry, Call::new(&registry::PUT_ONCE, params))
            .await?;
        Ok(self.read_once(key).await?.unwrap_or_else(|| result.clone()))
    }
}
