//! What a token that is limited to some queues and workflow types may touch. One rule for HTTP and
//! gRPC: what is said of a run (its tasks, its letters) is in scope with the run's type and the
//! activity's queue.

use std::collections::BTreeSet;

use everruns_durable::persistence::limits::{BATCH_ITEMS_MAX, PAGE_ROWS_MAX};
use everruns_durable::persistence::model::{
    DeadLetter, DeadLetterState, DlqFilter, Page, StartRun, WorkerFilter, WorkerInfo,
};
use everruns_durable::persistence::{StoreError, WorkflowEventStore};
use serde::Deserialize;
use uuid::Uuid;

use crate::auth::{Denied, Principal};
use crate::namesake;

/// How the key of a breaker or limiter of one activity type begins.
const OF_ACTIVITY: &str = "activity:";
/// How the key of a limiter begins, before its own.
const OF_LIMITER: &str = "limit:";

/// Why something may not be touched.
#[derive(Debug)]
pub(crate) enum ScopeError {
    /// It is out of scope.
    Denied(Denied),
    /// It could not be looked up.
    Store(StoreError),
}

impl From<Denied> for ScopeError {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<StoreError> for ScopeError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ScopeError> for StoreError {
    fn from(error: ScopeError) -> Self {
        match error {
            ScopeError::Denied(denied) => Self::Denied(format!("{denied}; {}", denied.hint())),
            ScopeError::Store(error) => error,
        }
    }
}

type Within<T = ()> = Result<T, ScopeError>;

/// What one caller may touch in a store.
pub(crate) struct Scope<'a> {
    store: &'a dyn WorkflowEventStore,
    principal: &'a Principal,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(store: &'a dyn WorkflowEventStore, principal: &'a Principal) -> Self {
        Self { store, principal }
    }

    /// Runs, all of types in scope. A run that does not exist is in no scope's way.
    pub(crate) async fn runs(&self, runs: &[Uuid]) -> Within {
        if self.principal.scopes.workflow_types.is_none() {
            return Ok(());
        }
        let runs: Vec<Uuid> = runs
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        for some in runs.chunks(BATCH_ITEMS_MAX) {
            for run in self.store.summarize_runs(some).await?.into_iter().flatten() {
                self.principal.require_type(&run.workflow_type)?;
            }
        }
        Ok(())
    }

    /// A dead letter, by its queue and its run. One that does not exist is in no scope's way.
    pub(crate) async fn letter(&self, id: Uuid) -> Within {
        if self.principal.is_unscoped() {
            return Ok(());
        }
        match self.store.get_dead_letter(id).await? {
            Some(letter) => self.letter_of(&letter).await,
            None => Ok(()),
        }
    }

    /// A dead letter that was read already.
    pub(crate) async fn letter_of(&self, letter: &DeadLetter) -> Within {
        self.principal.require_queue(&letter.activity_type)?;
        self.runs(&[letter.run_id]).await
    }

    /// The dead letters of a run, which a retry or a reset of the run requeues.
    pub(crate) async fn letters_of(&self, run_id: Uuid) -> Within {
        if self.principal.scopes.queues.is_none() {
            return Ok(());
        }
        let mut filter = DlqFilter {
            run_id: Some(run_id),
            state: Some(DeadLetterState::Dead),
            ..DlqFilter::default()
        };
        loop {
            let page = Page::first(PAGE_ROWS_MAX);
            let letters = self.store.list_dlq(filter.clone(), page).await?;
            for letter in &letters {
                self.principal.require_queue(&letter.activity_type)?;
            }
            match letters.last() {
                Some(last) if letters.len() >= PAGE_ROWS_MAX => filter.after = Some(last.rank()),
                _ => return Ok(()),
            }
        }
    }

    /// Tasks or dead letters that a filter selects: it has to name what the token is limited by.
    pub(crate) async fn tasks(&self, queue: Option<&str>, run_id: Option<Uuid>) -> Within {
        let principal = self.principal;
        match queue {
            Some(queue) => principal.require_queue(queue)?,
            None if principal.scopes.queues.is_some() => {
                return Err(principal.too_wide("a list over all queues").into());
            }
            None => {}
        }
        match run_id {
            Some(run_id) => self.runs(&[run_id]).await,
            None if principal.scopes.workflow_types.is_some() => {
                Err(principal.too_wide("a list over all runs").into())
            }
            None => Ok(()),
        }
    }

    /// A schedule, by its workflow type. One that does not exist is in no scope's way.
    pub(crate) async fn schedule(&self, id: &str) -> Within {
        if self.principal.scopes.workflow_types.is_none() {
            return Ok(());
        }
        if let Some(schedule) = self.store.get_schedule(id).await? {
            self.principal.require_type(&schedule.workflow_type)?;
            // Its next tick may end this run.
            if let Some(last_run) = schedule.last_run {
                self.runs(&[last_run]).await?;
            }
        }
        Ok(())
    }

    /// Workers that are registered. One that is not known is in no scope's way.
    pub(crate) async fn workers(&self, ids: &BTreeSet<&str>) -> Within {
        if self.principal.is_unscoped() || ids.is_empty() {
            return Ok(());
        }
        let workers = self.store.list_workers(WorkerFilter::default()).await?;
        let named = workers.iter().filter(|worker| ids.contains(&*worker.id));
        for worker in named {
            self.hosts(worker)?;
        }
        Ok(())
    }

    /// A worker that hosts something, and only what is in scope.
    pub(crate) fn hosts(&self, worker: &WorkerInfo) -> Within {
        let principal = self.principal;
        if principal.is_unscoped() {
            return Ok(());
        }
        for activity_type in &worker.activity_types {
            principal.require_queue(activity_type)?;
        }
        let hosted: Hosted = worker.metadata.to_value().unwrap_or_default();
        for workflow_type in &hosted.workflow_types {
            principal.require_type(workflow_type)?;
        }
        let nothing = worker.activity_types.is_empty() && hosted.workflow_types.is_empty();
        // A worker without types of its own is a server, or takes whatever there is.
        if nothing || hosted.takes_any_workflow {
            let what = format!("worker {:?}, which hosts nothing by name,", worker.id);
            return Err(principal.too_wide(what).into());
        }
        Ok(())
    }

    /// A breaker or limiter that an operator resets: of one activity type, or shared by many.
    pub(crate) fn breaker(&self, key: &str) -> Within {
        match key
            .strip_prefix(OF_LIMITER)
            .unwrap_or(key)
            .strip_prefix(OF_ACTIVITY)
        {
            Some(activity_type) => Ok(self.principal.require_queue(activity_type)?),
            None => Ok(self
                .principal
                .require_unscoped("a circuit breaker of many activities")?),
        }
    }

    /// A breaker or limiter whose state a worker reads and saves with its tasks. Where the token is
    /// limited to queues, a key of the user's own begins with one of them and a colon.
    pub(crate) fn breaker_of_tasks(&self, key: &str) -> Within {
        let key = key.strip_prefix(OF_LIMITER).unwrap_or(key);
        match key.strip_prefix(OF_ACTIVITY) {
            Some(activity_type) => Ok(self.principal.require_queue(activity_type)?),
            None => self.keyed(key, "circuit breaker"),
        }
    }

    /// A key of `run_once`: of a task of a run in scope, or beginning with a queue and a colon.
    pub(crate) async fn once(&self, key: &str) -> Within {
        if self.principal.is_unscoped() {
            return Ok(());
        }
        let run_id = key.split_once(':').and_then(|(run, _)| run.parse().ok());
        match run_id {
            Some(run_id) => self.runs(&[run_id]).await,
            None => self.keyed(key, "key of run_once"),
        }
    }

    fn keyed(&self, key: &str, what: &str) -> Within {
        let principal = self.principal;
        if principal.scopes.queues.is_none() {
            return Ok(());
        }
        let queue = key.split_once(':').map(|(queue, _)| queue);
        if queue.is_some_and(|queue| principal.may_use_queue(queue)) {
            return Ok(());
        }
        let what =
            format!("the {what} {key:?}, which does not begin with one of its queues and a colon,");
        Err(principal.too_wide(what).into())
    }

    /// A start, which may signal, end or show the run that has its workflow id already.
    pub(crate) async fn start(&self, workflow_type: &str, workflow_id: Option<&str>) -> Within {
        self.principal.require_type(workflow_type)?;
        namesake::check(self.store, self.principal, workflow_id).await??;
        Ok(())
    }
}

/// Types that the last run with a start's workflow id may have; none: any. The store compares them in
/// the commit of the start, so that no run slips in between a look and the start.
pub(crate) fn may_meet(principal: &Principal) -> Option<Vec<String>> {
    let types = principal.scopes.workflow_types.as_ref();
    types.map(|types| types.as_slice().to_vec())
}

/// Limits a start to what its caller may meet.
pub(crate) fn fence(principal: &Principal, start: &mut StartRun) {
    if let Some(types) = may_meet(principal) {
        start.meets_only = Some(types);
    }
}

/// What a worker says about the workflows it hosts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hosted {
    workflow_types: BTreeSet<String>,
    takes_any_workflow: bool,
}
