//! Every check of the audit reports what it is for: a sound dump is broken by hand, once for each.

#[path = "audit/sound.rs"]
mod sound;

use std::time::Duration;

use durable_core::{Failure, Payload, WorkflowEvent};
use durable_testkit::audit::{Invariant, Scope, audit_dump, audit_within};
use everruns_durable::persistence::model::{
    Dump, HistoryEvent, KeyKind, KeyRecord, Orphan, OutboxRecord, OutboxState, ParentLink, RunDump,
    TaskStatus, WorkflowStatus,
};
use uuid::Uuid;

/// A way to break a dump, and the invariant that must be reported.
type Break = (&'static str, Invariant, fn(&mut Dump));

fn busy(dump: &mut Dump) -> &mut RunDump {
    let found = dump.runs.iter_mut().find(|run| run.timers.len() == 1);
    found.expect("the busy run")
}

fn completed(dump: &mut Dump) -> &mut RunDump {
    let found = dump
        .runs
        .iter_mut()
        .find(|run| run.run.status == WorkflowStatus::Completed);
    found.expect("the completed run")
}

fn parked(dump: &mut Dump) -> &mut RunDump {
    let found = dump.runs.iter_mut().find(|run| {
        let mut tasks = run.tasks.iter();
        tasks.any(|task| task.status == TaskStatus::Dead)
    });
    found.expect("the parked run")
}

fn append(run: &mut RunDump, event: WorkflowEvent) {
    run.run.sequence += 1;
    run.events.push(HistoryEvent {
        sequence_num: run.run.sequence,
        event,
        created_at: run.run.updated_at,
    });
}

fn reset(epoch: u32) -> WorkflowEvent {
    WorkflowEvent::WorkflowReset {
        to_sequence: 1,
        epoch,
        reason: "test".into(),
    }
}

/// Ends, order and races.
const RUNS: &[Break] = &[
    ("a terminal status without its event", Invariant::I1, |d| {
        busy(d).run.status = WorkflowStatus::Failed;
    }),
    ("a terminal event without its status", Invariant::I1, |d| {
        completed(d).run.status = WorkflowStatus::Running;
    }),
    ("an end without an instant", Invariant::I1, |d| {
        completed(d).run.completed_at = None;
    }),
    ("an ended run with a task", Invariant::I1, |d| {
        let task = busy(d).tasks[0].clone();
        completed(d).tasks.push(task);
    }),
    ("an ended run with a turn due", Invariant::I1, |d| {
        let run = &mut completed(d).run;
        run.ready_at = Some(run.created_at);
    }),
    ("a pending run with a history", Invariant::I1, |d| {
        busy(d).run.status = WorkflowStatus::Pending;
    }),
    (
        "a signal in neither inbox nor history",
        Invariant::I2,
        |d| busy(d).facts.clear(),
    ),
    ("a signal in the inbox and taken", Invariant::I2, |d| {
        let run = busy(d);
        run.signals[1].processed_at = Some(run.run.updated_at);
    }),
    ("a signal taken twice", Invariant::I2, |d| {
        let run = busy(d);
        let event = run.events[1].event.clone();
        assert!(matches!(event, WorkflowEvent::SignalReceived { .. }));
        append(run, event);
    }),
    (
        "a signal taken and not in the history",
        Invariant::I2,
        |d| {
            busy(d).events[1].event = WorkflowEvent::PatchMarked {
                patch_id: "p".into(),
            };
        },
    ),
    (
        "an update that waits and was never sent",
        Invariant::I2,
        |d| {
            busy(d).facts[0].event = WorkflowEvent::UpdateAccepted {
                update_id: "u".into(),
                name: "n".into(),
                input: Payload::null(),
            };
        },
    ),
    ("a gap in the events", Invariant::I4, |d| {
        busy(d).events.remove(2);
    }),
    ("a sequence beyond the events", Invariant::I4, |d| {
        busy(d).run.sequence += 1;
    }),
    ("more facts taken than arrived", Invariant::I4, |d| {
        busy(d).run.consumed = 9;
    }),
    ("a gap in the arrivals", Invariant::I4, |d| {
        busy(d).run.arrivals += 1;
    }),
    ("facts that wait and no turn due", Invariant::I4, |d| {
        busy(d).run.ready_at = None;
    }),
    ("an epoch without a reset", Invariant::I4, |d| {
        busy(d).run.epoch = 1;
    }),
    ("an iteration without a continuation", Invariant::I4, |d| {
        busy(d).run.iteration = 1;
    }),
    ("a history that starts elsewhere", Invariant::I4, |d| {
        busy(d).run.history_start = 1;
    }),
    ("an event behind the end", Invariant::I7, |d| {
        append(
            completed(d),
            WorkflowEvent::PatchMarked {
                patch_id: "p".into(),
            },
        );
    }),
    ("a completed run that was reset", Invariant::I7, |d| {
        append(completed(d), reset(1));
    }),
    ("a key that belongs to another run", Invariant::I9, |d| {
        let other = completed(d).run.id;
        let mut keys = d.keys.iter_mut();
        let key = keys.find(|key| key.kind == KeyKind::Idempotency);
        key.expect("a key").run_id = other;
    }),
    ("two runs under one key", Invariant::I9, |d| {
        completed(d).run.idempotency_key = Some("key".into());
    }),
    ("a deleted run that is there", Invariant::I9, |d| {
        let run_id = busy(d).run.id;
        let created_at = busy(d).run.created_at;
        d.keys.push(KeyRecord {
            kind: KeyKind::Tombstone,
            key: run_id.to_string(),
            run_id,
            created_at,
        });
    }),
    ("a child started twice", Invariant::I9, |d| {
        let parent = ParentLink {
            run_id: busy(d).run.id,
            child_id: "child".into(),
            epoch: 0,
            iteration: 0,
            close_policy: everruns_durable::persistence::model::ClosePolicy::Abandon,
        };
        busy(d).run.has_children = true;
        completed(d).run.parent = Some(parent.clone());
        parked(d).run.parent = Some(parent);
    }),
];

/// Activities, timers, schedules, letters, projections.
const WORK: &[Break] = &[
    ("an activity that ended twice", Invariant::I3, |d| {
        let run = completed(d);
        let ends = |e: &HistoryEvent| matches!(e.event, WorkflowEvent::ActivityCompleted { .. });
        let at = run.events.iter().position(ends).expect("an end");
        let event = run.events[at].event.clone();
        run.events[at + 1].event = event;
    }),
    ("an activity that ended and is queued", Invariant::I3, |d| {
        append(
            busy(d),
            WorkflowEvent::ActivityCompleted {
                activity_id: "first".into(),
                result: Payload::null(),
            },
        );
    }),
    ("a timer of an old epoch", Invariant::I5, |d| {
        busy(d).timers[0].epoch = 7;
    }),
    ("a timer that fired early", Invariant::I5, |d| {
        let run = completed(d);
        let fired = |e: &&mut HistoryEvent| matches!(e.event, WorkflowEvent::TimerFired { .. });
        let event = run.events.iter_mut().find(fired).expect("it fired");
        event.created_at -= Duration::from_millis(1);
    }),
    ("a timer that fired and is still set", Invariant::I5, |d| {
        append(
            busy(d),
            WorkflowEvent::TimerFired {
                timer_id: "alarm".into(),
            },
        );
    }),
    ("a tick without its key", Invariant::I6, |d| {
        d.keys.retain(|key| key.kind != KeyKind::CronSlot);
    }),
    (
        "a schedule that waits for a tick that was taken",
        Invariant::I6,
        |d| {
            d.schedules[0].next_fire_at = d.schedules[0].last_fire_at;
        },
    ),
    ("a dead task without a letter", Invariant::I8, |d| {
        d.dead_letters.clear();
    }),
    (
        "a dead task whose letter is not parked",
        Invariant::I8,
        |d| {
            d.dead_letters[0].parked = false;
        },
    ),
    ("two letters for one task", Invariant::I8, |d| {
        d.dead_letters.push(d.dead_letters[0].clone());
    }),
    ("a letter of no run", Invariant::I8, |d| {
        d.dead_letters[0].run_id = Uuid::nil();
    }),
    ("a final failure without a letter", Invariant::I8, |d| {
        busy(d).facts[0].event = WorkflowEvent::ActivityFailed {
            activity_id: "first".into(),
            error: Failure::new("Boom", "it broke"),
            will_retry: false,
        };
    }),
    ("a history that cannot be", Invariant::I10, |d| {
        let run = busy(d);
        let event = run.events[0].event.clone();
        append(run, event);
    }),
    ("an event that cannot be stored", Invariant::I10, |d| {
        let details = Payload::from_stored(&b"not JSON"[..]);
        let error = Failure::new("Boom", "it broke").with_details(details);
        append(
            busy(d),
            WorkflowEvent::LocalActivityFailed {
                activity_id: "local".into(),
                activity_type: "local".into(),
                error,
            },
        );
    }),
    ("a lease without a token", Invariant::I12, |d| {
        busy(d).tasks[0].token = None;
    }),
    ("a claim that was not counted", Invariant::I12, |d| {
        busy(d).tasks[0].deliveries = 0;
    }),
    ("two of one line at work", Invariant::I12, |d| {
        busy(d).tasks[1].status = TaskStatus::Pending;
    }),
    ("a task of an old epoch", Invariant::I12, |d| {
        busy(d).tasks[0].epoch = 3;
    }),
    (
        "a task beside the line that waits in it",
        Invariant::I12,
        |d| {
            busy(d).tasks[1].options.sequential = false;
        },
    ),
    ("a result that is not the event's", Invariant::I12, |d| {
        completed(d).run.result = Payload::null();
    }),
    (
        "an attribute that the history set otherwise",
        Invariant::I12,
        |d| {
            busy(d).attributes.clear();
        },
    ),
    ("a child its parent does not know of", Invariant::I12, |d| {
        let parent = busy(d).run.id;
        completed(d).run.parent = Some(ParentLink {
            run_id: parent,
            child_id: "child".into(),
            epoch: 0,
            iteration: 0,
            close_policy: everruns_durable::persistence::model::ClosePolicy::Abandon,
        });
    }),
    ("ended runs that were not counted", Invariant::I12, |d| {
        d.rollups.clear();
    }),
    (
        "an outbox event in flight without a token",
        Invariant::I12,
        |d| {
            let run = busy(d);
            run.outbox.push(OutboxRecord {
                id: Uuid::nil(),
                run_id: run.run.id,
                event_type: "e".into(),
                payload: Payload::null(),
                idempotency_key: None,
                state: OutboxState::InFlight,
                attempts: 1,
                available_at: run.run.created_at,
                token: None,
                last_error: None,
                created_at: run.run.created_at,
                published_at: None,
            });
        },
    ),
    ("an outbox event without a turn", Invariant::I11, |d| {
        let run = busy(d);
        let (run_id, at) = (run.run.id, run.run.created_at);
        run.outbox.push(OutboxRecord {
            id: Uuid::from_u128(8),
            run_id,
            event_type: "t".into(),
            payload: Payload::null(),
            idempotency_key: None,
            state: OutboxState::Pending,
            attempts: 0,
            available_at: at,
            token: None,
            last_error: None,
            created_at: at,
            published_at: None,
        });
        run.run.last_turn = None;
    }),
    ("a task too many in the count", Invariant::I12, |d| {
        busy(d).derived.task_count += 1;
    }),
    ("a line that is not counted", Invariant::I12, |d| {
        busy(d).derived.line_count += 1;
    }),
    ("a deadline that nobody set", Invariant::I12, |d| {
        let run = busy(d);
        run.derived.deadline_at = Some(run.run.created_at);
    }),
    ("a clock that stands elsewhere", Invariant::I12, |d| {
        let run = busy(d);
        run.derived.tasks[0].timeout_at = Some(run.run.created_at);
    }),
    ("an instant that is due elsewhere", Invariant::I12, |d| {
        busy(d).derived.tasks[0].due_at = None;
    }),
    ("rows of a run that is gone", Invariant::I13, |d| {
        d.orphans.push(Orphan {
            table: "inbox".into(),
            run_id: Some(Uuid::from_u128(9)),
        });
    }),
    ("a reserved key without a run", Invariant::I13, |d| {
        d.orphans.push(Orphan {
            table: "keys".into(),
            run_id: None,
        });
    }),
    ("a run that nothing begins", Invariant::I14, |d| {
        let run = busy(d);
        run.run.status = WorkflowStatus::Pending;
        run.run.ready_at = None;
    }),
];

#[tokio::test]
async fn a_sound_database_has_no_violation() {
    let dump = sound::dump().await;
    let report = audit_dump(&dump);
    assert!(report.is_clean(), "{report}");
    assert!(audit_within(&dump, Scope::Rows).is_clean());
    assert_eq!(report.runs, 4);
}

#[tokio::test]
async fn everything_that_can_be_broken_is_reported_under_its_invariant() {
    let sound = sound::dump().await;
    for (what, invariant, breaks) in RUNS.iter().chain(WORK) {
        let mut dump = sound.clone();
        breaks(&mut dump);
        let report = audit_dump(&dump);
        let reported = report.violations.iter().any(|v| v.invariant == *invariant);
        assert!(
            reported,
            "{what} is not reported as {}:\n{report}",
            invariant.id()
        );
    }
}

#[tokio::test]
async fn every_invariant_is_broken_by_some_case() {
    for invariant in Invariant::ALL {
        let tried = RUNS.iter().chain(WORK).any(|(_, of, _)| of == invariant);
        assert!(tried, "{}", invariant.id());
    }
}

#[tokio::test]
async fn what_was_written_in_the_future_is_reported() {
    let world = durable_testkit::World::new(std::sync::Arc::new(
        everruns_durable::persistence::MemoryStore::new(),
    ));
    let run_id = world.start().await;
    world.complete(run_id).await;
    let store = world.store.as_ref();
    let earlier = world.instant() - Duration::from_secs(1);
    let report = durable_testkit::audit::audit(store, Some(earlier)).await;
    let violations = report.expect("it can be read").violations;
    assert!(violations.iter().any(|v| v.message.contains("future")));
}
