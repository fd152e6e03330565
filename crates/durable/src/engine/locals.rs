//! Local activities: run beside the committers, between a turn's facts and its commit.
//!
//! The turn that asks for one is not committed before its outcome is known, so that a crash leaves nothing half done: the facts
//! it took are still there, and whoever takes the turn again asks again. The run stays in hand; other runs' commits do not wait.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use durable_core::{
    ActivityError, ActivityOptions, Fact, Failure, LocalCall, Payload, RetryDecision, TimeoutType,
    error_types,
};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::cache::Place;
use super::decide::take_local;
use super::node::Node;
use super::question::Reader;
use super::turner::{Fault, Turner, Undecided, guarded, panic_text};
use crate::activity::{ActivityContext, AttemptTransaction, ContextParts, HeartbeatSink};
use crate::persistence::model::{ClaimedTask, TaskLease};
use crate::workflow::ANSWER;

impl Turner {
    /// Finishes a turn whose code waits for local activities, and commits it.
    pub(super) async fn turn_with_locals(self: Arc<Self>, mut turn: Undecided) {
        let run_id = turn.place.run_id;
        let outcome = match self.run_locals(&mut turn).await {
            Ok(()) => self.conclude(turn, &mut Vec::new()),
            Err(reason) => Err(Box::new(Fault::new(&turn.place, reason, turn.finished))),
        };
        match outcome {
            Ok(decided) => return self.commit_apart(decided).await,
            Err(fault) => self.block(*fault).await,
        }
        let kept = self.cache.holds(run_id);
        self.node.hub.desk.put_down([(run_id, kept)]);
    }

    async fn run_locals(&self, turn: &mut Undecided) -> Result<(), String> {
        let mut running = FuturesUnordered::new();
        loop {
            for call in turn.program.take_local_calls() {
                running.push(run(&self.node, turn.place.clone(), call));
            }
            // Those that were given up meanwhile are dropped where they stand.
            if !turn.program.waits_for_local() {
                return Ok(());
            }
            let Some(fact) = running.next().await else {
                return Ok(());
            };
            guarded(|| take_local(&mut turn.program, &mut turn.decision, &fact))?;
        }
    }
}

/// Runs one to its end, all attempts.
async fn run(node: &Arc<Node>, place: Place, call: LocalCall) -> Fact {
    let mut attempt = 1;
    loop {
        let failure = match attempt_once(node, &place, &call, attempt).await {
            Ok(result) => {
                return Fact::LocalActivityCompleted {
                    activity_id: call.activity_id,
                    activity_type: call.activity_type,
                    result,
                };
            }
            Err(failure) => failure,
        };
        let policy = &call.options.retry_policy;
        match policy.decide(attempt, &failure, node.runtime.fraction()) {
            RetryDecision::Retry(after) => node.runtime.sleep(after).await,
            RetryDecision::Exhausted | RetryDecision::NonRetryable => {
                return Fact::LocalActivityFailed {
                    activity_id: call.activity_id,
                    activity_type: call.activity_type,
                    error: failure,
                };
            }
        }
        attempt += 1;
    }
}

/// One attempt; past its time it is dropped where it stands.
async fn attempt_once(
    node: &Arc<Node>,
    place: &Place,
    call: &LocalCall,
    attempt: u32,
) -> Result<Payload, Failure> {
    let running = AssertUnwindSafe(execute(node, place, call, attempt)).catch_unwind();
    tokio::select! {
        biased;
        answered = running => answered.unwrap_or_else(|panic| {
            let message = format!("the activity panicked: {}", panic_text(&*panic));
            Err(Failure::new(error_types::ACTIVITY_FAILED, message))
        }),
        () = node.runtime.sleep(call.options.start_to_close_timeout) => {
            Err(TimeoutType::StartToClose.failure())
        }
    }
}

async fn execute(
    node: &Arc<Node>,
    place: &Place,
    call: &LocalCall,
    attempt: u32,
) -> Result<Payload, Failure> {
    if call.activity_type == ANSWER {
        let reader = Reader {
            store: &*node.store,
            runtime: &node.runtime,
            workflows: &node.workflows,
            hub: &node.hub,
        };
        return reader.answer(&call.input).await;
    }
    let refused = |why: String| Failure::new(error_types::ACTIVITY_FAILED, why).non_retryable();
    let Some(activity) = node.pool.activity(&call.activity_type) else {
        return Err(refused(format!(
            "this process has no activity {}, so it cannot run it locally",
            call.activity_type
        )));
    };
    if activity.is_transactional() {
        return Err(refused(format!(
            "activity {} is transactional, and a local activity has no result of its own to commit; call it with ctx.activity",
            call.activity_type
        )));
    }
    let task = task_of(node, place, call, attempt);
    let context = ActivityContext::new(
        &task,
        ContextParts {
            cancelled: CancellationToken::new(),
            heartbeats: Arc::new(NoHeartbeats) as Arc<dyn HeartbeatSink>,
            once: node.pool.once(),
            transaction: AttemptTransaction::none(),
            runtime: node.runtime.clone(),
        },
    );
    let answered = activity.call(context, call.input.clone()).await;
    answered.map_err(ActivityError::into_failure)
}

/// What its context is told: a task that is in no queue. Its id is the same for every attempt, also after a crash.
fn task_of(node: &Node, place: &Place, call: &LocalCall, attempt: u32) -> ClaimedTask {
    let name = format!(
        "local/{}/{}/{}",
        place.epoch, place.sequence, call.activity_id
    );
    let task_id = Uuid::new_v5(&place.run_id, name.as_bytes());
    let now = node.runtime.now();
    ClaimedTask {
        lease: TaskLease {
            run_id: place.run_id,
            task_id,
            attempt,
            token: task_id,
        },
        lease_expires_at: now,
        activity_id: call.activity_id.clone(),
        activity_type: call.activity_type.clone(),
        input: call.input.clone(),
        options: ActivityOptions {
            retry_policy: call.options.retry_policy.clone(),
            start_to_close_timeout: call.options.start_to_close_timeout,
            ..ActivityOptions::default()
        },
        deliveries: attempt,
        scheduled_at: now,
        started_at: now,
        heartbeat_details: Payload::ABSENT,
        attempts: Vec::new(),
        trace: place.trace.clone(),
    }
}

/// A local activity has no lease to renew and no next attempt elsewhere.
struct NoHeartbeats;

impl HeartbeatSink for NoHeartbeats {
    fn queue(&self, _lease: &TaskLease, _details: Payload) {}
}
