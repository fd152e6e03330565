//! Claims tasks that wait in the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Slot, WorkerPool};
use crate::chores::UNTIL_RUNG;
use crate::codec::payloads::HoldsPayloads;
use crate::engine::Hub;
use crate::persistence::model::{ClaimTasks, ClaimedTask, TaskRelease};
use crate::persistence::{Shards, StoreResult, WorkerPort};
use crate::reliability::Verdict;

/// Longest pause after a claim that failed; they begin with the poll interval and double.
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a task that cannot be decoded here is left to others.
const ENCODED_PAUSE: Duration = Duration::from_secs(30);

/// The name under which an operator is told that claims fail.
const TROUBLE: &str = "task-claims";

/// The claim loop of a worker.
pub(crate) struct Claims {
    pub(crate) pool: Arc<WorkerPool>,
    pub(crate) port: Arc<dyn WorkerPort>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) shards: Shards,
    pub(crate) worker_id: String,
}

impl Claims {
    /// Claims until it is told to stop.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        if self.pool.activities.is_empty() {
            return;
        }
        let runtime = &self.pool.runtime;
        let first_pause = self.pool.settings.poll_interval;
        let mut pause = first_pause;
        loop {
            let more = match self.pool.pressure() {
                Some(_) => More::WhenFreer,
                None => self.claim(stop).await,
            };
            let failed = matches!(more, More::AfterPause);
            let rest = async {
                match more {
                    More::Now => {}
                    More::AfterPause => runtime.sleep(runtime.jittered(pause)).await,
                    More::Later => self.rest().await,
                    More::WhenFreer => self.wait_for_room().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = rest => {}
            }
            pause = if failed {
                (pause * 2).min(FAILED_PAUSE_MAX.max(first_pause))
            } else {
                first_pause
            };
        }
    }

    /// Until somebody rings, or it is time to look anyway.
    async fn rest(&self) {
        let runtime = &self.pool.runtime;
        tokio::select! {
            biased;
            () = self.hub.tasks.notified() => {}
            () = self.pool.left_to_others() => {
                // A head start for the others, who were rung: long enough for a ring to reach them.
                let head_start = runtime.jittered(self.pool.settings.poll_interval / 4);
                tokio::select! {
                    biased;
                    () = self.hub.tasks.notified() => {}
                    () = runtime.sleep(head_start) => {}
                }
            }
            () = runtime.sleep(runtime.jittered(self.pause())) => {}
        }
    }

    /// Until a slot is free, or memory and CPU may have changed. What is rung for meanwhile is not forgotten: runs under way would keep their
    /// slots for ever.
    async fn wait_for_room(&self) {
        let runtime = &self.pool.runtime;
        tokio::select! {
            biased;
            () = self.hub.tasks.notified() => self.pool.something_may_wait(),
            () = self.pool.slots.freed() => {}
            () = runtime.sleep(runtime.jittered(self.pool.settings.poll_interval)) => {}
        }
    }

    /// Slow while others can be heard (or there are none) and nothing is known to wait.
    fn pause(&self) -> Duration {
        let deaf = self.hub.bell().is_some_and(|bell| !bell.is_connected());
        if deaf || self.pool.has_backlog() {
            self.pool.settings.poll_interval
        } else {
            UNTIL_RUNG
        }
    }

    async fn claim(&self, stop: &CancellationToken) -> More {
        // Waits for a free slot first: claiming more than can be run would only let leases run out.
        // A claim under way is not broken off: what it has taken would wait for its leases to run out.
        let first = tokio::select! {
            biased;
            () = stop.cancelled() => return More::Later,
            slot = self.pool.slots.take() => slot,
        };
        let Some(first) = first else {
            return More::Later;
        };
        // It may have been asked to drain while it waited.
        if !self.pool.accepting_tasks() {
            return More::WhenFreer;
        }
        let mut slots = vec![first];
        let want = self.pool.claim_size();
        while slots.len() < want
            && let Some(slot) = self.pool.slots.try_take()
        {
            slots.push(slot);
        }
        let asked = slots.len();
        let claim = |activity_types| ClaimTasks {
            worker_id: self.worker_id.clone(),
            activity_types,
            max: asked,
            lease: self.pool.settings.lease,
            token: self.pool.runtime.new_id(),
            first_shard: self.pool.runtime.any_shard(self.shards),
            now: None,
        };
        self.pool.claiming(asked);
        let claimed = match self.wanted_types().await {
            Ok(types) => self.port.claim_tasks(claim(types)).await,
            Err(error) => Err(error),
        };
        self.pool.claiming(0);
        match claimed {
            Ok(tasks) => {
                self.hub.troubles.succeeded(TROUBLE);
                let is_all = tasks.len() < asked && !ClaimedTask::may_have_left_some(&tasks);
                self.admit(tasks, slots).await;
                if is_all {
                    self.pool.backlog_is_gone();
                    More::Later
                } else {
                    More::Now
                }
            }
            Err(error) => {
                // What was rung for still waits.
                if let Some(times) = self.hub.troubles.failed(TROUBLE, error.to_string()) {
                    warn!(%error, times, "tasks cannot be claimed");
                }
                debug!(%error, "tasks could not be claimed");
                More::AfterPause
            }
        }
    }

    /// Types to claim: those that run here, and where any is taken those that wait.
    async fn wanted_types(&self) -> StoreResult<Vec<String>> {
        let mut types = self.pool.activity_types();
        if self.pool.activities.takes_any() {
            types.extend(self.port.waiting_types().await?.tasks);
        }
        Ok(types)
    }

    async fn admit(&self, tasks: Vec<ClaimedTask>, mut slots: Vec<Slot>) {
        // The slots of what is held back are free only once it is given back.
        for task in admitted(&*self.port, &self.pool, &self.hub, tasks).await {
            // A claim answers no more than was asked for; what it did would wait for its lease to run out.
            if let Some(slot) = slots.pop() {
                self.pool.start(task, slot);
            }
        }
    }
}

