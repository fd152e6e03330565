//! Continue-as-new and reset: iterations, epochs, and what survives them.

use std::time::Duration;

use durable_core::{Payload, WorkflowEvent};
use everruns_durable::persistence::model::{
    Fact, NewSignal, Next, Rejection, RunRecord, SendOutcome, SendSignal, SignalRecord, StartRun,
    TaskStatus, TurnCommit, UpdateState, WorkflowStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{json, one};

claims! { "resets":
    a_continued_run_begins_again_under_its_id,
    the_history_of_a_continued_run_is_empty_and_the_old_one_is_kept,
    continuing_drops_tasks_and_timers,
    continuing_voids_the_leases_of_the_old_iteration,
    carried_signals_are_the_first_facts_of_the_new_iteration,
    a_carried_signal_keeps_its_place_in_the_ledger,
    a_carried_signal_without_a_ledger_row_gets_one,
    open_updates_and_attributes_survive_continuing,
    a_signal_after_continuing_reaches_the_new_iteration,
    a_reset_begins_a_new_epoch,
    a_reset_drops_tasks_and_timers,
    older_leases_die_with_a_reset,
    older_turns_die_with_a_reset,
    a_reset_drops_the_facts_of_activities_and_timers_only,
    facts_that_a_reset_takes_are_gone,
    a_reset_keeps_history_and_letters,
    a_failed_run_that_is_reset_runs_again,
    completed_and_cancelled_runs_cannot_be_reset,
    a_reset_outside_of_the_current_history_is_refused,
    a_reset_may_queue_tasks_and_set_timers_of_the_new_epoch,
    the_clock_of_the_iteration_starts_anew,
}

fn continuing(turn: TurnCommit, carried: Vec<NewSignal>) -> TurnCommit {
    let next = Next::ContinueAsNew {
        input: json("[ 2 ]"),
        carried,
    };
    World::ending(turn, next)
}

async fn continue_as_new(w: &World, run_id: Uuid, carried: Vec<NewSignal>) {
    let turn = w.turn(run_id).await;
    w.committed(continuing(turn, carried)).await;
}

async fn a_continued_run_begins_again_under_its_id(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    let before = w.run(run_id).await;
    w.advance(Duration::from_secs(1));
    let turn = w.turn(run_id).await;
    let expected = RunRecord {
        input: json("[ 2 ]"),
        iteration: 1,
        sequence: 3,
        history_start: 3,
        last_turn: Some(turn.turn_id),
        ready_at: w.now(),
        updated_at: w.instant(),
        ..before
    };
    let committed = w.committed(continuing(turn, vec![])).await;
    assert_eq!((committed.sequence, committed.arrivals), (3, 0));
    assert_eq!(w.run(run_id).await, expected);
    assert_eq!(w.claim_turns(10).await.len(), 1, "its first turn is due");
    continue_as_new(w, run_id, vec![]).await;
    let again = w.run(run_id).await;
    assert_eq!((again.iteration, again.history_start), (2, 5));
}

async fn the_history_of_a_continued_run_is_empty_and_the_old_one_is_kept(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    continue_as_new(w, run_id, vec![]).await;
    let start = w.run(run_id).await.history_start;
    let current = w.store.load_history(run_id, start).await.expect("reads");
    assert_eq!(current.expect("the run exists").events, []);
    let all = w.stored_events(run_id).await;
    assert_eq!(all.len(), 3);
    w.queue(run_id, vec![]).await;
    let current = w.store.load_history(run_id, start).await.expect("reads");
    let current = current.expect("the run exists").events;
    assert_eq!(current.len(), 1);
    assert_eq!(current[0].sequence_num, start + 1);
    assert_eq!(w.stored_events(run_id).await[..3], all);
}

/// A run with a claimed task, one in line and a timer; the lease of the first.
async fn busy(w: &World) -> (Uuid, everruns_durable::persistence::model::TaskLease) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.task("a"), w.task("b")];
    turn.timers = vec![World::timer("t", Duration::from_secs(60))];
    w.committed(turn).await;
    (run_id, w.claim_one().await.lease)
}

