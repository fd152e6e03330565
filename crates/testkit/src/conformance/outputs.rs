//! What an accepted turn writes beside tasks, timers and events: messages, answers, attributes, the run itself.

use std::time::Duration;

use durable_core::{AttributeValue, Failure, Payload};
use everruns_durable::persistence::model::{
    BlockRun, ClosePolicy, LogLevel, Message, MessageRecord, NewChild, NewOutboxEvent, NewStepLog,
    Next, OutSignal, OutboxRecord, OutboxState, Owner, OwnerRequest, RollupKind, RollupOutcome,
    RunRecord, StepLogRecord, StoredStart, UpdateAnswer, UpdateState, WorkflowStatus, after,
};

use crate::World;
use crate::world::{LEASE, WORKER, WORKFLOW, boom, json, one};

claims! { "outputs":
    messages_are_written_in_order,
    the_end_of_a_child_is_told_to_its_parent_and_its_children,
    a_turn_without_messages_says_so,
    updates_are_answered_once,
    the_end_of_a_run_fails_its_open_updates,
    attributes_are_set_replaced_and_removed,
    outbox_events_and_log_lines_are_written_once,
    a_first_turn_makes_the_run_running,
    a_turn_clears_what_blocked_the_run,
    a_turn_sets_and_clears_the_owner,
    each_end_is_stored_with_its_result_or_error,
    an_ended_run_is_counted_with_its_duration,
}

/// A child to start.
fn child(w: &World, child_id: &str) -> NewChild {
    let mut start = w.new_start();
    start.input = json("[ 1 ]");
    start.run_timeout = Some(Duration::from_secs(9));
    NewChild {
        child_id: child_id.into(),
        close_policy: ClosePolicy::Abandon,
        start,
    }
}

async fn messages_are_written_in_order(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    let mut turn = w.turn(run_id).await;
    turn.children = vec![child(w, "one"), child(w, "two")];
    turn.signals = vec![OutSignal {
        run_id: w.id(),
        signal: w.new_signal("out"),
    }];
    let (children, signals) = (turn.children.clone(), turn.signals.clone());
    assert!(w.committed(turn).await.has_messages);
    let start_child = |child: &NewChild| Message::StartChild {
        start: StoredStart {
            run_id: child.start.run_id,
            workflow_type: WORKFLOW.into(),
            version: String::new(),
            input: json("[ 1 ]"),
            business_id: None,
            reuse_policy: child.start.reuse_policy,
            attributes: child.start.attributes.clone(),
            memo: Payload::ABSENT,
            execution_timeout_ms: None,
            run_timeout_ms: Some(9000),
            trace: None,
            sealed_fingerprint: child.start.sealed_fingerprint,
        },
        close_policy: ClosePolicy::Abandon,
        child_id: child.child_id.clone(),
        epoch: 0,
        iteration: 0,
    };
    let messages = [
        start_child(&children[0]),
        start_child(&children[1]),
        Message::Signal {
            run_id: signals[0].run_id,
            signal: signals[0].signal.clone(),
        },
    ];
    let expected: Vec<_> = (0..)
        .zip(messages)
        .map(|(idx, message)| MessageRecord {
            sender: run_id,
            sequence_num: 2,
            idx,
            message,
        })
        .collect();
    let dump = w.dump(run_id).await;
    assert_eq!(dump.messages, expected);
    assert!(dump.run.has_children);
}

async fn the_end_of_a_child_is_told_to_its_parent_and_its_children(w: &World) {
    let parent = w.start().await;
    let mut turn = w.turn(parent).await;
    turn.children = vec![child(w, "the child")];
    let child_run = turn.children[0].start.run_id;
    w.committed(turn).await;
    w.relay().await;

    let mut turn = World::completing(w.turn(child_run).await);
    turn.signals = vec![OutSignal {
        run_id: parent,
        signal: w.new_signal("bye"),
    }];
    turn.children = vec![child(w, "grandchild")];
    assert!(w.committed(turn).await.has_messages);
    let messages: Vec<_> = w.dump(child_run).await.messages;
    let kinds: Vec<_> = messages
        .iter()
        .map(|m| match &m.message {
            Message::StartChild { .. } => "start",
            Message::Signal { .. } => "signal",
            Message::ChildFinished { .. } => "finished",
            Message::CloseChildren => "close",
        })
        .collect();
    assert_eq!(kinds, ["start", "signal", "finished", "close"]);
    assert_eq!(
        messages[2].message,
        Message::ChildFinished {
            parent,
            child_id: "the child".into(),
            epoch: 0,
            iteration: 0,
            status: WorkflowStatus::Completed,
            result: json("\"done\""),
            error: None,
        }
    );
}

