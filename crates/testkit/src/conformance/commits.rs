//! A turn is all or nothing, independent of its neighbours, and can be repeated.

use std::time::Duration;

use durable_core::AttributeValue;
use everruns_durable::persistence::model::{
    ClosePolicy, Committed, FinishedTask, LogLevel, NewChild, NewOutboxEvent, NewStepLog,
    OutSignal, OwnerRequest, PlacedTask, Rejection, TaskEnd, TaskLease, TaskPlace, TurnCommit,
    TurnOutcome, UpdateAnswer, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{LEASE, WORKER, json};

claims! { "commits":
    a_rejected_turn_leaves_no_trace,
    a_conflict_of_one_turn_leaves_its_neighbours_alone,
    a_repeated_commit_answers_repeated_and_writes_nothing,
    a_repeated_commit_answers_where_its_tasks_stand_now,
    a_repeated_end_of_the_run_answers_repeated,
    a_commit_whose_answer_was_lost_can_be_read_back,
    a_commit_that_is_not_the_last_any_more_is_a_conflict,
}

fn finished(lease: &TaskLease) -> FinishedTask {
    FinishedTask {
        lease: lease.clone(),
        end: TaskEnd::Completed,
    }
}

/// A turn that writes something into every table.
async fn full_turn(w: &World, run_id: Uuid) -> TurnCommit {
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.task("new")];
    turn.timers = vec![World::timer("new", Duration::from_secs(1))];
    turn.cancelled_activities = vec!["a".into()];
    turn.cancelled_timers = vec!["t".into()];
    turn.children = vec![NewChild {
        child_id: "child".into(),
        close_policy: ClosePolicy::Cancel,
        start: w.new_start(),
    }];
    turn.signals = vec![OutSignal {
        run_id: w.id(),
        signal: w.new_signal("out"),
    }];
    turn.updates = vec![UpdateAnswer {
        update_id: "change".into(),
        result: Ok(json("4")),
    }];
    turn.attributes
        .insert("a".into(), Some(AttributeValue::Int(1)));
    turn.outbox = vec![NewOutboxEvent {
        id: w.id(),
        event_type: "out".into(),
        payload: json("5"),
        idempotency_key: None,
    }];
    turn.step_logs = vec![NewStepLog {
        id: w.id(),
        activity_id: "a".into(),
        attempt: 1,
        level: LogLevel::Info,
        message: "hello".into(),
        meta: json("{}"),
    }];
    turn.owner = Some(OwnerRequest {
        worker_id: WORKER.into(),
        lease: LEASE,
    });
    turn
}

async fn a_rejected_turn_leaves_no_trace(w: &World) {
    let run_id = w.start().await;
    let mut first = w.turn(run_id).await;
    first.tasks = vec![w.task("a"), w.task("b")];
    first.timers = vec![World::timer("t", Duration::from_secs(60))];
    w.committed(first).await;
    w.signal(run_id, "hello").await;
    w.update(run_id, w.new_update("change")).await;
    let lease = w.claim_one().await.lease;
    let lost = TaskLease {
        token: w.id(),
        ..lease.clone()
    };
    let breakers: [fn(&mut TurnCommit, &TaskLease); 9] = [
        |t, _| t.run_id = t.turn_id,
        |t, _| t.expected_epoch += 1,
        |t, _| t.expected_sequence += 1,
        |t, _| t.facts_through += 1,
        |t, lost| t.finished_tasks.push(finished(lost)),
        |t, _| t.fired_timers.push("t".into()),
        |t, lost| {
            t.cancelled_activities.clear();
            t.tasks[0].task_id = lost.task_id;
        },
        |t, _| t.tasks[0].activity_id = "b".into(),
        |t, _| {
            t.cancelled_timers.clear();
            t.timers[0].timer_id = "t".into();
        },
    ];
    w.advance(Duration::from_secs(1));
    let before = w.everything().await;
    for breaker in breakers {
        let mut turn = full_turn(w, run_id).await;
        breaker(&mut turn, &lost);
        w.rejected(turn).await;
        assert_eq!(w.everything().await, before);
    }
    w.committed(full_turn(w, run_id).await).await;
}

