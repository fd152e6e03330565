//! One store with a clock and ids that a test holds in its hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use durable_core::{
    ActivityOptions, Failure, Payload, RetryPolicy, Timestamp, TraceContext, WorkflowEvent,
};
use everruns_durable::persistence::model::{
    ClaimTasks, ClaimTurns, ClaimedTask, ClaimedTurn, Committed, FinishOutcome, FireDue, Fired,
    HostedType, LeaseRequest, NewSignal, NewTask, Next, ReapLeases, ReapedTask, Rejection,
    RelayMessages, Relayed, RunDump, RunRecord, SendOutcome, SendSignal, StartOutcome, StartRun,
    TaskLease, TaskOutcome, TaskResult, TurnCommit, TurnOutcome,
};
use everruns_durable::persistence::{StoreError, StoreResult, WorkflowEventStore};
use parking_lot::Mutex;
use tokio::sync::Barrier;
use uuid::Uuid;

mod ends;
mod leases;

/// Workflow type of the runs that [`World`] starts.
pub const WORKFLOW: &str = "workflow";
/// Activity type of the tasks that [`World`] queues.
pub const ACTIVITY: &str = "activity";
/// The worker in whose name [`World`] claims.
pub const WORKER: &str = "worker-1";
/// Length of the leases that [`World`] asks for.
pub const LEASE: Duration = Duration::from_secs(15);

/// One store with a clock and ids that a test holds in its hand.
///
/// Time stands still until [`World::advance`]; ids are UUIDv7-like, ever larger, the same in every run.
pub struct World {
    /// The store.
    pub store: Arc<dyn WorkflowEventStore>,
    clock: Mutex<Timestamp>,
    ids: AtomicU64,
}

impl World {
    /// A world around a store, at a fixed instant.
    #[must_use]
    pub fn new(store: Arc<dyn WorkflowEventStore>) -> Self {
        let start = Timestamp::from_second(1_800_000_000).expect("an instant in 2027");
        Self {
            store,
            clock: Mutex::new(start),
            ids: AtomicU64::new(1),
        }
    }

    /// The instant it is, in the form the intents take.
    pub fn now(&self) -> Option<Timestamp> {
        Some(self.instant())
    }

    /// The instant it is.
    pub fn instant(&self) -> Timestamp {
        *self.clock.lock()
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut clock = self.clock.lock();
        *clock = clock
            .checked_add(by)
            .expect("tests do not reach the end of time");
    }

    /// A new id, larger than those before.
    pub fn id(&self) -> Uuid {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        // The low bytes decide the shard, so they have to vary: spread the counter over them.
        let low = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2 | 0x8000_0000_0000_0000;
        Uuid::from_u128(
            (0x0190_0000_0000_7000_u128 + (u128::from(n) << 16)) << 64 | u128::from(low),
        )
    }

    /// A start with default values.
    pub fn new_start(&self) -> StartRun {
        StartRun::new(self.id(), WORKFLOW, json("{}"))
    }

    /// Starts a run and answers its id.
    pub async fn start(&self) -> Uuid {
        self.start_one(self.new_start()).await
    }

    /// Starts this run, which must be new, and answers its id.
    pub async fn start_one(&self, start: StartRun) -> Uuid {
        match self.try_start(start).await {
            StartOutcome::Started { run_id } => run_id,
            other => panic!("expected a start, got {other:?}"),
        }
    }

    /// Starts a run, whatever the outcome.
    pub async fn try_start(&self, start: StartRun) -> StartOutcome {
        one(self.store.start_runs(vec![start], self.now()).await)
    }

    /// The run as stored.
    pub async fn run(&self, run_id: Uuid) -> RunRecord {
        self.store
            .get_run(run_id)
            .await
            .expect("get_run")
            .expect("the run exists")
    }

    /// A turn on the run as it is now, which takes every fact that waits. It has one harmless event (a side effect), so that it may queue tasks.
    pub async fn turn(&self, run_id: Uuid) -> TurnCommit {
        self.turn_on(&self.run(run_id).await)
    }

    /// [`World::turn`] of a run that such a start would make.
    pub fn turn_of_new(&self, start: &StartRun) -> TurnCommit {
        self.turn_on(&RunRecord::new(start, None, self.instant()))
    }

    fn turn_on(&self, run: &RunRecord) -> TurnCommit {
        let mut turn = TurnCommit::new(run, self.id());
        turn.facts_through = run.arrivals;
        turn.events.push(WorkflowEvent::SideEffectRecorded {
            effect_id: turn.turn_id.to_string(),
            value: Payload::null(),
        });
        turn.lease = Some(LeaseRequest {
            worker_id: WORKER.into(),
            lease: LEASE,
        });
        turn
    }

