//! Schedules outside a tick.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{Page, ScheduleFilter, ScheduleRecord};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, limit, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all, read_first};
use crate::persistence::postgres::rows::schedules::record;
use crate::persistence::postgres::sql::{clock, schedules};
use crate::persistence::sql::tx::Concern;

impl Postgres {
    pub(in crate::persistence::postgres) async fn read_schedule(
        &self,
        id: &str,
    ) -> StoreResult<Option<ScheduleRecord>> {
        let call = Call::new(&schedules::READ_SCHEDULE, vec![value(id)]);
        read_first(&self.read_one(Concern::Registry, call).await?, record)
    }

    pub(in crate::persistence::postgres) async fn read_schedules(
        &self,
        filter: &ScheduleFilter,
        page: Page,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        let params = vec![
            value(filter.after.as_deref()),
            value(limit(page.rows())),
            value(limit(page.offset)),
        ];
        let call = Call::new(&schedules::LIST_SCHEDULES, params);
        read_all(&self.look_up(call).await?, record)
    }

    pub(in crate::persistence::postgres) async fn read_clock(&self) -> StoreResult<Timestamp> {
        let call = Call::new(&clock::CLOCK, Vec::new());
        let rows = self.read_one(Concern::Registry, call).await?;
        Ok(read_all(&rows, Reader::at)?[0])
    }

    pub(in crate::persistence::postgres) async fn read_due_schedules(
        &self,
        max: usize,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<ScheduleRecord>> {
        let params = vec![value(maybe_at(now)), value(limit(max))];
        let call = Call::new(&schedules::DUE_SCHEDULES, params);
        read_all(&self.read_one(Concern::Registry, call).await?, record)
    }
}
