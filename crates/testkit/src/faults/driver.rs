//! The workload: clients, turn workers, task workers and a clock, all over a store that fails.
//!
//! Each repeats an intent whose outcome is unknown, as the intent's documentation says. Nothing here knows what was
//! carried out: the verdict is read from the store behind the faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use durable_core::{Failure, Payload, Timestamp};
use everruns_durable::persistence::model::{
    ClaimTasks, ClaimTurns, CountLimit, FireDue, HostedType, NewSignal, ReapLeases, RelayMessages,
    RunFilter, SendOutcome, SendSignal, StartOutcome, StartRun, TaskOutcome, TaskResult,
    WorkflowStatus,
};
use everruns_durable::persistence::{StoreError, WorkerPort as _, WorkflowEventStore};
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use uuid::Uuid;

use super::program::{self, ACTIVITY, CHILD, PARENT, SIGNALS};
use super::store::{FaultCounts, FaultRates, FaultyStore};
use super::{step_aside, verdict};
use crate::differential::Random;

/// Runs that are started.
const RUNS: u64 = 4;
/// Rounds of the clock after which the workload counts as stuck.
const ROUNDS_MAX: usize = 20_000;

/// What a workload went through.
#[derive(Debug)]
pub struct Driven {
    /// What happened to the calls, by method.
    pub faults: BTreeMap<&'static str, FaultCounts>,
}

/// Runs the workload over a store, made unreliable by the seed's plan.
///
/// # Errors
/// When the workload gets stuck, or what it left behind is wrong: lost, doubled, or against the audit.
pub async fn drive(store: Arc<dyn WorkflowEventStore>, seed: u64) -> anyhow::Result<Driven> {
    let faulty = FaultyStore::new(store.clone(), seed, FaultRates::default());
    let world = Arc::new(Workload {
        faulty,
        behind: store.clone(),
        state: Mutex::new(State {
            random: Random::new(!seed),
            now: Timestamp::from_second(1_800_000_000)?,
            ids: 0,
            started: BTreeMap::new(),
            over: false,
        }),
    });
    let actors: Vec<futures_util::future::BoxFuture<'_, anyhow::Result<()>>> = vec![
        // Two clients with the same keys: whoever is first, there is one run.
        Box::pin(world.client()),
        Box::pin(world.client()),
        Box::pin(world.turn_worker("turns-1")),
        Box::pin(world.turn_worker("turns-2")),
        Box::pin(world.task_worker("tasks-1")),
        Box::pin(world.task_worker("tasks-2")),
        Box::pin(world.clock()),
    ];
    try_join_all(actors).await?;
    let (now, started) = {
        let state = world.state.lock();
        (state.now, state.started.clone())
    };
    verdict::judge(store.as_ref(), now, &started).await?;
    Ok(Driven {
        faults: world.faulty.faults(),
    })
}

struct Workload {
    faulty: FaultyStore,
    behind: Arc<dyn WorkflowEventStore>,
    state: Mutex<State>,
}

struct State {
    random: Random,
    now: Timestamp,
    ids: u64,
    /// Runs that the clients were told of, by key.
    started: BTreeMap<String, Uuid>,
    over: bool,
}

impl Workload {
    fn now(&self) -> Option<Timestamp> {
        Some(self.state.lock().now)
    }

    fn id(&self) -> Uuid {
        let mut state = self.state.lock();
        state.ids += 1;
        let low = state.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        Uuid::from_u128(
            (u128::from(0x0190_0000_0000_7000 + (state.ids << 16)) << 64) | u128::from(low),
        )
    }

    fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Starts every run, then signals it; both again until there is an answer.
    async fn client(&self) -> anyhow::Result<()> {
        for n in 0..RUNS {
            let key = format!("order-{n}");
            let run_id = self.start(&key).await?;
            for number in 0..SIGNALS {
                self.signal(run_id, n, number).await?;
            }
        }
        Ok(())
    }

    async fn start(&self, key: &str) -> anyhow::Result<Uuid> {
        let mut start = StartRun::new(self.id(), PARENT, Payload::null());
        start.idempotency_key = Some(key.to_owned());
        let outcome = again(|| async {
            self.faulty
                .start_runs(vec![start.clone()], self.now())
                .await
        })
        .await?
        .remove(0);
        let (StartOutcome::Started { run_id } | StartOutcome::Existing { run_id }) = outcome else {
            bail!("start under {key} was answered {outcome:?}");
        };
        let mut state = self.state.lock();
        let known = *state.started.entry(key.to_owned()).or_insert(run_id);
        ensure!(known == run_id, "{key} is run {known} and run {run_id}");
        Ok(run_id)
    }

    async fn signal(&self, run_id: Uuid, run: u64, number: usize) -> anyhow::Result<()> {
        let signal = NewSignal {
            // Both clients send the same signal: it is one.
            signal_id: Uuid::from_u128((u128::from(run) << 64) | (1 + number as u128)),
            signal_type: "poke".into(),
            payload: Payload::from_value(&number)?,
        };
        let outcome = again(|| async {
            let signal = signal.clone();
            self.faulty
                .send_signals(vec![SendSignal { run_id, signal }], self.now())
                .await
        })
        .await?
        .remove(0);
        ensure!(
            !matches!(outcome, SendOutcome::Rejected(_)),
            "signal {number} of run {run} was answered {outcome:?}"
        );
        Ok(())
    }

