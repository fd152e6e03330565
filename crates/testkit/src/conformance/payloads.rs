//! User data comes back byte for byte, or is refused before anything is written.

use std::time::Duration;

use durable_core::{Failure, Payload, RetryPolicy, WorkflowEvent};
use everruns_durable::persistence::limits::PAYLOAD_BYTES_MAX;
use everruns_durable::persistence::model::{
    ClosePolicy, LeaseExtension, LogLevel, NewOutboxEvent, NewSignal, NewStepLog, NewTask,
    NewUpdate, Next, OutSignal, SendSignal, SendUpdate, StartOutcome, StartRun, TaskOutcome,
    TaskResult, UpdateAnswer, UpdateState,
};
use uuid::Uuid;

use crate::World;
use crate::hostile_json::hostile_texts;
use crate::world::{LEASE, WORKFLOW, json, one};

claims! { "payloads":
    ten_thousand_hostile_texts_are_stored_byte_for_byte_or_refused,
    special_texts_survive_in_starts_and_events,
    special_texts_survive_in_tasks,
    special_texts_survive_in_signals_and_updates,
    special_texts_survive_in_messages_between_runs,
    special_texts_survive_in_outbox_and_log_lines,
    special_texts_survive_over_continue_as_new,
    what_a_codec_made_survives_everywhere,
    a_payload_that_is_not_there_stays_away,
    failures_keep_details_causes_and_any_character,
    a_payload_of_exactly_the_limit_is_stored,
}

/// Texts that some JSON reader, database or driver is known to change.
fn special() -> Vec<Payload> {
    let deepest = "[".repeat(100) + &"]".repeat(100);
    [
        "null",
        "9007199254740993",
        "-0",
        "-0.0",
        "1e400",
        "1E-400",
        "0.1000000000000000055511151231257827",
        "123456789012345678901234567890",
        "\"\"",
        r#""\u0000""#,
        r#"{"\u0000":"\u0000"}"#,
        r#""\ud83d\ude00 😀""#,
        r#"{"a":1,"a":2,"b":{"c":1,"c":1}}"#,
        r#"{"z":1,"a":2,"10":3,"9":4}"#,
        " [1 ,\t2,\r\n3 ] ",
        "\n{ }\n",
        "\"\u{2028}\u{feff}\u{10ffff}\u{7f}\"",
        r#""\/\b\f\n\r\t\"\\""#,
        "\"it's; DROP TABLE durable_runs; -- $1 ?1 %s\"",
        "true",
        &deepest,
    ]
    .into_iter()
    .map(json)
    .collect()
}

/// Bytes of every value, as a codec could make them.
fn encoded() -> Vec<Payload> {
    let every_byte: Vec<u8> = (0..=255).collect();
    [vec![0], vec![0, 0, 0xff], every_byte]
        .map(|bytes| Payload::from_codec(bytes).expect("it has its mark"))
        .to_vec()
}

async fn ten_thousand_hostile_texts_are_stored_byte_for_byte_or_refused(w: &World) {
    let texts = hostile_texts(0x5eed, 10_000);
    let total = texts.len();
    let accepted: Vec<Payload> = texts
        .into_iter()
        .filter_map(|text| Payload::from_json_text(text).ok())
        .collect();
    assert!(accepted.len() > total / 3, "{} accepted", accepted.len());
    assert!(
        accepted.len() < total * 9 / 10,
        "{} of {total} accepted",
        accepted.len()
    );
    for batch in accepted.chunks(500) {
        let mut parts = batch.chunks(batch.len().div_ceil(5));
        let mut part = || parts.next().unwrap_or_default();
        through_inputs(w, part()).await;
        through_signals(w, part()).await;
        through_updates(w, part()).await;
        through_results(w, part()).await;
        through_heartbeats(w, part()).await;
    }
}

async fn through_inputs(w: &World, payloads: &[Payload]) {
    let starts: Vec<StartRun> = payloads
        .iter()
        .map(|payload| {
            let mut start = StartRun::new(w.id(), WORKFLOW, payload.clone());
            start.memo = payload.clone();
            start
        })
        .collect();
    let ids: Vec<Uuid> = starts.iter().map(|start| start.run_id).collect();
    w.store.start_runs(starts, w.now()).await.expect("started");
    let turns = w.store.load_turns(&ids).await.expect("load_turns");
    assert_eq!(turns.len(), payloads.len());
    for (turn, payload) in turns.into_iter().zip(payloads) {
        let run = turn.expect("the run exists").run;
        assert_eq!((&run.input, &run.memo), (payload, payload));
    }
}