    /// The same turn made to complete the run.
    #[must_use]
    pub fn completing(mut turn: TurnCommit) -> TurnCommit {
        turn.events.push(WorkflowEvent::WorkflowCompleted {
            result: json("\"done\""),
        });
        turn.next = Next::Complete {
            result: json("\"done\""),
        };
        turn
    }

    /// Commits one turn, whatever the outcome.
    pub async fn commit(&self, turn: TurnCommit) -> TurnOutcome {
        one(self.store.commit_turns(vec![turn], self.now()).await)
    }

    /// Commits one turn that must be accepted.
    pub async fn committed(&self, turn: TurnCommit) -> Committed {
        match self.commit(turn).await {
            TurnOutcome::Committed(committed) => committed,
            TurnOutcome::Rejected(why) => panic!("expected a commit, was rejected: {why}"),
        }
    }

    /// Commits one turn that must be rejected.
    pub async fn rejected(&self, turn: TurnCommit) -> Rejection {
        match self.commit(turn).await {
            TurnOutcome::Rejected(why) => why,
            TurnOutcome::Committed(c) => panic!("expected a rejection, was committed: {c:?}"),
        }
    }

    /// Completes the run.
    pub async fn complete(&self, run_id: Uuid) {
        let turn = self.turn(run_id).await;
        self.committed(Self::completing(turn)).await;
    }

    /// A task to queue that runs beside others (not in line).
    pub fn parallel_task(&self, activity_id: &str) -> NewTask {
        let mut task = self.task(activity_id);
        task.options.sequential = false;
        task
    }

    /// A task to queue, in its run's line, with one attempt a second apart and three in all, no jitter.
    pub fn task(&self, activity_id: &str) -> NewTask {
        NewTask {
            task_id: self.id(),
            activity_id: activity_id.into(),
            activity_type: ACTIVITY.into(),
            input: json("1"),
            options: ActivityOptions {
                retry_policy: RetryPolicy {
                    jitter: 0.0,
                    ..RetryPolicy::default()
                },
                ..ActivityOptions::default()
            },
            delay: None,
            lease: false,
            trace: None,
        }
    }

    /// Starts a run whose first turn queues these tasks.
    pub async fn start_with_tasks(&self, tasks: Vec<NewTask>) -> Uuid {
        let run_id = self.start().await;
        self.queue(run_id, tasks).await;
        run_id
    }

    /// Queues tasks by a turn.
    pub async fn queue(&self, run_id: Uuid, tasks: Vec<NewTask>) -> Committed {
        let mut turn = self.turn(run_id).await;
        turn.tasks = tasks;
        self.committed(turn).await
    }

    /// A claim of up to `max` tasks of [`ACTIVITY`].
    pub fn new_claim(&self, max: usize) -> ClaimTasks {
        ClaimTasks {
            worker_id: WORKER.into(),
            activity_types: vec![ACTIVITY.into()],
            max,
            lease: LEASE,
            token: self.id(),
            first_shard: 0,
            now: self.now(),
        }
    }

    /// Claims up to `max` tasks of [`ACTIVITY`].
    pub async fn claim(&self, max: usize) -> Vec<ClaimedTask> {
        self.store
            .claim_tasks(self.new_claim(max))
            .await
            .expect("claim_tasks")
    }

    /// Claims exactly one task.
    pub async fn claim_one(&self) -> ClaimedTask {
        let mut tasks = self.claim(1).await;
        assert_eq!(tasks.len(), 1, "one task to claim");
        tasks.remove(0)
    }

    /// Reports a result, whatever the outcome.
    pub async fn report(&self, lease: &TaskLease, outcome: TaskOutcome) -> FinishOutcome {
        let result = TaskResult {
            lease: lease.clone(),
            outcome,
            jitter: 0.5,
            step_logs: vec![],
        };
        one(self.store.finish_tasks(vec![result], self.now()).await)
    }

    /// Completes a task; the lease must count.
    pub async fn succeed(&self, lease: &TaskLease) {
        let outcome = self
            .report(lease, TaskOutcome::Completed { result: json("2") })
            .await;
        assert!(
            matches!(outcome, FinishOutcome::Recorded { .. }),
            "got {outcome:?}"
        );
    }

    /// Fails a task with a retryable failure.
    pub async fn fail(&self, lease: &TaskLease) -> FinishOutcome {
        self.report(lease, TaskOutcome::Failed { failure: boom() })
            .await
    }