async fn a_conflict_of_one_turn_leaves_its_neighbours_alone(w: &World) {
    let mut turns = Vec::new();
    for _ in 0..6 {
        let run_id = w.start().await;
        let mut turn = w.turn(run_id).await;
        turn.tasks = vec![w.task("a")];
        turns.push(turn);
    }
    turns[1].expected_sequence = 7;
    turns[4].expected_epoch = 7;
    let ids: Vec<Uuid> = turns.iter().map(|turn| turn.run_id).collect();
    let outcomes = w.store.commit_turns(turns.clone(), w.now()).await;
    let outcomes = outcomes.expect("commit_turns");
    for (i, outcome) in outcomes.iter().enumerate() {
        let expected = match i {
            1 => TurnOutcome::Rejected(Rejection::Sequence { found: 0 }),
            4 => TurnOutcome::Rejected(Rejection::Epoch { found: 0 }),
            _ => TurnOutcome::Committed(Committed {
                sequence: 1,
                arrivals: 0,
                tasks: vec![PlacedTask {
                    task_id: turns[i].tasks[0].task_id,
                    place: TaskPlace::Claimable,
                }],
                has_messages: false,
                line_moved: false,
                repeated: false,
            }),
        };
        assert_eq!(*outcome, expected, "turn {i}");
        let written = w.dump(ids[i]).await;
        let rejected = matches!(outcome, TurnOutcome::Rejected(_));
        assert_eq!(written.events.is_empty(), rejected);
        assert_eq!(written.tasks.is_empty(), rejected);
    }
}

async fn a_repeated_commit_answers_repeated_and_writes_nothing(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("change")).await;
    let turn = full_turn(w, run_id).await;
    let first = w.committed(turn.clone()).await;
    assert!(first.has_messages && !first.repeated);
    let before = w.everything().await;
    w.advance(Duration::from_secs(1));
    let second = w.committed(turn).await;
    let expected = Committed {
        has_messages: false,
        line_moved: false,
        repeated: true,
        ..first
    };
    assert_eq!(second, expected);
    assert_eq!(w.everything().await, before);
}

async fn a_repeated_commit_answers_where_its_tasks_stand_now(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    let names = [
        "leased", "taken", "pending", "done", "delayed", "head", "in line",
    ];
    turn.tasks = names.iter().map(|name| w.parallel_task(name)).collect();
    turn.tasks[0].lease = true;
    turn.tasks[1].options.priority = 2;
    turn.tasks[3].options.priority = 1;
    turn.tasks[4].delay = Some(Duration::from_secs(60));
    turn.tasks[5].options.sequential = true;
    turn.tasks[6].options.sequential = true;
    let ids: Vec<Uuid> = turn.tasks.iter().map(|task| task.task_id).collect();
    let now = w.instant();
    w.committed(turn.clone()).await;
    let claimed = w.claim(2).await;
    assert_eq!(claimed[1].activity_id, "done");
    w.succeed(&claimed[1].lease).await;

    let leased = TaskPlace::Leased {
        lease: TaskLease {
            run_id,
            task_id: ids[0],
            attempt: 1,
            token: turn.turn_id,
        },
        expires_at: after(now, LEASE),
        started_at: now,
    };
    let place = |i: usize, place| PlacedTask {
        task_id: ids[i],
        place,
    };
    let again = w.committed(turn).await;
    assert_eq!(
        again.tasks,
        [
            place(0, leased),
            place(1, TaskPlace::Waiting),
            place(2, TaskPlace::Claimable),
            place(4, TaskPlace::Waiting),
            place(5, TaskPlace::Claimable),
            place(6, TaskPlace::Waiting),
        ]
    );
    assert_eq!(again.arrivals, 1, "the counter as it is now");
}

async fn a_repeated_end_of_the_run_answers_repeated(w: &World) {
    let run_id = w.start().await;
    let turn = World::completing(w.turn(run_id).await);
    w.committed(turn.clone()).await;
    let before = w.everything().await;
    assert!(w.committed(turn).await.repeated);
    assert_eq!(w.everything().await, before);
}

async fn a_commit_whose_answer_was_lost_can_be_read_back(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    assert_eq!(w.run(run_id).await.last_turn, None);
    w.committed(turn.clone()).await;
    assert_eq!(w.run(run_id).await.last_turn, Some(turn.turn_id));
    let events: Vec<_> = w.stored_events(run_id).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event, turn.events[0]);
    // A turn that lost is told apart from one that won: it is not the run's last.
    let mut lost = w.turn(run_id).await;
    lost.expected_sequence = 0;
    w.rejected(lost.clone()).await;
    assert_ne!(w.run(run_id).await.last_turn, Some(lost.turn_id));
}

async fn a_commit_that_is_not_the_last_any_more_is_a_conflict(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    w.committed(turn.clone()).await;
    w.queue(run_id, vec![]).await;
    let before = w.everything().await;
    assert_eq!(w.rejected(turn).await, Rejection::Sequence { found: 2 });
    assert_eq!(w.everything().await, before);
}
