//! `durable dev`: today, an exercise of the embedded store.
//!
//! There is no engine yet. What a run's program and a worker will do is done here by hand, through
//! the same contract that the engine will use, and every step is printed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use everruns_durable::core::{ActivityOptions, Payload, WorkflowEvent};
use everruns_durable::persistence::model::{
    ClaimTasks, ClaimedTurn, HostedType, NewSignal, NewTask, NewTimer, Next, RunFilter, SendSignal,
    StartRun, TaskOutcome, TaskResult, TurnCommit, TurnOutcome,
};
use everruns_durable::persistence::model::{ClaimTurns, FireDue};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};
use uuid::Uuid;

const WORKFLOW: &str = "greeting";
const ACTIVITY: &str = "greet";
const WORKER: &str = "durable-dev";
const LEASE: Duration = Duration::from_secs(15);

/// How to run it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The store: `sqlite:PATH`, `memory:` or `postgres://…`.
    #[arg(long, default_value = "sqlite:durable.db")]
    db: String,
}

/// Runs the exercise.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let store = open(&options.db, OpenOptions::default()).await?;
    println!("opened {}", options.db);
    println!(
        "There is no engine yet: this takes one run through the store by hand, the way the engine will.\n"
    );
    let exercise = Exercise { store };
    let run_id = exercise.start().await?;
    exercise.first_turn(run_id).await?;
    exercise.work(run_id).await?;
    exercise.signal(run_id).await?;
    exercise.wait_for_timer(run_id).await?;
    exercise.last_turn(run_id).await?;
    exercise.tell(run_id).await
}

struct Exercise {
    store: Arc<dyn WorkflowEventStore>,
}

impl Exercise {
    async fn start(&self) -> anyhow::Result<Uuid> {
        let run_id = Uuid::now_v7();
        let input = Payload::from_value("World")?;
        self.store
            .start_runs(vec![StartRun::new(run_id, WORKFLOW, input)], None)
            .await?;
        println!("1. started run {run_id} of workflow `{WORKFLOW}` with input \"World\"");
        Ok(run_id)
    }

    /// The first turn: the program asks for an activity and a timer.
    async fn first_turn(&self, run_id: Uuid) -> anyhow::Result<()> {
        let claimed = self.claim_turn(run_id).await?;
        let mut turn = turn_on(&claimed);
        let input = claimed.run.input.clone();
        let options = ActivityOptions::default();
        turn.events = vec![
            WorkflowEvent::WorkflowStarted {
                input: input.clone(),
            },
            WorkflowEvent::ActivityScheduled {
                activity_id: "greet-1".into(),
                activity_type: ACTIVITY.into(),
                input: input.clone(),
                options: options.clone(),
            },
            WorkflowEvent::TimerStarted {
                timer_id: "pause".into(),
                duration_ms: 200,
            },
        ];
        turn.tasks.push(NewTask {
            task_id: Uuid::now_v7(),
            activity_id: "greet-1".into(),
            activity_type: ACTIVITY.into(),
            input,
            options,
            delay: None,
            lease: false,
            trace: None,
        });
        turn.timers.push(NewTimer {
            timer_id: "pause".into(),
            after: Duration::from_millis(200),
        });
        self.commit(turn).await?;
        println!(
            "2. first turn: queued activity `{ACTIVITY}` and set a timer of 200 ms, in one commit"
        );
        Ok(())
    }

    /// A worker claims the task and reports its result.
    async fn work(&self, run_id: Uuid) -> anyhow::Result<()> {
        let claim = ClaimTasks {
            worker_id: WORKER.into(),
            activity_types: vec![ACTIVITY.into()],
            max: 1,
            lease: LEASE,
            token: Uuid::now_v7(),
            first_shard: 0,
            now: None,
        };
        let claimed = self.store.claim_tasks(claim).await?;
        let task = claimed.into_iter().find(|task| task.lease.run_id == run_id);
        let task = task.context("the task that was just queued could not be claimed")?;
        let name: String = task.input.to_value()?;
        let outcome = TaskOutcome::Completed {
            result: Payload::from_value(&format!("Hello, {name}!"))?,
        };
        let lease = task.lease.clone();
        let result = TaskResult {
            lease: lease.clone(),
            outcome: outcome.clone(),
            jitter: 0.5,
            step_logs: vec![],
        };
        self.store.finish_tasks(vec![result], None).await?;
        println!(
            "3. a worker claimed the task (attempt {}), ran it and stored its result",
            lease.attempt
        );
        let late = TaskResult {
            lease,
            outcome,
            jitter: 0.5,
            step_logs: vec![],
        };
        let answer = self.store.finish_tasks(vec![late], None).await?;
        println!(
            "   the same result sent again is refused: {:?}",
            answer.first()
        );
        Ok(())
    }

