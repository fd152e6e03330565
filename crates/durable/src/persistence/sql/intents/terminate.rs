//! Runs are ended from outside.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{TerminateOutcome, TerminateRun};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::end::terminated;
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};

/// Terminates runs.
#[derive(Debug)]
pub(crate) struct TerminateRuns {
    pub(crate) runs: Vec<TerminateRun>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for TerminateRuns {
    type Answer = Vec<TerminateOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::of_set(self.runs.len())
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let ids: Vec<_> = self.runs.iter().map(|run| run.run_id).collect();
        let load = Load {
            unread_of: ids.iter().map(|id| (*id, i64::MIN)).collect(),
            runs: ids,
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let outcomes = self.runs.iter().map(|run| work.terminate(run)).collect();
        Ok((outcomes, work.finish()))
    }
}

impl Work {
    fn terminate(&mut self, terminate: &TerminateRun) -> TerminateOutcome {
        let Some(run) = self.run(terminate.run_id) else {
            return TerminateOutcome::NotFound;
        };
        if run.status.is_terminal() {
            return TerminateOutcome::AlreadyFinished(run.status);
        }
        self.end_by_store(terminate.run_id, terminated(&terminate.reason));
        TerminateOutcome::Terminated
    }
}
