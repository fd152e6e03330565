//! What runs tell each other: children, their ends, signals.

use std::time::Duration;

use durable_core::{
    AttributeValue, Failure, TraceContext, WorkflowError, WorkflowEvent, WorkflowSignal,
    error_types,
};
use everruns_durable::persistence::model::{
    ClosePolicy, FireDue, Message, NewChild, Next, OutSignal, ParentLink, PurgeRuns, RelayMessages,
    Relayed, ReusePolicy, RunRecord, SendOutcome, StartRejection, WorkflowStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{at_once, json};

claims! { "messages":
    a_child_begins_when_its_message_is_relayed_and_knows_its_parent,
    a_child_is_started_as_it_was_asked_for,
    a_turn_says_whether_it_left_messages,
    a_relayed_message_is_gone,
    a_child_relayed_by_eight_callers_at_once_is_started_once,
    a_child_whose_id_is_taken_is_dropped,
    a_child_whose_id_was_deleted_is_dropped,
    a_childs_result_reaches_its_parent_once,
    a_childs_failure_reaches_its_parent,
    a_cancelled_child_is_a_failed_one_to_its_parent,
    a_terminated_child_tells_its_parent,
    a_child_that_timed_out_tells_its_parent,
    a_childs_end_does_not_reach_another_iteration_of_the_parent,
    a_childs_end_reaches_a_parent_that_was_reset,
    a_childs_end_to_an_ended_parent_is_dropped,
    a_child_that_cannot_be_started_is_told_to_its_parent,
    a_child_that_cannot_be_started_is_dropped_when_the_parent_has_ended,
    a_childs_end_that_arrives_while_a_completing_turn_is_prepared_is_not_lost,
    a_signal_to_another_run_arrives_once,
    a_signal_whose_receiver_has_it_already_is_dropped,
    a_signal_to_a_run_that_is_over_or_gone_is_dropped,
    a_child_started_and_signalled_in_one_turn_gets_the_signal,
    messages_are_relayed_in_bounded_batches_in_their_order,
    messages_reach_runs_in_every_shard,
    a_refused_turn_leaves_no_message,
}

fn end(outcome: Result<&str, Failure>, child: Uuid) -> WorkflowEvent {
    match outcome {
        Ok(result) => WorkflowEvent::ChildWorkflowCompleted {
            workflow_id: child,
            child_id: "child".into(),
            result: json(result),
        },
        Err(failure) => WorkflowEvent::ChildWorkflowFailed {
            workflow_id: child,
            child_id: "child".into(),
            error: WorkflowError::from(failure),
        },
    }
}

async fn exists(w: &World, run_id: Uuid) -> bool {
    w.store.get_run(run_id).await.expect("get_run").is_some()
}

async fn relay_max(w: &World, max: usize) -> Relayed {
    let relay = RelayMessages {
        max,
        first_shard: 0,
        now: w.now(),
    };
    w.store.relay_messages(relay).await.expect("relay")
}

pub(super) async fn messages(w: &World) -> u64 {
    w.store.counts().await.expect("counts").messages
}

async fn a_child_begins_when_its_message_is_relayed_and_knows_its_parent(w: &World) {
    let parent = w.start().await;
    let child = w
        .ask_for_child(parent, w.new_child("child", ClosePolicy::Terminate))
        .await;
    assert!(!exists(w, child).await);
    assert!(w.run(parent).await.has_children);
    w.advance(Duration::from_secs(1));
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (1, 0));
    assert_eq!(relayed.ready_runs, [child]);
    let run = w.run(child).await;
    assert_eq!((run.status, run.sequence), (WorkflowStatus::Pending, 0));
    assert_eq!((Some(run.created_at), run.ready_at), (w.now(), w.now()));
    let link = ParentLink {
        run_id: parent,
        child_id: "child".into(),
        epoch: 0,
        iteration: 0,
        close_policy: ClosePolicy::Terminate,
    };
    assert_eq!(run.parent, Some(link));
}