/// The payloads of the facts that wait.
async fn waiting(w: &World, run_id: Uuid) -> Vec<Payload> {
    let events = w.waiting_events(run_id).await;
    let payload = |event: &WorkflowEvent| event.payload().expect("it has one").clone();
    events.iter().map(payload).collect()
}

async fn through_signals(w: &World, payloads: &[Payload]) {
    let run_id = w.start().await;
    let signals = payloads
        .iter()
        .map(|payload| SendSignal {
            run_id,
            signal: NewSignal {
                signal_id: w.id(),
                signal_type: "s".into(),
                payload: payload.clone(),
            },
        })
        .collect();
    w.store.send_signals(signals, w.now()).await.expect("sent");
    assert_eq!(waiting(w, run_id).await, payloads);
}

async fn through_updates(w: &World, payloads: &[Payload]) {
    let run_id = w.start().await;
    let updates = payloads
        .iter()
        .enumerate()
        .map(|(i, payload)| SendUpdate {
            run_id,
            update: NewUpdate {
                update_id: i.to_string(),
                name: "u".into(),
                input: payload.clone(),
            },
        })
        .collect();
    w.store.send_updates(updates, w.now()).await.expect("sent");
    assert_eq!(waiting(w, run_id).await, payloads);
}

/// A run with one claimed task for each payload, its input; the leases in the order of the payloads.
async fn tasks_with(w: &World, payloads: &[Payload]) -> (Uuid, Vec<TaskResult>) {
    let tasks: Vec<NewTask> = payloads
        .iter()
        .enumerate()
        .map(|(i, payload)| {
            let mut task = w.parallel_task(&format!("{i:05}"));
            task.input = payload.clone();
            task
        })
        .collect();
    let run_id = w.start_with_tasks(tasks).await;
    let mut claimed = w.claim(payloads.len()).await;
    claimed.sort_by(|a, b| a.activity_id.cmp(&b.activity_id));
    let inputs: Vec<&Payload> = claimed.iter().map(|task| &task.input).collect();
    assert!(inputs.into_iter().eq(payloads));
    let results = claimed
        .into_iter()
        .zip(payloads)
        .map(|(task, payload)| TaskResult {
            lease: task.lease,
            outcome: TaskOutcome::Completed {
                result: payload.clone(),
            },
            jitter: 0.5,
            step_logs: vec![],
        })
        .collect();
    (run_id, results)
}

async fn through_results(w: &World, payloads: &[Payload]) {
    let (run_id, results) = tasks_with(w, payloads).await;
    w.store.finish_tasks(results, w.now()).await.expect("done");
    assert_eq!(waiting(w, run_id).await, payloads);
}

async fn through_heartbeats(w: &World, payloads: &[Payload]) {
    let (run_id, results) = tasks_with(w, payloads).await;
    let beats = results
        .iter()
        .zip(payloads)
        .map(|(result, payload)| LeaseExtension {
            lease: result.lease.clone(),
            extend: LEASE,
            heartbeat: Some(payload.clone()),
        })
        .collect();
    w.store.extend_leases(beats, w.now()).await.expect("beaten");
    let mut tasks = w.dump(run_id).await.tasks;
    tasks.sort_by(|a, b| a.activity_id.cmp(&b.activity_id));
    let details: Vec<&Payload> = tasks.iter().map(|task| &task.heartbeat_details).collect();
    assert!(details.into_iter().eq(payloads));
}

async fn special_texts_survive_in_starts_and_events(w: &World) {
    through_inputs(w, &special()).await;
    through_events(w, &special()).await;
}

/// A run that records each payload and ends with the last one.
async fn through_events(w: &World, payloads: &[Payload]) {
    let run_id = w.start().await;
    let last = payloads.last().expect("at least one");
    let mut events: Vec<WorkflowEvent> = payloads
        .iter()
        .map(|value| WorkflowEvent::SideEffectRecorded {
            effect_id: "e".into(),
            value: value.clone(),
        })
        .collect();
    let mut turn = w.turn(run_id).await;
    events.push(WorkflowEvent::WorkflowCompleted {
        result: last.clone(),
    });
    turn.events = events.clone();
    turn.next = Next::Complete {
        result: last.clone(),
    };
    w.committed(turn).await;
    assert_eq!(w.history(run_id).await, events);
    assert_eq!(&w.run(run_id).await.result, last);
}

