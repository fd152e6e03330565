//! Who takes a run's turns, and which build could not.

use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{BlockRun, Blocked, OwnerRequest};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};

/// Renews ownership, or gives it up (no lease).
#[derive(Debug)]
pub(crate) struct RenewRuns {
    pub(crate) worker_id: String,
    pub(crate) run_ids: Vec<Uuid>,
    pub(crate) lease: Option<Duration>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for RenewRuns {
    type Answer = Vec<bool>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let loaded = tx
            .load(Load {
                runs: self.run_ids.clone(),
                // One that another transaction has is not renewed now, and costs none of the
                // others.
                passing: true,
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let owner = self.lease.map(|lease| {
            let request = OwnerRequest {
                worker_id: self.worker_id.clone(),
                lease,
            };
            request.from(work.now)
        });
        let mut renewed = Vec::with_capacity(self.run_ids.len());
        for run_id in &self.run_ids {
            let allowed = work.run(*run_id).is_some_and(|run| {
                let owns = run.owner.as_ref();
                let owns = owns.is_some_and(|owner| owner.worker_id == self.worker_id);
                let gives_up = owner.is_none();
                owns && (gives_up || run.ready_at.is_none())
            });
            if allowed {
                work.run_mut(*run_id).owner.clone_from(&owner);
            }
            renewed.push(allowed);
        }
        Ok((renewed, work.finish()))
    }
}

/// Notes builds that could not turn runs.
#[derive(Debug)]
pub(crate) struct BlockRuns {
    pub(crate) blocks: Vec<BlockRun>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for BlockRuns {
    type Answer = Vec<bool>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    /// A committer stores blocks between two sets of turns; a run that is locked is tried again by
    /// its next claim.
    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let runs = self.blocks.iter().map(|block| block.run_id).collect();
        let loaded = tx
            .load(Load {
                runs,
                ..Load::default()
            })
            .await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let noted = self.blocks.iter().map(|block| work.block(block)).collect();
        Ok((noted, work.finish()))
    }
}

impl Work {
    fn block(&mut self, block: &BlockRun) -> bool {
        let stuck = self.run(block.run_id).is_some_and(|run| {
            !run.status.is_terminal() && run.sequence == block.expected_sequence
        });
        if stuck {
            let now = self.now;
            let run = self.run_mut(block.run_id);
            run.blocked = Some(Blocked {
                build: block.build.clone(),
                reason: block.reason.clone(),
            });
            run.owner = None;
            run.updated_at = now;
        }
        stuck
    }
}