    /// A claim of turns of [`WORKFLOW`].
    pub fn new_turn_claim(&self, max: usize) -> ClaimTurns {
        ClaimTurns {
            worker_id: WORKER.into(),
            build: "build-1".into(),
            hosted: vec![HostedType {
                workflow_type: WORKFLOW.into(),
                version: String::new(),
            }],
            max,
            lease: LEASE,
            first_shard: 0,
            now: self.now(),
        }
    }

    /// Claims up to `max` turns of [`WORKFLOW`].
    pub async fn claim_turns(&self, max: usize) -> Vec<ClaimedTurn> {
        self.store
            .claim_turns(self.new_turn_claim(max))
            .await
            .expect("claim_turns")
    }

    /// The run with the facts that wait.
    pub async fn waiting(&self, run_id: Uuid) -> ClaimedTurn {
        let turns = self.store.load_turns(&[run_id]).await;
        one(turns).expect("the run exists")
    }

    /// A signal.
    pub fn new_signal(&self, name: &str) -> NewSignal {
        NewSignal {
            signal_id: self.id(),
            signal_type: name.into(),
            payload: json("true"),
        }
    }

    /// Sends a new signal, whatever the outcome.
    pub async fn signal(&self, run_id: Uuid, name: &str) -> SendOutcome {
        let signal = self.new_signal(name);
        one(self
            .store
            .send_signals(vec![SendSignal { run_id, signal }], self.now())
            .await)
    }

    /// Handles everything that is due.
    pub async fn fire_due(&self) -> Fired {
        let due = FireDue {
            max: 1000,
            first_shard: 0,
            jitter: 0.5,
            now: self.now(),
        };
        self.store.fire_due(due).await.expect("fire_due")
    }

    /// Takes back every lease that has run out.
    pub async fn reap(&self) -> Vec<ReapedTask> {
        let reap = ReapLeases {
            max: 1000,
            first_shard: 0,
            now: self.now(),
        };
        self.store.reap_leases(reap).await.expect("reap_leases")
    }

    /// Delivers every message that waits (one pass).
    pub async fn relay(&self) -> Relayed {
        let relay = RelayMessages {
            max: 1000,
            first_shard: 0,
            now: self.now(),
        };
        self.store
            .relay_messages(relay)
            .await
            .expect("relay_messages")
    }

    /// All that belongs to a run.
    pub async fn dump(&self, run_id: Uuid) -> RunDump {
        let dump = self.store.dump().await.expect("dump");
        dump.runs
            .into_iter()
            .find(|run| run.run.id == run_id)
            .expect("the run exists")
    }
}

/// No race of the suite takes minutes: past this, somebody waits for somebody.
const DEADLOCK: Duration = Duration::from_secs(300);

/// Runs jobs side by side, let go by one barrier, and answers in their order.
pub async fn at_once<J>(jobs: Vec<J>) -> Vec<J::Output>
where
    J: Future + Send + 'static,
    J::Output: Send,
{
    let barrier = Arc::new(Barrier::new(jobs.len()));
    let running: Vec<_> = jobs
        .into_iter()
        .map(|job| {
            let barrier = barrier.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                job.await
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(running.len());
    for job in running {
        let answer = tokio::time::timeout(DEADLOCK, job).await;
        let answer = answer.expect("a deadlock: no job takes that long");
        answers.push(answer.expect("no job panics"));
    }
    answers
}

/// The failure that [`World::fail`] reports.
#[must_use]
pub fn boom() -> Failure {
    Failure::new("Boom", "it broke")
}

/// A signal that waits, as the history of a run keeps it that ends first.
pub(crate) fn as_unread(fact: WorkflowEvent) -> WorkflowEvent {
    match fact {
        WorkflowEvent::SignalReceived { signal, .. } => WorkflowEvent::SignalReceived {
            signal,
            unread: true,
        },
        other => panic!("{other:?} is no signal"),
    }
}

/// JSON text as a payload.
#[must_use]
pub fn json(text: &str) -> Payload {
    Payload::from_json_text(text.to_owned()).expect("a test's JSON is JSON")
}

/// Asks again as long as other callers of the same test hold the rows: a store answers
/// [`StoreError::Busy`] after a while, has written nothing then, and its callers ask again.
pub async fn patient<T, F>(call: impl Fn() -> F) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    loop {
        match call().await {
            Err(StoreError::Busy { .. }) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

/// The one answer to one item.
pub fn one<T>(answers: StoreResult<Vec<T>>) -> T {
    let mut answers = answers.expect("the store answers");
    assert_eq!(answers.len(), 1, "one answer for one item");
    answers.remove(0)
}

/// A trace context.
#[must_use]
pub fn trace() -> TraceContext {
    TraceContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: "b7ad6b7169203331".into(),
        trace_flags: 1,
    }
}