async fn special_texts_survive_in_tasks(w: &World) {
    through_results(w, &special()).await;
    through_heartbeats(w, &special()).await;
}

async fn special_texts_survive_in_signals_and_updates(w: &World) {
    through_signals(w, &special()).await;
    through_updates(w, &special()).await;
    through_answers(w, &special()).await;
}

async fn through_answers(w: &World, payloads: &[Payload]) {
    let run_id = w.start().await;
    for (i, payload) in payloads.iter().enumerate() {
        let update_id = i.to_string();
        w.update(run_id, w.new_update(&update_id)).await;
        let mut turn = w.turn(run_id).await;
        turn.updates.push(UpdateAnswer {
            update_id: update_id.clone(),
            result: Ok(payload.clone()),
        });
        w.committed(turn).await;
        let update = w.store.get_update(run_id, &update_id).await;
        let state = update.expect("get_update").expect("it exists").state;
        assert_eq!(state, UpdateState::Completed(payload.clone()));
    }
}

async fn special_texts_survive_in_messages_between_runs(w: &World) {
    through_messages(w, &special()).await;
}

/// Each payload as a child's input and memo, as its result, and as a signal to it.
async fn through_messages(w: &World, payloads: &[Payload]) {
    for payload in payloads {
        let parent = w.start().await;
        let mut turn = w.turn(parent).await;
        let mut child = w.new_child("child", ClosePolicy::Cancel);
        child.start.input = payload.clone();
        child.start.memo = payload.clone();
        let child_id = child.start.run_id;
        let fingerprint = child.start.fingerprint();
        turn.children.push(child);
        turn.signals.push(OutSignal {
            run_id: child_id,
            signal: NewSignal {
                signal_id: w.id(),
                signal_type: "s".into(),
                payload: payload.clone(),
            },
        });
        w.committed(turn).await;
        w.settle().await;
        let run = w.run(child_id).await;
        assert_eq!((&run.input, &run.memo), (payload, payload));
        assert_eq!(run.fingerprint, fingerprint);
        assert_eq!(waiting(w, child_id).await, std::slice::from_ref(payload));
        let mut turn = w.turn(child_id).await;
        turn.events.push(WorkflowEvent::WorkflowCompleted {
            result: payload.clone(),
        });
        turn.next = Next::Complete {
            result: payload.clone(),
        };
        w.committed(turn).await;
        w.settle().await;
        assert_eq!(waiting(w, parent).await, std::slice::from_ref(payload));
    }
}

async fn special_texts_survive_in_outbox_and_log_lines(w: &World) {
    through_outbox_and_logs(w, &special()).await;
    for (i, payload) in special().into_iter().enumerate() {
        let key = i.to_string();
        let put = w.store.put_once(&key, payload.clone(), w.now()).await;
        assert_eq!(put.expect("put_once"), payload);
        let got = w.store.get_once(&key).await.expect("get_once");
        assert_eq!(got, Some(payload));
    }
}

async fn through_outbox_and_logs(w: &World, payloads: &[Payload]) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    for payload in payloads {
        turn.outbox.push(NewOutboxEvent {
            id: w.id(),
            event_type: "e".into(),
            payload: payload.clone(),
            idempotency_key: None,
        });
        turn.step_logs.push(NewStepLog {
            id: w.id(),
            activity_id: "a".into(),
            attempt: 1,
            level: LogLevel::Info,
            message: "m".into(),
            meta: payload.clone(),
        });
    }
    w.committed(turn).await;
    let all = w.dump(run_id).await;
    assert!(all.outbox.iter().map(|event| &event.payload).eq(payloads));
    assert!(all.step_logs.iter().map(|line| &line.meta).eq(payloads));
}

async fn special_texts_survive_over_continue_as_new(w: &World) {
    through_continuation(w, &special()).await;
}