async fn a_turn_without_messages_says_so(w: &World) {
    let run_id = w.start().await;
    let turn = World::completing(w.turn(run_id).await);
    assert!(!w.committed(turn).await.has_messages);
    assert_eq!(w.dump(run_id).await.messages, []);
}

async fn updates_are_answered_once(w: &World) {
    let run_id = w.start().await;
    for update_id in ["good", "bad", "open"] {
        w.update(run_id, w.new_update(update_id)).await;
    }
    w.advance(Duration::from_secs(1));
    let answer = |id: &str, result| UpdateAnswer {
        update_id: id.into(),
        result,
    };
    let mut turn = w.turn(run_id).await;
    turn.updates = vec![
        answer("good", Ok(json("4"))),
        answer("unknown", Ok(json("4"))),
        answer("bad", Err(boom())),
    ];
    w.committed(turn).await;
    let answered_at = w.now();
    w.advance(Duration::from_secs(1));
    let mut turn = w.turn(run_id).await;
    turn.updates = vec![answer("good", Err(boom()))];
    w.committed(turn).await;

    let updates = w.dump(run_id).await.updates;
    let found: Vec<_> = updates
        .iter()
        .map(|u| (u.update_id.as_str(), u.state.clone(), u.completed_at))
        .collect();
    assert_eq!(
        found,
        [
            ("good", UpdateState::Completed(json("4")), answered_at),
            ("bad", UpdateState::Failed(boom()), answered_at),
            ("open", UpdateState::Pending, None),
        ]
    );
}

async fn the_end_of_a_run_fails_its_open_updates(w: &World) {
    let run_id = w.start().await;
    for update_id in ["answered", "open"] {
        w.update(run_id, w.new_update(update_id)).await;
    }
    let mut turn = World::completing(w.turn(run_id).await);
    turn.updates = vec![UpdateAnswer {
        update_id: "answered".into(),
        result: Ok(json("4")),
    }];
    w.committed(turn).await;
    let updates = w.dump(run_id).await.updates;
    assert_eq!(updates[0].state, UpdateState::Completed(json("4")));
    let failure = Failure::new("UpdateFailed", "the run ended first").non_retryable();
    assert_eq!(updates[1].state, UpdateState::Failed(failure));
    assert_eq!(updates[1].completed_at, w.now());
}

async fn attributes_are_set_replaced_and_removed(w: &World) {
    let mut start = w.new_start();
    for name in ["kept", "replaced", "removed"] {
        start.attributes.insert(name.into(), AttributeValue::Int(1));
    }
    let run_id = w.start_one(start).await;
    let mut turn = w.turn(run_id).await;
    let changes = [
        ("replaced", Some(AttributeValue::Text("1".into()))),
        ("removed", None),
        ("never there", None),
        ("new", Some(AttributeValue::Double(0.5))),
    ];
    turn.attributes = changes.map(|(name, v)| (name.to_owned(), v)).into();
    w.committed(turn).await;
    let expected = [
        ("kept", AttributeValue::Int(1)),
        ("new", AttributeValue::Double(0.5)),
        ("replaced", AttributeValue::Text("1".into())),
    ];
    let found = w.store.get_attributes(run_id).await.expect("attributes");
    assert_eq!(found, expected.map(|(n, v)| (n.to_owned(), v)).into());
}

async fn outbox_events_and_log_lines_are_written_once(w: &World) {
    let run_id = w.start().await;
    let event = NewOutboxEvent {
        id: w.id(),
        event_type: "out".into(),
        payload: json("[ 1 ]"),
        idempotency_key: Some("once".into()),
    };
    let line = NewStepLog {
        id: w.id(),
        activity_id: "a".into(),
        attempt: 2,
        level: LogLevel::Warn,
        message: "odd".into(),
        meta: json("{ }"),
    };
    let written = w.instant();
    for payload in ["[ 1 ]", "other"] {
        let mut turn = w.turn(run_id).await;
        turn.outbox = vec![NewOutboxEvent {
            event_type: payload.into(),
            ..event.clone()
        }];
        turn.step_logs = vec![NewStepLog {
            message: payload.into(),
            ..line.clone()
        }];
        w.committed(turn).await;
        w.advance(Duration::from_secs(1));
    }
    let dump = w.dump(run_id).await;
    let stored = OutboxRecord {
        id: event.id,
        run_id,
        event_type: "[ 1 ]".into(),
        payload: event.payload,
        idempotency_key: event.idempotency_key,
        state: OutboxState::Pending,
        attempts: 0,
        available_at: written,
        token: None,
        last_error: None,
        created_at: written,
        published_at: None,
    };
    assert_eq!(dump.outbox, [stored]);
    let stored = StepLogRecord {
        id: line.id,
        run_id,
        activity_id: "a".into(),
        attempt: 2,
        level: LogLevel::Warn,
        message: "[ 1 ]".into(),
        meta: json("{ }"),
        created_at: written,
    };
    assert_eq!(dump.step_logs, [stored]);
}