async fn a_child_is_started_as_it_was_asked_for(w: &World) {
    let parent = w.start().await;
    let mut child = w.new_child("child", ClosePolicy::Cancel);
    let start = &mut child.start;
    start.workflow_type = "other".into();
    start.version = "v2".into();
    start.input = json("[9007199254740993, \"\\u0000\"]");
    start.memo = json("{\"a\":1,\"a\":2}");
    start.business_id = Some("order-1".into());
    let tag = AttributeValue::Int(7);
    start.attributes.insert("tag".into(), tag);
    start.execution_timeout = Some(Duration::from_millis(90_500));
    start.run_timeout = Some(Duration::from_secs(60));
    start.trace = Some(TraceContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: "b7ad6b7169203331".into(),
        trace_flags: 1,
    });
    let asked = child.start.clone();
    w.ask_for_child(parent, child).await;
    w.relay().await;
    let all = w.dump(asked.run_id).await;
    let expected = RunRecord {
        workflow_type: asked.workflow_type.clone(),
        version: asked.version.clone(),
        business_id: asked.business_id.clone(),
        idempotency_key: None,
        fingerprint: asked.fingerprint(),
        input: asked.input,
        memo: asked.memo,
        trace: asked.trace,
        execution_deadline: Some(after(w.instant(), Duration::from_millis(90_500))),
        run_deadline: Some(after(w.instant(), Duration::from_secs(60))),
        run_timeout: Some(Duration::from_secs(60)),
        ..all.run.clone()
    };
    assert_eq!(all.run, expected);
    assert_eq!(all.attributes, asked.attributes);
}

async fn a_turn_says_whether_it_left_messages(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    assert!(!w.committed(turn).await.has_messages);
    let mut turn = w.turn(run_id).await;
    turn.signals.push(OutSignal {
        run_id: w.id(),
        signal: w.new_signal("a"),
    });
    assert!(w.committed(turn).await.has_messages);
    let turn = World::completing(w.turn(run_id).await);
    assert!(
        !w.committed(turn).await.has_messages,
        "without parent and children nobody is told"
    );
}

async fn a_relayed_message_is_gone(w: &World) {
    let parent = w.start().await;
    w.ask_for_child(parent, w.new_child("child", ClosePolicy::Cancel))
        .await;
    let waiting = w.dump(parent).await.messages;
    assert_eq!((waiting.len(), messages(w).await), (1, 1));
    assert_eq!((waiting[0].sequence_num, waiting[0].idx), (1, 0));
    assert!(
        matches!(&waiting[0].message, Message::StartChild { child_id, .. } if child_id == "child")
    );
    w.relay().await;
    assert_eq!(w.dump(parent).await.messages, []);
    assert_eq!(messages(w).await, 0);
    assert_eq!(w.relay().await, Relayed::default());
}

async fn a_child_relayed_by_eight_callers_at_once_is_started_once(w: &World) {
    let mut children = Vec::new();
    for _ in 0..20 {
        let parent = w.start().await;
        let child = w.new_child("child", ClosePolicy::Cancel);
        children.push(w.ask_for_child(parent, child).await);
    }
    let now = w.now();
    let relays = (0..8)
        .map(|first_shard| {
            let store = w.store.clone();
            async move {
                let relay = RelayMessages {
                    max: 100,
                    first_shard,
                    now,
                };
                let relayed = store.relay_messages(relay).await.expect("relay");
                (relayed.delivered, relayed.dropped)
            }
        })
        .collect();
    let by_callers = at_once(relays).await;
    let rest = w.relay().await;
    let delivered: usize = by_callers.iter().map(|(delivered, _)| delivered).sum();
    let dropped: usize = by_callers.iter().map(|(_, dropped)| dropped).sum();
    assert_eq!(
        (delivered + rest.delivered, dropped + rest.dropped),
        (20, 0)
    );
    for child in children {
        assert_eq!(w.run(child).await.sequence, 0);
    }
    assert_eq!(w.everything().await.runs.len(), 40);
}

