//! What operators write in the small tables.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::audit::{self, Change};
use crate::persistence::sql::rows::{Changes, RegistryWrite, Touched};
use crate::persistence::sql::tx::{Intent, Tx};

use super::noted::Noticeable;

/// A write on a small table.
#[derive(Debug)]
pub(crate) struct WriteRegistry(pub(crate) RegistryWrite);

impl Intent for WriteRegistry {
    type Answer = Touched;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let touched = tx.write_registry(&self.0).await?;
        Ok((touched, Changes::default()))
    }
}

impl Noticeable for WriteRegistry {
    fn items(&self) -> usize {
        1
    }

    fn changed(&self, touched: &Touched, _: &Changes) -> Vec<(usize, Change)> {
        let change = match &self.0 {
            _ if !touched.changed => None,
            RegistryWrite::PutSchedule(schedule) | RegistryWrite::CreateSchedule(schedule) => {
                Some(audit::schedule_put(schedule))
            }
            RegistryWrite::DeleteSchedule(id) => Some(audit::schedule_deleted(id)),
            RegistryWrite::SetWorkerStatus(id, status) => Some(audit::worker_status(id, *status)),
            RegistryWrite::DeleteWorker(id) => Some(audit::worker_forgotten(id)),
            RegistryWrite::DeleteBreaker(key) => Some(audit::breaker_reset(key)),
            RegistryWrite::PurgeLetters(filter, _) => audit::letters_purged(filter, touched.rows),
        };
        change.map(|change| (0, change)).into_iter().collect()
    }
}