async fn a_first_turn_makes_the_run_running(w: &World) {
    let run_id = w.start().await;
    let before = w.run(run_id).await;
    w.advance(Duration::from_secs(1));
    let turn = w.turn(run_id).await;
    let turn_id = turn.turn_id;
    w.committed(turn).await;
    let first = RunRecord {
        status: WorkflowStatus::Running,
        sequence: 1,
        last_turn: Some(turn_id),
        started_at: w.now(),
        updated_at: w.instant(),
        ready_at: None,
        ..before
    };
    assert_eq!(w.run(run_id).await, first);

    w.advance(Duration::from_secs(1));
    let turn = w.turn(run_id).await;
    let second = RunRecord {
        sequence: 2,
        last_turn: Some(turn.turn_id),
        updated_at: w.instant(),
        ..first
    };
    w.committed(turn).await;
    assert_eq!(w.run(run_id).await, second);
}

async fn a_turn_clears_what_blocked_the_run(w: &World) {
    let run_id = w.start().await;
    let block = BlockRun {
        run_id,
        expected_sequence: 0,
        build: "build-1".into(),
        reason: "diverged".into(),
    };
    assert!(one(w.store.block_runs(vec![block], w.now()).await));
    assert!(w.run(run_id).await.blocked.is_some());
    w.queue(run_id, vec![]).await;
    assert_eq!(w.run(run_id).await.blocked, None);
}

async fn a_turn_sets_and_clears_the_owner(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.owner = Some(OwnerRequest {
        worker_id: "worker-7".into(),
        lease: LEASE,
    });
    w.committed(turn).await;
    let owner = Owner {
        worker_id: "worker-7".into(),
        expires_at: after(w.instant(), LEASE),
    };
    assert_eq!(w.run(run_id).await.owner, Some(owner));
    w.queue(run_id, vec![]).await;
    assert_eq!(w.run(run_id).await.owner, None);
}

async fn each_end_is_stored_with_its_result_or_error(w: &World) {
    let ends = [
        (
            Next::Complete {
                result: json("[ 1 ]"),
            },
            WorkflowStatus::Completed,
        ),
        (Next::Fail { error: boom() }, WorkflowStatus::Failed),
        (
            Next::Cancel {
                reason: "asked to".into(),
            },
            WorkflowStatus::Cancelled,
        ),
    ];
    for (next, status) in ends {
        let run_id = w.start_with_tasks(vec![]).await;
        w.advance(Duration::from_secs(1));
        let before = w.run(run_id).await;
        let mut turn = World::ending(w.turn(run_id).await, next.clone());
        turn.owner = Some(OwnerRequest {
            worker_id: WORKER.into(),
            lease: LEASE,
        });
        let turn_id = turn.turn_id;
        w.committed(turn).await;
        let expected = RunRecord {
            status,
            sequence: 3,
            last_turn: Some(turn_id),
            result: match &next {
                Next::Complete { result } => result.clone(),
                _ => Payload::ABSENT,
            },
            error: match &next {
                Next::Fail { error } => Some(error.clone()),
                _ => None,
            },
            updated_at: w.instant(),
            completed_at: w.now(),
            owner: None,
            ready_at: None,
            ..before
        };
        assert_eq!(w.run(run_id).await, expected);
    }
}

async fn an_ended_run_is_counted_with_its_duration(w: &World) {
    let run_id = w.start().await;
    w.advance(Duration::from_millis(1500));
    w.complete(run_id).await;
    let total = w.totals().await.remove(0);
    assert_eq!(total.kind, RollupKind::Workflow);
    assert_eq!(total.name, WORKFLOW);
    assert_eq!(total.outcome, RollupOutcome::Completed);
    assert_eq!(
        (total.duration_exp, total.count, total.total_ms),
        (11, 1, 1500)
    );
    assert_eq!(total.hour.as_second() % 3600, 0);
    assert!((0..3600).contains(&(w.instant().as_second() - total.hour.as_second())));
}