async fn a_child_whose_id_is_taken_is_dropped(w: &World) {
    let parent = w.start().await;
    let mut child = w.new_child("child", ClosePolicy::Cancel);
    child.start.run_id = w.start().await;
    let taken = w.run(child.start.run_id).await;
    w.ask_for_child(parent, child).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (0, 1));
    assert_eq!(w.run(taken.id).await, taken);
    assert_eq!(w.waiting(parent).await.facts, []);
}

async fn a_child_whose_id_was_deleted_is_dropped(w: &World) {
    let deleted = w.start().await;
    w.complete(deleted).await;
    w.advance(Duration::from_secs(1));
    let purge = PurgeRuns {
        finished_before: w.instant(),
        max: 10,
        first_shard: 0,
        now: w.now(),
    };
    assert_eq!(w.store.purge_runs(purge).await.expect("purge_runs"), 1);
    let parent = w.start().await;
    let mut child = w.new_child("child", ClosePolicy::Cancel);
    child.start.run_id = deleted;
    w.ask_for_child(parent, child).await;
    assert_eq!(w.relay().await.dropped, 1);
    assert!(!exists(w, deleted).await);
}

async fn a_childs_result_reaches_its_parent_once(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    w.complete(child).await;
    assert_eq!(w.waiting(parent).await.facts, []);
    w.advance(Duration::from_secs(1));
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.ready_runs), (1, vec![parent]));
    let facts = w.waiting(parent).await.facts;
    assert_eq!(facts.len(), 1);
    assert_eq!(facts[0].event, end(Ok("\"done\""), child));
    assert_eq!(Some(facts[0].arrived_at), w.now());
    assert_eq!(w.relay().await, Relayed::default());
}

async fn a_childs_failure_reaches_its_parent(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    let error = Failure::new("Broken", "beyond repair")
        .non_retryable()
        .with_details(json("[1e400]"));
    let turn = World::failing(w.turn(child).await, error.clone());
    w.committed(turn).await;
    w.relay().await;
    assert_eq!(w.waiting_events(parent).await, [end(Err(error), child)]);
}

async fn a_cancelled_child_is_a_failed_one_to_its_parent(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    let turn = World::cancelling(w.turn(child).await);
    w.committed(turn).await;
    w.relay().await;
    let error = Failure::new(error_types::CANCELLED, "the child was cancelled").non_retryable();
    assert_eq!(w.waiting_events(parent).await, [end(Err(error), child)]);
}

async fn a_terminated_child_tells_its_parent(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    w.terminate(child, "stop").await;
    w.relay().await;
    let error = w.run(child).await.error.expect("an error");
    assert_eq!(w.waiting_events(parent).await, [end(Err(error), child)]);
}

async fn a_child_that_timed_out_tells_its_parent(w: &World) {
    let parent = w.start().await;
    let mut child = w.new_child("child", ClosePolicy::Cancel);
    child.start.run_timeout = Some(Duration::from_secs(5));
    let child = w.ask_for_child(parent, child).await;
    w.relay().await;
    w.advance(Duration::from_secs(5));
    let due = FireDue {
        max: 10,
        first_shard: 0,
        jitter: 0.5,
        now: w.now(),
    };
    let fired = w.store.fire_due(due).await.expect("fire_due");
    assert_eq!(fired.runs_timed_out.len(), 1);
    w.relay().await;
    let error = w.run(child).await.error.expect("an error");
    assert_eq!(error.error_type, error_types::RUN_TIMEOUT);
    assert_eq!(w.waiting_events(parent).await, [end(Err(error), child)]);
}