/// Asks breakers and limiters about tasks that were just claimed, and answers those that may run. What is held back is parked and costs no attempt.
pub(crate) async fn admitted(
    port: &dyn WorkerPort,
    pool: &WorkerPool,
    hub: &Hub,
    mut tasks: Vec<ClaimedTask>,
) -> Vec<ClaimedTask> {
    let mut parked = park_encoded(&mut tasks);
    let verdicts = pool.gate.admit(&tasks).await;
    let mut runnable = Vec::with_capacity(tasks.len());
    for (task, verdict) in tasks.into_iter().zip(verdicts) {
        match verdict {
            Verdict::Run => {
                let first = task.options.silent_attempt_max();
                hub.due.due_in(pool.runtime.instant(), first);
                runnable.push(task);
            }
            Verdict::Park(wait) => {
                parked.push(TaskRelease::parked(task.lease, wait));
            }
        }
    }
    if parked.is_empty() {
        return runnable;
    }
    let soonest = parked.iter().filter_map(|release| release.park).min();
    if let Err(error) = port.release_tasks(parked, None).await {
        // Their leases run out and the reaper takes them back.
        warn!(%error, "tasks could not be given back");
    }
    if let Some(wait) = soonest {
        // Told only now: whoever looked before would not have seen them.
        hub.due.due_in(pool.runtime.instant(), wait);
    }
    runnable
}

/// A task whose payloads cannot be decoded here waits for a worker that can: to the activity it would look like bad data.
fn park_encoded(tasks: &mut Vec<ClaimedTask>) -> Vec<TaskRelease> {
    let encoded = tasks.extract_if(.., HoldsPayloads::has_encoded);
    let park = |task: ClaimedTask| {
        warn!(task_id = %task.lease.task_id, run_id = %task.lease.run_id, "a payload of the task cannot be decoded here; is its codec set, with its key?");
        TaskRelease::parked(task.lease, ENCODED_PAUSE)
    };
    encoded.map(park).collect()
}

enum More {
    /// More may wait.
    Now,
    /// Nobody knows: the store could not be asked.
    AfterPause,
    /// Nothing more for now.
    Later,
    /// The worker has too much to do.
    WhenFreer,
}
