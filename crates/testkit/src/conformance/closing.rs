//! What becomes of children when their parent ends first.

use durable_core::{error_types, signal_types};
use everruns_durable::persistence::model::{ClosePolicy, WorkflowStatus};

use super::messages::messages;
use crate::World;
use crate::world::json;

claims! { "closing":
    closing_by_cancel_asks_the_child_to_stop,
    closing_by_terminate_ends_the_child_and_its_own_children,
    closing_by_abandon_leaves_the_child_alone,
    closing_leaves_a_child_that_has_ended_alone,
    a_child_asked_for_by_the_parents_last_turn_is_started_and_closed,
    continuing_as_new_closes_no_child,
}

async fn closing_by_cancel_asks_the_child_to_stop(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Cancel).await;
    w.complete(parent).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.ready_runs), (1, vec![child]));
    let all = w.dump(child).await;
    assert_eq!(all.run.status, WorkflowStatus::Pending);
    let signal = &all.signals[0];
    assert_eq!(
        (signal.signal_id, signal.signal_type.as_str()),
        (parent, signal_types::CANCEL)
    );
    assert_eq!(signal.payload, json("null"));
    assert_eq!(all.facts.len(), 1);
}

async fn closing_by_terminate_ends_the_child_and_its_own_children(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Terminate).await;
    let grandchild = w.child_of(child, ClosePolicy::Terminate).await;
    w.terminate(parent, "stop").await;
    let relayed = w.settle().await;
    assert!(relayed.ready_runs.is_empty(), "they have no turn due");
    for run_id in [child, grandchild] {
        let run = w.run(run_id).await;
        assert_eq!(run.status, WorkflowStatus::Failed);
        let error = run.error.expect("an error");
        assert_eq!(
            (error.error_type.as_str(), error.message.as_str()),
            (error_types::WORKFLOW_TERMINATED, "the parent ended")
        );
    }
    assert_eq!(messages(w).await, 0);
}

async fn closing_by_abandon_leaves_the_child_alone(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Abandon).await;
    let before = w.dump(child).await;
    w.complete(parent).await;
    let relayed = w.relay().await;
    assert_eq!((relayed.delivered, relayed.ready_runs), (1, vec![]));
    assert_eq!(w.dump(child).await, before);
}

async fn closing_leaves_a_child_that_has_ended_alone(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Terminate).await;
    w.complete(child).await;
    w.relay().await;
    let before = w.dump(child).await;
    w.complete(parent).await;
    w.relay().await;
    assert_eq!(w.dump(child).await, before);
}

async fn a_child_asked_for_by_the_parents_last_turn_is_started_and_closed(w: &World) {
    let parent = w.start().await;
    let mut turn = w.turn(parent).await;
    let child = w.new_child("child", ClosePolicy::Cancel);
    let run_id = child.start.run_id;
    turn.children.push(child);
    w.committed(World::completing(turn)).await;
    w.settle().await;
    let all = w.dump(run_id).await;
    assert_eq!(all.signals.len(), 1, "started first, then asked to stop");
}

async fn continuing_as_new_closes_no_child(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Terminate).await;
    let turn = World::continuing(w.turn(parent).await, vec![]);
    assert!(!w.committed(turn).await.has_messages);
    w.settle().await;
    assert_eq!(w.run(child).await.status, WorkflowStatus::Pending);
    w.complete(parent).await;
    w.settle().await;
    assert_eq!(w.run(child).await.status, WorkflowStatus::Failed);
}