async fn a_childs_end_does_not_reach_another_iteration_of_the_parent(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    let turn = World::continuing(w.turn(parent).await, vec![]);
    w.committed(turn).await;
    w.complete(child).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (0, 1));
    assert_eq!(w.waiting(parent).await.facts, []);

    let mut later = w.new_child("child", ClosePolicy::Cancel);
    later.start.run_id = w.id();
    let later = w.ask_for_child(parent, later).await;
    w.relay().await;
    let link = w.run(later).await.parent.expect("a parent");
    assert_eq!(link.iteration, 1);
    w.complete(later).await;
    assert_eq!(w.relay().await.delivered, 1, "its own children it hears");
}

async fn a_childs_end_reaches_a_parent_that_was_reset(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    let mut turn = w.turn(parent).await;
    turn.events = vec![WorkflowEvent::WorkflowReset {
        to_sequence: 1,
        epoch: 1,
        reason: "try again".into(),
    }];
    turn.next = Next::Reset { to_sequence: 1 };
    w.committed(turn).await;
    w.complete(child).await;
    w.relay().await;
    assert_eq!(w.run(parent).await.epoch, 1);
    let waiting = w.waiting_events(parent).await;
    assert_eq!(waiting, [end(Ok("\"done\""), child)]);
}

async fn a_childs_end_to_an_ended_parent_is_dropped(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Abandon).await;
    w.complete(parent).await;
    w.settle().await;
    let before = w.dump(parent).await;
    w.complete(child).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (0, 1));
    assert_eq!(w.dump(parent).await, before);
}

/// A child whose business id another run has, which its policy does not allow.
async fn impossible_child(w: &World) -> (NewChild, StartRejection) {
    let mut start = w.new_start();
    start.business_id = Some("taken".into());
    let run_id = w.start_one(start).await;
    let mut child = w.new_child("child", ClosePolicy::Cancel);
    child.start.business_id = Some("taken".into());
    child.start.reuse_policy = ReusePolicy::RejectDuplicate;
    let refusal = StartRejection::DuplicateBusinessId {
        run_id,
        status: WorkflowStatus::Pending,
    };
    (child, refusal)
}

async fn a_child_that_cannot_be_started_is_told_to_its_parent(w: &World) {
    let parent = w.start().await;
    let (child, refusal) = impossible_child(w).await;
    let child = w.ask_for_child(parent, child).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (1, 0));
    assert_eq!(relayed.ready_runs, [parent]);
    assert!(!exists(w, child).await);
    let error =
        Failure::new(error_types::CHILD_WORKFLOW_FAILED, refusal.to_string()).non_retryable();
    assert_eq!(w.waiting_events(parent).await, [end(Err(error), child)]);
}

async fn a_child_that_cannot_be_started_is_dropped_when_the_parent_has_ended(w: &World) {
    let parent = w.start().await;
    let (child, _) = impossible_child(w).await;
    let child = w.ask_for_child(parent, child).await;
    w.terminate(parent, "stop").await;
    let relayed = w.settle().await;
    assert_eq!(
        (relayed.delivered, relayed.dropped),
        (1, 1),
        "only the closing of children is delivered"
    );
    assert!(!exists(w, child).await);
}

async fn a_childs_end_that_arrives_while_a_completing_turn_is_prepared_is_not_lost(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    let unaware = World::completing(w.turn(parent).await);
    w.complete(child).await;
    w.relay().await;
    w.rejected(unaware).await;
    assert_eq!(w.waiting(parent).await.facts.len(), 1);
}

async fn send_from(w: &World, sender: Uuid, signals: Vec<OutSignal>) {
    let mut turn = w.turn(sender).await;
    turn.signals = signals;
    w.committed(turn).await;
}

async fn a_signal_to_another_run_arrives_once(w: &World) {
    let (sender, receiver) = (w.start().await, w.start().await);
    let signal = w.new_signal("hello");
    let out = OutSignal {
        run_id: receiver,
        signal: signal.clone(),
    };
    send_from(w, sender, vec![out]).await;
    assert_eq!(w.waiting(receiver).await.facts, []);
    w.advance(Duration::from_secs(1));
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.ready_runs), (1, vec![receiver]));
    let received = WorkflowEvent::SignalReceived {
        signal: WorkflowSignal {
            signal_id: Some(signal.signal_id),
            signal_type: "hello".into(),
            payload: signal.payload.clone(),
            sent_at: w.instant(),
        },
        unread: false,
    };
    assert_eq!(w.waiting_events(receiver).await, [received]);
    let again = w.send(receiver, signal).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });
}