async fn continuing_drops_tasks_and_timers(w: &World) {
    let (run_id, _) = busy(w).await;
    continue_as_new(w, run_id, vec![]).await;
    let dump = w.dump(run_id).await;
    assert_eq!((dump.tasks, dump.timers), (vec![], vec![]));
    w.advance(Duration::from_secs(60));
    assert_eq!(w.fire_due().await.timers, 0);
    assert_eq!(w.run(run_id).await.arrivals, 0);
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.task("a")];
    turn.timers = vec![World::timer("t", Duration::from_secs(60))];
    w.committed(turn).await;
}

async fn continuing_voids_the_leases_of_the_old_iteration(w: &World) {
    let (run_id, lease) = busy(w).await;
    continue_as_new(w, run_id, vec![]).await;
    w.lease_is_void(&lease).await;
}

/// Sends a signal and answers it.
async fn send(w: &World, run_id: Uuid, name: &str) -> NewSignal {
    let signal = w.new_signal(name);
    let sent = SendSignal {
        run_id,
        signal: signal.clone(),
    };
    one(w.store.send_signals(vec![sent], w.now()).await);
    signal
}

async fn carried_signals_are_the_first_facts_of_the_new_iteration(w: &World) {
    let run_id = w.start().await;
    let sent_at = w.instant();
    let used = send(w, run_id, "used").await;
    let left = [send(w, run_id, "b").await, send(w, run_id, "a").await];
    w.advance(Duration::from_secs(1));
    let turn = continuing(w.turn(run_id).await, left.to_vec());
    let committed = w.committed(turn).await;
    assert_eq!(committed.arrivals, 3);
    let waiting = w.waiting(run_id).await;
    let fact = |arrival, signal: &NewSignal| Fact {
        arrival,
        event: WorkflowEvent::SignalReceived {
            signal: durable_core::WorkflowSignal {
                signal_id: Some(signal.signal_id),
                signal_type: signal.signal_type.clone(),
                payload: signal.payload.clone(),
                sent_at,
            },
            unread: false,
        },
        attempts: vec![],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    assert_eq!(waiting.facts, [fact(2, &left[0]), fact(3, &left[1])]);
    assert_eq!((waiting.run.arrivals, waiting.run.consumed), (3, 1));
    assert_eq!(waiting.run.ready_at, w.now());
    assert_eq!(used.signal_type, "used");
}

async fn a_carried_signal_keeps_its_place_in_the_ledger(w: &World) {
    let run_id = w.start().await;
    let sent_at = w.instant();
    let signal = send(w, run_id, "hello").await;
    w.advance(Duration::from_secs(1));
    continue_as_new(w, run_id, vec![signal.clone()]).await;
    let record = SignalRecord {
        run_id,
        signal_id: signal.signal_id,
        signal_type: "hello".into(),
        payload: json("true"),
        arrival: 1,
        sent_at,
        processed_at: None,
    };
    assert_eq!(w.dump(run_id).await.signals, [record]);
    let again = SendSignal { run_id, signal };
    assert_eq!(
        one(w.store.send_signals(vec![again], w.now()).await),
        SendOutcome::Duplicate { arrival: 1 }
    );
    w.queue(run_id, vec![]).await;
    assert_eq!(w.dump(run_id).await.signals[0].processed_at, w.now());
}

async fn a_carried_signal_without_a_ledger_row_gets_one(w: &World) {
    let run_id = w.start().await;
    let signal = w.new_signal("made up");
    continue_as_new(w, run_id, vec![signal.clone()]).await;
    let dump = w.dump(run_id).await;
    assert_eq!(dump.facts.len(), 1);
    assert_eq!(dump.signals.len(), 1);
    let row = &dump.signals[0];
    assert_eq!((row.signal_id, row.arrival), (signal.signal_id, 0));
    assert_eq!((row.sent_at, row.processed_at), (w.instant(), None));
}

async fn open_updates_and_attributes_survive_continuing(w: &World) {
    let mut start = w.new_start();
    let value = durable_core::AttributeValue::Int(1);
    start.attributes.insert("a".into(), value);
    let run_id = w.start_one(start).await;
    let attributes = w.dump(run_id).await.attributes;
    w.update(run_id, w.new_update("change")).await;
    continue_as_new(w, run_id, vec![]).await;
    let dump = w.dump(run_id).await;
    assert_eq!(dump.updates[0].state, UpdateState::Pending);
    assert_eq!(dump.attributes, attributes);
}

async fn a_signal_after_continuing_reaches_the_new_iteration(w: &World) {
    let run_id = w.start().await;
    continue_as_new(w, run_id, vec![]).await;
    assert_eq!(
        w.signal(run_id, "hello").await,
        SendOutcome::Accepted { arrival: 1 }
    );
    assert_eq!(w.waiting(run_id).await.facts.len(), 1);
}

async fn a_reset_begins_a_new_epoch(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    w.queue(run_id, vec![]).await;
    let before = w.run(run_id).await;
    w.advance(Duration::from_secs(1));
    let turn = World::resetting(w.turn(run_id).await, 1);
    let expected = RunRecord {
        epoch: 1,
        sequence: 4,
        last_turn: Some(turn.turn_id),
        ready_at: w.now(),
        updated_at: w.instant(),
        ..before
    };
    w.committed(turn).await;
    assert_eq!(w.run(run_id).await, expected);
    assert_eq!(w.claim_turns(10).await.len(), 1, "a turn is due");
}

async fn a_reset_drops_tasks_and_timers(w: &World) {
    let (run_id, _) = busy(w).await;
    w.reset(run_id, 1).await;
    let dump = w.dump(run_id).await;
    assert_eq!((dump.tasks, dump.timers), (vec![], vec![]));
    assert_eq!(w.claim(10).await, []);
    assert_eq!(w.letters().await, [], "dropped is not dead");
}

async fn older_leases_die_with_a_reset(w: &World) {
    let (run_id, lease) = busy(w).await;
    w.reset(run_id, 1).await;
    w.lease_is_void(&lease).await;
    // The activity is queued again under the same id: still not the old lease's task.
    w.queue(run_id, vec![w.task("a")]).await;
    w.lease_is_void(&lease).await;
    w.advance(Duration::from_secs(3600));
    assert_eq!(w.reap().await, []);
}

async fn older_turns_die_with_a_reset(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    let stale = World::completing(w.turn(run_id).await);
    w.reset(run_id, 1).await;
    let before = w.everything().await;
    assert_eq!(w.rejected(stale).await, Rejection::Epoch { found: 1 });
    assert_eq!(w.everything().await, before);
}

async fn a_reset_drops_the_facts_of_activities_and_timers_only(w: &World) {
    let (run_id, lease) = busy(w).await;
    let mut child = w.turn(run_id).await;
    child.children = vec![everruns_durable::persistence::model::NewChild {
        child_id: "child".into(),
        close_policy: everruns_durable::persistence::model::ClosePolicy::Abandon,
        start: w.new_start(),
    }];
    let child_run = child.children[0].start.run_id;
    w.committed(child).await;
    w.relay().await;
    w.complete(child_run).await;

    w.succeed(&lease).await;
    w.signal(run_id, "hello").await;
    w.update(run_id, w.new_update("change")).await;
    w.advance(Duration::from_secs(60));
    assert_eq!(w.fire_due().await.timers, 1);
    w.relay().await;
    let before = w.waiting(run_id).await;
    assert_eq!(before.facts.len(), 5);

    let mut turn = World::resetting(w.turn(run_id).await, 1);
    turn.facts_through = before.run.consumed;
    w.committed(turn).await;
    let after = w.waiting(run_id).await;
    let kinds: Vec<_> = after.facts.iter().map(|f| f.event.event_type()).collect();
    assert_eq!(
        kinds,
        ["signal.received", "update.accepted", "child.completed"]
    );
    assert_eq!(after.run.arrivals, before.run.arrivals);
    assert_eq!(after.run.consumed, before.run.consumed);
}

async fn facts_that_a_reset_takes_are_gone(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    w.signal(run_id, "hello").await;
    w.reset(run_id, 1).await;
    let dump = w.dump(run_id).await;
    assert_eq!(dump.facts, []);
    assert_eq!(dump.signals[0].processed_at, w.now());
    assert_eq!(dump.run.ready_at, w.now(), "a turn is due all the same");
}

async fn a_reset_keeps_history_and_letters(w: &World) {
    let (run_id, lease) = busy(w).await;
    w.give_up(&lease).await;
    w.queue(run_id, vec![]).await;
    let (history, letters) = (w.stored_events(run_id).await, w.letters().await);
    w.reset(run_id, 1).await;
    let all = w.stored_events(run_id).await;
    assert_eq!(all[..history.len()], history);
    assert_eq!(all[history.len()].event.event_type(), "workflow.reset");
    assert_eq!(w.letters().await, letters);
}

async fn a_failed_run_that_is_reset_runs_again(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    w.fail_run(run_id).await;
    let failed = w.run(run_id).await;
    assert_eq!(failed.status, WorkflowStatus::Failed);
    w.advance(Duration::from_secs(1));
    w.reset(run_id, 1).await;
    let run = w.run(run_id).await;
    assert_eq!(run.status, WorkflowStatus::Running);
    assert_eq!((run.error, run.completed_at), (None, None));
    assert_eq!(run.result, Payload::ABSENT);
    assert_eq!(run.ready_at, w.now());
    assert_eq!(run.started_at, failed.started_at);
    w.signal(run_id, "hello").await;
    assert_eq!(w.waiting(run_id).await.facts.len(), 1, "it takes signals");
    w.complete(run_id).await;
}

async fn completed_and_cancelled_runs_cannot_be_reset(w: &World) {
    for status in [WorkflowStatus::Completed, WorkflowStatus::Cancelled] {
        let run_id = w.last_run_of("order-1", status).await;
        let before = w.dump(run_id).await;
        let turn = World::resetting(w.turn(run_id).await, 1);
        assert_eq!(w.rejected(turn).await, Rejection::RunFinished { status });
        assert_eq!(w.dump(run_id).await, before);
    }
}

async fn a_reset_outside_of_the_current_history_is_refused(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    continue_as_new(w, run_id, vec![]).await;
    for _ in 0..2 {
        w.queue(run_id, vec![]).await;
    }
    let run = w.run(run_id).await;
    assert_eq!((run.history_start, run.sequence), (3, 5));
    let before = w.everything().await;
    for to_sequence in [-1, 0, 1, 3, 6, i64::MAX] {
        let turn = World::resetting(w.turn(run_id).await, to_sequence);
        let outside = Rejection::ResetOutside {
            to_sequence,
            first: 4,
            last: 5,
        };
        assert_eq!(w.rejected(turn).await, outside);
    }
    assert_eq!(w.everything().await, before);
    w.reset(run_id, 5).await;
    w.reset(run_id, 4).await;
    assert_eq!(w.run(run_id).await.epoch, 2);
}

async fn a_reset_may_queue_tasks_and_set_timers_of_the_new_epoch(w: &World) {
    let (run_id, _) = busy(w).await;
    let mut turn = World::resetting(w.turn(run_id).await, 1);
    turn.tasks = vec![w.task("a")];
    turn.timers = vec![World::timer("t", Duration::from_secs(5))];
    w.committed(turn).await;
    let dump = w.dump(run_id).await;
    assert_eq!(dump.tasks.len(), 1);
    assert_eq!(
        (dump.tasks[0].epoch, dump.tasks[0].status),
        (1, TaskStatus::Pending)
    );
    assert_eq!(dump.timers.len(), 1);
    assert_eq!(dump.timers[0].epoch, 1);
    assert_eq!(
        dump.timers[0].fire_at,
        after(w.instant(), Duration::from_secs(5))
    );
}

async fn the_clock_of_the_iteration_starts_anew(w: &World) {
    let minute = Duration::from_secs(60);
    let run_id = w
        .start_one(StartRun {
            run_timeout: Some(minute),
            execution_timeout: Some(minute * 10),
            ..w.new_start()
        })
        .await;
    let execution_deadline = Some(after(w.instant(), minute * 10));
    w.advance(Duration::from_secs(30));
    continue_as_new(w, run_id, vec![]).await;
    let run = w.run(run_id).await;
    assert_eq!(run.run_deadline, Some(after(w.instant(), minute)));
    assert_eq!(run.execution_deadline, execution_deadline);

    w.queue(run_id, vec![]).await;
    w.advance(Duration::from_secs(30));
    w.reset(run_id, run.history_start + 1).await;
    let run = w.run(run_id).await;
    assert_eq!(run.run_deadline, Some(after(w.instant(), minute)));
    assert_eq!(run.execution_deadline, execution_deadline);
}