    async fn signal(&self, run_id: Uuid) -> anyhow::Result<()> {
        let signal = NewSignal {
            signal_id: Uuid::now_v7(),
            signal_type: "cheer".into(),
            payload: Payload::from_value("hooray")?,
        };
        let send = SendSignal { run_id, signal };
        let once = self.store.send_signals(vec![send.clone()], None).await?;
        let twice = self.store.send_signals(vec![send], None).await?;
        println!(
            "4. sent a signal twice under one id: {:?}, then {:?}",
            once.first(),
            twice.first()
        );
        Ok(())
    }

    async fn wait_for_timer(&self, run_id: Uuid) -> anyhow::Result<()> {
        loop {
            let due = FireDue {
                max: 100,
                first_shard: 0,
                jitter: 0.5,
                now: None,
            };
            let fired = self.store.fire_due(due).await?;
            if fired.ready_runs.contains(&run_id) {
                println!("5. the timer fired; it too waits in the run's inbox");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The last turn takes every fact that waits and completes the run.
    async fn last_turn(&self, run_id: Uuid) -> anyhow::Result<()> {
        let claimed = self.claim_turn(run_id).await?;
        let mut turn = turn_on(&claimed);
        let mut greeting = Payload::null();
        for fact in &claimed.facts {
            if let WorkflowEvent::ActivityCompleted { result, .. } = &fact.event {
                greeting = result.clone();
            }
            turn.events.push(fact.event.clone());
        }
        turn.events.push(WorkflowEvent::WorkflowCompleted {
            result: greeting.clone(),
        });
        turn.next = Next::Complete { result: greeting };
        self.commit(turn).await?;
        println!(
            "6. last turn: took {} facts and completed the run, in one commit",
            claimed.facts.len()
        );
        Ok(())
    }

    async fn tell(&self, run_id: Uuid) -> anyhow::Result<()> {
        let history = self
            .store
            .load_history(run_id, 0)
            .await?
            .context("the run is gone")?;
        println!("\nits history:");
        for event in &history.events {
            println!("  {:>2}  {}", event.sequence_num, event.event.event_type());
        }
        let result: String = history.run.result.to_value()?;
        let filter = RunFilter {
            workflow_type: Some(WORKFLOW.into()),
            ..RunFilter::default()
        };
        let runs = self.store.count_runs(filter).await?;
        println!(
            "\nresult: {result}   status: {}   runs of this workflow so far: {runs}",
            history.run.status
        );
        Ok(())
    }

    async fn claim_turn(&self, run_id: Uuid) -> anyhow::Result<ClaimedTurn> {
        let claim = ClaimTurns {
            worker_id: WORKER.into(),
            build: env!("CARGO_PKG_VERSION").into(),
            hosted: vec![HostedType {
                workflow_type: WORKFLOW.into(),
                version: String::new(),
            }],
            max: 100,
            lease: LEASE,
            first_shard: 0,
            now: None,
        };
        let claimed = self.store.claim_turns(claim).await?;
        let own = claimed.into_iter().find(|turn| turn.run.id == run_id);
        own.context("the run has no turn due, although it should")
    }

    async fn commit(&self, turn: TurnCommit) -> anyhow::Result<()> {
        match self.store.commit_turns(vec![turn], None).await?.pop() {
            Some(TurnOutcome::Committed(_)) => Ok(()),
            other => bail!("the turn was not committed: {other:?}"),
        }
    }
}

fn turn_on(claimed: &ClaimedTurn) -> TurnCommit {
    let mut turn = TurnCommit::new(&claimed.run, Uuid::now_v7());
    turn.facts_through = claimed.run.arrivals;
    turn
}