async fn a_signal_whose_receiver_has_it_already_is_dropped(w: &World) {
    let (sender, receiver) = (w.start().await, w.start().await);
    let signal = w.new_signal("hello");
    w.send(receiver, signal.clone()).await;
    let out = OutSignal {
        run_id: receiver,
        signal,
    };
    send_from(w, sender, vec![out.clone(), out]).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (0, 2));
    assert_eq!(w.waiting(receiver).await.facts.len(), 1);
}

async fn a_signal_to_a_run_that_is_over_or_gone_is_dropped(w: &World) {
    let (sender, over) = (w.start().await, w.start().await);
    w.complete(over).await;
    let signals = [over, w.id()].map(|run_id| OutSignal {
        run_id,
        signal: w.new_signal("hello"),
    });
    send_from(w, sender, signals.to_vec()).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (0, 2));
    assert_eq!(w.dump(over).await.signals, []);
}

async fn a_child_started_and_signalled_in_one_turn_gets_the_signal(w: &World) {
    let parent = w.start().await;
    let child = w.new_child("child", ClosePolicy::Cancel);
    let child_id = child.start.run_id;
    let mut turn = w.turn(parent).await;
    turn.signals.push(OutSignal {
        run_id: child_id,
        signal: w.new_signal("hello"),
    });
    turn.children.push(child);
    w.committed(turn).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.dropped), (2, 0));
    assert_eq!(relayed.ready_runs, [child_id], "told once");
    assert_eq!(w.waiting(child_id).await.facts.len(), 1);
}

async fn messages_are_relayed_in_bounded_batches_in_their_order(w: &World) {
    let (sender, receiver) = (w.start().await, w.start().await);
    for batch in [["a", "b", "c"], ["d", "e", "f"]] {
        let signals = batch.map(|name| OutSignal {
            run_id: receiver,
            signal: w.new_signal(name),
        });
        send_from(w, sender, signals.to_vec()).await;
    }
    for delivered in [4, 2, 0] {
        assert_eq!(relay_max(w, 4).await.delivered, delivered);
    }
    let names: Vec<String> = w
        .dump(receiver)
        .await
        .signals
        .into_iter()
        .map(|signal| signal.signal_type)
        .collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
}

async fn messages_reach_runs_in_every_shard(w: &World) {
    let mut pairs = Vec::new();
    for _ in 0..40 {
        let parent = w.start().await;
        let child = w.new_child("child", ClosePolicy::Cancel);
        pairs.push((parent, w.ask_for_child(parent, child).await));
    }
    let shards = w.store.shards();
    let crossed = pairs
        .iter()
        .any(|(parent, child)| shards.of_run(*parent) != shards.of_run(*child));
    assert!(crossed || shards.count() == 1);
    assert_eq!(w.relay().await.delivered, 40);
    for (_, child) in &pairs {
        w.complete(*child).await;
    }
    assert_eq!(w.relay().await.delivered, 40);
    for (parent, child) in pairs {
        let waiting = w.waiting_events(parent).await;
        assert_eq!(waiting, [end(Ok("\"done\""), child)]);
    }
}

async fn a_refused_turn_leaves_no_message(w: &World) {
    let parent = w.start().await;
    let mut turn = w.turn(parent).await;
    turn.expected_sequence = 7;
    turn.children
        .push(w.new_child("child", ClosePolicy::Cancel));
    w.rejected(turn).await;
    assert_eq!(w.relay().await, Relayed::default());
    assert!(!w.run(parent).await.has_children);
}
