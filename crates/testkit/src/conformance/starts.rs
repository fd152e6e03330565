//! Starting runs.

use everruns_durable::persistence::model::{StartOutcome, WorkflowStatus};

use crate::World;

claims! { "starts":
    a_started_run_is_pending_and_ready,
    starting_the_same_run_twice_is_one_start,
}

async fn a_started_run_is_pending_and_ready(w: &World) {
    let run = w.start().await;
    let run = w.run(run).await;
    assert_eq!(run.status, WorkflowStatus::Pending);
    assert_eq!((run.sequence, run.arrivals, run.consumed), (0, 0, 0));
    assert_eq!(run.ready_at, w.now());
}

async fn starting_the_same_run_twice_is_one_start(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    assert_eq!(w.try_start(start).await, StartOutcome::Existing { run_id });
}