    async fn turn_worker(&self, worker: &str) -> anyhow::Result<()> {
        while !self.is_over() {
            let claim = ClaimTurns {
                worker_id: worker.into(),
                build: "build".into(),
                hosted: [PARENT, CHILD].map(hosted).to_vec(),
                max: 2,
                lease: Duration::from_secs(5),
                first_shard: 0,
                now: self.now(),
            };
            // A lost answer costs time: ownership runs out.
            for claimed in self.faulty.claim_turns(claim).await.unwrap_or_default() {
                self.take_turn(worker, claimed.run.id).await?;
            }
            // Ownership is a hint: a turn of a run that somebody else is turning does no harm.
            if let Some(run_id) = self.some_run() {
                self.take_turn(worker, run_id).await?;
            }
            step_aside().await;
        }
        Ok(())
    }

    /// Now and then, one of the runs that the clients know of.
    fn some_run(&self) -> Option<Uuid> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let runs: Vec<Uuid> = state.started.values().copied().collect();
        (!runs.is_empty() && state.random.percent(40)).then(|| state.random.pick(&runs))
    }

    /// Takes the turn of a run as it stands now. A refused turn is dropped: somebody else's came first.
    async fn take_turn(&self, worker: &str, run_id: Uuid) -> anyhow::Result<()> {
        let loaded = again(|| self.faulty.load_turns(std::slice::from_ref(&run_id))).await?;
        let Some(claimed) = loaded.into_iter().next().flatten() else {
            bail!("run {run_id} is known and does not exist");
        };
        if claimed.run.status.is_terminal() {
            return Ok(());
        }
        let after = claimed.run.history_start;
        let history = again(|| self.faulty.load_history(run_id, after)).await?;
        let events = history.map(|history| history.events).unwrap_or_default();
        let turn = program::turn(&claimed, &events, self.id(), worker, || self.id());
        again(|| self.faulty.commit_turns(vec![turn.clone()], self.now())).await?;
        Ok(())
    }

    async fn task_worker(&self, worker: &str) -> anyhow::Result<()> {
        while !self.is_over() {
            let claim = ClaimTasks {
                worker_id: worker.into(),
                activity_types: vec![ACTIVITY.into()],
                max: 2,
                lease: Duration::from_secs(5),
                token: self.id(),
                first_shard: 0,
                now: self.now(),
            };
            for task in self.faulty.claim_tasks(claim).await.unwrap_or_default() {
                let result = TaskResult {
                    outcome: self.outcome(&task.activity_id),
                    lease: task.lease,
                    jitter: 0.5,
                    step_logs: Vec::new(),
                };
                // Once in a while the worker dies with its task.
                if self.state.lock().random.percent(90) {
                    again(|| self.faulty.finish_tasks(vec![result.clone()], self.now())).await?;
                }
            }
            step_aside().await;
        }
        Ok(())
    }

    fn outcome(&self, activity_id: &str) -> TaskOutcome {
        let fails = activity_id == "doomed" || self.state.lock().random.percent(30);
        if fails {
            TaskOutcome::Failed {
                failure: Failure::new("Boom", "it broke"),
            }
        } else {
            TaskOutcome::Completed {
                result: Payload::null(),
            }
        }
    }

    /// Lets time pass, handles what is due, and ends the workload when all runs have ended.
    async fn clock(&self) -> anyhow::Result<()> {
        for _ in 0..ROUNDS_MAX {
            {
                let mut state = self.state.lock();
                let by = Duration::from_millis(1 + state.random.below(300));
                state.now = state.now.checked_add(by)?;
            }
            // What fails here is done by the next round.
            let due = FireDue {
                max: 10,
                first_shard: 0,
                jitter: 0.5,
                now: self.now(),
            };
            drop(self.faulty.fire_due(due).await);
            let reap = ReapLeases {
                max: 10,
                first_shard: 0,
                now: self.now(),
            };
            drop(self.faulty.reap_leases(reap).await);
            let relay = RelayMessages {
                max: 10,
                first_shard: 0,
                now: self.now(),
            };
            drop(self.faulty.relay_messages(relay).await);
            if self.all_have_ended().await? {
                self.state.lock().over = true;
                return Ok(());
            }
            step_aside().await;
        }
        self.state.lock().over = true;
        bail!("the workload is stuck: not all runs have ended");
    }

    async fn all_have_ended(&self) -> anyhow::Result<bool> {
        let filter = RunFilter {
            statuses: vec![WorkflowStatus::Completed],
            ..RunFilter::default()
        };
        let completed = self
            .behind
            .count_runs(filter, CountLimit::Exact)
            .await?
            .count;
        let messages = self.behind.counts().await?.messages;
        Ok(completed >= 2 * RUNS && messages == 0)
    }
}

fn hosted(workflow_type: &str) -> HostedType {
    HostedType {
        workflow_type: workflow_type.into(),
        version: String::new(),
    }
}

/// Repeats a call until its outcome is known.
async fn again<T, F>(mut call: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match call().await {
            Err(error) if error.is_outcome_unknown() => step_aside().await,
            other => return other,
        }
    }
}