async fn through_continuation(w: &World, payloads: &[Payload]) {
    for payload in payloads {
        let run_id = w.start().await;
        let mut turn = w.turn(run_id).await;
        turn.events.push(WorkflowEvent::WorkflowContinuedAsNew {
            iteration: 1,
            input: payload.clone(),
        });
        turn.next = Next::ContinueAsNew {
            input: payload.clone(),
            carried: vec![NewSignal {
                signal_id: w.id(),
                signal_type: "s".into(),
                payload: payload.clone(),
            }],
        };
        w.committed(turn).await;
        assert_eq!(&w.run(run_id).await.input, payload);
        assert_eq!(waiting(w, run_id).await, std::slice::from_ref(payload));
    }
}

async fn what_a_codec_made_survives_everywhere(w: &World) {
    let payloads = encoded();
    through_inputs(w, &payloads).await;
    through_events(w, &payloads).await;
    through_results(w, &payloads).await;
    through_heartbeats(w, &payloads).await;
    through_signals(w, &payloads).await;
    through_updates(w, &payloads).await;
    through_answers(w, &payloads).await;
    through_messages(w, &payloads).await;
    through_outbox_and_logs(w, &payloads).await;
    through_continuation(w, &payloads).await;
}

async fn a_payload_that_is_not_there_stays_away(w: &World) {
    let absent = [Payload::ABSENT];
    through_inputs(w, &absent).await;
    through_events(w, &absent).await;
    through_results(w, &absent).await;
    through_signals(w, &absent).await;
    through_updates(w, &absent).await;
    through_answers(w, &absent).await;
    through_messages(w, &absent).await;
    through_outbox_and_logs(w, &absent).await;
    through_continuation(w, &absent).await;
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(task.heartbeat_details, Payload::ABSENT);
    let run = w.run(run_id).await;
    assert_eq!((run.result, run.memo), (Payload::ABSENT, Payload::ABSENT));
}

async fn failures_keep_details_causes_and_any_character(w: &World) {
    let root = Failure::new("Röt\u{0}", "\u{0}\u{feff}' -- \u{10ffff}").non_retryable();
    let failure = Failure::new("Boom", "line 1\r\nline 2\t\"quoted\" \\")
        .with_details(json(r#"{"a":9007199254740993,"a":[1e400,-0,"\u0000"]}"#))
        .with_cause(root);
    let mut task = w.task("a");
    task.options.retry_policy = RetryPolicy {
        max_attempts: 2,
        ..RetryPolicy::never()
    };
    let run_id = w.start_with_tasks(vec![task]).await;
    for _ in 0..2 {
        let claimed = w.claim_one().await;
        let failed = TaskOutcome::Failed {
            failure: failure.clone(),
        };
        w.report(&claimed.lease, failed).await;
        w.advance(Duration::from_secs(10));
        w.fire_due().await;
    }
    let fact = w.waiting(run_id).await.facts.remove(0);
    assert_eq!(fact.attempts[0].failure, failure);
    let event = WorkflowEvent::ActivityFailed {
        activity_id: "a".into(),
        error: failure.clone(),
        will_retry: false,
    };
    assert_eq!(fact.event, event);
    let letter = w.letters().await.remove(0);
    assert_eq!(letter.last_error, failure);
    let turn = World::failing(w.turn(run_id).await, failure.clone());
    w.committed(turn).await;
    assert_eq!(w.run(run_id).await.error.as_ref(), Some(&failure));
    let error = failure.into();
    let last = w.history(run_id).await.pop();
    assert_eq!(last, Some(WorkflowEvent::WorkflowFailed { error }));
}

async fn a_payload_of_exactly_the_limit_is_stored(w: &World) {
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    let largest = json(&text);
    assert_eq!(largest.len(), PAYLOAD_BYTES_MAX);
    let run_id = w
        .start_one(StartRun::new(w.id(), WORKFLOW, largest.clone()))
        .await;
    let signal = NewSignal {
        payload: largest.clone(),
        ..w.new_signal("s")
    };
    w.send(run_id, signal).await;
    let turn = w.waiting(run_id).await;
    assert!(turn.run.input == largest, "the input came back");
    assert!(
        turn.facts[0].event.payload() == Some(&largest),
        "the signal came back"
    );
    let start = StartRun::new(run_id, WORKFLOW, largest);
    let again = one(w.store.start_runs(vec![start], w.now()).await);
    let existing = StartOutcome::Existing { run_id };
    assert_eq!(again, existing);
}
