//! One run from start to end on the memory store, to see that the parts fit.

use std::time::Duration;

use durable_core::{ActivityOptions, Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::model::{
    FinishOutcome, FinishedTask, LeaseRequest, NewTask, Next, StartOutcome, StartRun, TaskEnd,
    TaskLease, TaskOutcome, TaskPlace, TaskResult, TaskStatus, TurnCommit, TurnOutcome,
    WorkflowStatus,
};
use everruns_durable::persistence::{MemoryStore, WorkerPort, WorkflowEventStore};
use uuid::Uuid;

const RUN: Uuid = Uuid::from_u128(1);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn sequential_task(task_id: u128, activity_id: &str) -> (NewTask, WorkflowEvent) {
    let options = ActivityOptions::default();
    let event = WorkflowEvent::ActivityScheduled {
        activity_id: activity_id.into(),
        activity_type: "charge".into(),
        input: Payload::null(),
        options: Box::new(options.clone()),
    };
    let task = NewTask {
        task_id: Uuid::from_u128(task_id),
        activity_id: activity_id.into(),
        activity_type: "charge".into(),
        input: Payload::null(),
        options,
        delay: None,
        lease: true,
        trace: None,
    };
    (task, event)
}

/// A turn on the run as it is now that takes every fact.
async fn next_turn(store: &MemoryStore, turn_id: u128) -> TurnCommit {
    let run = store.get_run(RUN).await.unwrap().unwrap();
    let mut turn = TurnCommit::new(&run, Uuid::from_u128(turn_id));
    turn.facts_through = run.arrivals;
    turn.lease = Some(LeaseRequest {
        worker_id: "w".into(),
        lease: Duration::from_secs(15),
    });
    turn
}

async fn commit(store: &MemoryStore, turn: TurnCommit, second: i64) -> Vec<TaskPlace> {
    let outcomes = store
        .commit_turns(vec![turn], Some(at(second)))
        .await
        .unwrap();
    match outcomes.into_iter().next() {
        Some(TurnOutcome::Committed(done)) => done.tasks.into_iter().map(|t| t.place).collect(),
        other => panic!("not committed: {other:?}"),
    }
}

fn leased(place: &TaskPlace) -> TaskLease {
    match place {
        TaskPlace::Leased { lease, .. } => lease.clone(),
        other => panic!("not leased: {other:?}"),
    }
}

#[tokio::test]
async fn a_run_with_two_tasks_in_line_completes_and_leaves_only_its_history() {
    let store = MemoryStore::new();
    let start = StartRun::new(RUN, "order", Payload::null());
    let started = store.start_runs(vec![start], Some(at(0))).await.unwrap();
    assert_eq!(started, [StartOutcome::Started { run_id: RUN }]);

    let mut turn = next_turn(&store, 101).await;
    let (first, first_event) = sequential_task(11, "a");
    let (second, second_event) = sequential_task(12, "b");
    turn.events = vec![first_event, second_event];
    turn.tasks = vec![first, second];
    let places = commit(&store, turn, 1).await;
    assert_eq!(places[1], TaskPlace::Waiting);
    let lease = leased(&places[0]);

    // The first result comes with its turn and hands the line over to the second task.
    let mut turn = next_turn(&store, 102).await;
    turn.finished_tasks = vec![FinishedTask {
        lease,
        end: TaskEnd::Completed,
    }];
    turn.events = vec![WorkflowEvent::ActivityCompleted {
        activity_id: "a".into(),
        result: Payload::null(),
    }];
    commit(&store, turn, 2).await;
    let tasks = store.dump().await.unwrap().runs.remove(0).tasks;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].status, TaskStatus::Pending);
    assert_eq!(tasks[0].visible_at, at(2));

    // The second is claimed by another worker and its result waits as a fact.
    let claim = everruns_durable::persistence::model::ClaimTasks {
        worker_id: "other".into(),
        activity_types: vec!["charge".into()],
        max: 10,
        lease: Duration::from_secs(15),
        token: Uuid::from_u128(201),
        first_shard: 0,
        now: Some(at(3)),
    };
    let claimed = store.claim_tasks(claim).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let result = TaskResult {
        lease: claimed[0].lease.clone(),
        outcome: TaskOutcome::Completed {
            result: Payload::null(),
        },
        jitter: 0.5,
        step_logs: Vec::new(),
    };
    let finished = store.finish_tasks(vec![result.clone()], Some(at(4))).await;
    assert_eq!(
        finished.unwrap(),
        [FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }]
    );
    let again = store.finish_tasks(vec![result], Some(at(4))).await;
    assert_eq!(again.unwrap(), [FinishOutcome::LeaseLost]);

    let mut turn = next_turn(&store, 103).await;
    turn.events = vec![
        WorkflowEvent::ActivityCompleted {
            activity_id: "b".into(),
            result: Payload::null(),
        },
        WorkflowEvent::WorkflowCompleted {
            result: Payload::null(),
        },
    ];
    turn.next = Next::Complete {
        result: Payload::null(),
    };
    commit(&store, turn, 5).await;

    let dump = store.dump().await.unwrap();
    let run = &dump.runs[0];
    assert_eq!(run.run.status, WorkflowStatus::Completed);
    assert_eq!(run.run.completed_at, Some(at(5)));
    assert_eq!((run.run.sequence, run.events.len()), (5, 5));
    assert_eq!((run.run.arrivals, run.run.consumed), (1, 1));
    assert!(run.tasks.is_empty() && run.facts.is_empty() && run.messages.is_empty());
    let totals: Vec<_> = dump.rollups.iter().map(|t| (&*t.name, t.count)).collect();
    assert_eq!(totals, [("charge", 2), ("order", 1)]);
}
