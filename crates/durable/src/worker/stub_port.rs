//! A port for the tests of a worker's parts: it answers what a test says, and remembers what it was asked.

use std::time::Duration;

use async_trait::async_trait;
use durable_core::Timestamp;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::persistence::model::{
    BlockRun, ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, FinishOutcome, History,
    LeaseExtension, LeaseState, TaskRelease, TaskResult, TurnCommit, TurnOutcome, WaitingTypes,
};
use crate::persistence::{StoreError, StoreResult, WorkerPort, check};

/// Takes leases and results as a store would, after as many failures as it was given.
#[derive(Default)]
pub(super) struct StubPort {
    /// Calls that fail first.
    pub(super) failures: Mutex<usize>,
    /// Items with this text in them are refused, as a store would refuse what [`check`] does not see.
    pub(super) poison: Option<&'static str>,
    /// A set of results with this text in one of them gets no answer, as from a database that cannot
    /// write one row.
    pub(super) stuck: Option<&'static str>,
    /// Calls of `extend_leases` that were carried out.
    pub(super) extended: Mutex<Vec<Vec<LeaseExtension>>>,
    /// Calls of `finish_tasks` that were carried out.
    pub(super) finished: Mutex<Vec<Vec<TaskResult>>>,
}

impl StubPort {
    fn fail(&self) -> StoreResult<()> {
        let mut failures = self.failures.lock();
        if *failures == 0 {
            return Ok(());
        }
        *failures -= 1;
        Err(StoreError::unavailable("as the test says", "no answer"))
    }

    fn refuse<T: std::fmt::Debug>(&self, items: &[T]) -> StoreResult<()> {
        let poisoned = |item: &T| {
            self.poison
                .is_some_and(|poison| format!("{item:?}").contains(poison))
        };
        if items.iter().any(poisoned) {
            return Err(StoreError::Invalid("as the test says".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl WorkerPort for StubPort {
    async fn extend_leases(
        &self,
        extensions: Vec<LeaseExtension>,
        _now: Option<Timestamp>,
    ) -> StoreResult<Vec<LeaseState>> {
        self.fail()?;
        check::extensions(&extensions)?;
        self.refuse(&extensions)?;
        let expires_at = Timestamp::UNIX_EPOCH;
        let states = vec![LeaseState::Extended { expires_at }; extensions.len()];
        self.extended.lock().push(extensions);
        Ok(states)
    }

    async fn finish_tasks(
        &self,
        results: Vec<TaskResult>,
        _now: Option<Timestamp>,
    ) -> StoreResult<Vec<FinishOutcome>> {
        self.fail()?;
        let is_stuck = |text| format!("{results:?}").contains(text);
        if self.stuck.is_some_and(is_stuck) {
            return Err(StoreError::unavailable("as the test says", "no answer"));
        }
        check::results(&results)?;
        self.refuse(&results)?;
        let outcomes = results.iter().map(|_| FinishOutcome::Parked).collect();
        self.finished.lock().push(results);
        Ok(outcomes)
    }

    async fn claim_turns(&self, _: ClaimTurns) -> StoreResult<Vec<ClaimedTurn>> {
        unreachable!("not asked by these tests")
    }

    async fn load_turns(&self, _: &[Uuid]) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        unreachable!("not asked by these tests")
    }

    async fn load_history(&self, _: Uuid, _: i64) -> StoreResult<Option<History>> {
        unreachable!("not asked by these tests")
    }

    async fn commit_turns(
        &self,
        _: Vec<TurnCommit>,
        _: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        unreachable!("not asked by these tests")
    }

    async fn block_runs(&self, _: Vec<BlockRun>, _: Option<Timestamp>) -> StoreResult<Vec<bool>> {
        unreachable!("not asked by these tests")
    }

    async fn renew_runs(
        &self,
        _: &str,
        _: &[Uuid],
        _: Duration,
        _: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        unreachable!("not asked by these tests")
    }

    async fn release_runs(&self, _: &str, _: &[Uuid]) -> StoreResult<()> {
        unreachable!("not asked by these tests")
    }

    async fn waiting_types(&self) -> StoreResult<WaitingTypes> {
        Ok(WaitingTypes::default())
    }

    async fn claim_tasks(&self, _: ClaimTasks) -> StoreResult<Vec<ClaimedTask>> {
        unreachable!("not asked by these tests")
    }

    async fn release_tasks(
        &self,
        _: Vec<TaskRelease>,
        _: Option<Timestamp>,
    ) -> StoreResult<Vec<bool>> {
        unreachable!("not asked by these tests")
    }
}

/// A task that was claimed: by its number, so that tests can tell them apart.
pub(super) fn task(number: u128) -> ClaimedTask {
    let now = Timestamp::UNIX_EPOCH;
    ClaimedTask {
        lease: crate::persistence::model::TaskLease {
            run_id: Uuid::from_u128(number),
            task_id: Uuid::from_u128(number),
            attempt: 1,
            token: Uuid::from_u128(number),
        },
        lease_expires_at: now,
        activity_id: "a".to_owned(),
        activity_type: "a".to_owned(),
        input: durable_core::Payload::ABSENT,
        options: durable_core::ActivityOptions::default(),
        deliveries: 1,
        scheduled_at: now,
        started_at: now,
        heartbeat_details: durable_core::Payload::ABSENT,
        attempts: Vec::new(),
        trace: None,
    }
}
