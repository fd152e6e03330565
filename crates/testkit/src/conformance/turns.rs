//! What an accepted turn does to tasks, timers, facts and events.

use std::time::Duration;

use durable_core::{Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::limits::{HISTORY_PAGE_BYTES_MAX, PAYLOAD_BYTES_MAX};
use everruns_durable::persistence::model::{
    DeadLetter, DeadLetterState, FinishedTask, HistoryEvent, RollupKind, RollupOutcome, TaskEnd,
    TaskLease, TaskPlace, TaskRecord, TaskStatus, TimerRecord, after,
};
use everruns_durable::persistence::whole_history;
use uuid::Uuid;

use crate::World;
use crate::world::{ACTIVITY, LEASE, WORKER, boom, json, one, trace};

claims! { "turns":
    a_finished_task_leaves_and_is_counted,
    a_task_failed_by_a_turn_leaves_one_dead_letter,
    cancelled_activities_leave_uncounted_and_unknown_ones_are_passed_over,
    fired_and_cancelled_timers_leave,
    the_end_of_a_run_drops_its_tasks_and_timers_and_keeps_its_letters,
    facts_taken_leave_and_others_stay,
    signals_taken_are_marked_once,
    events_are_appended_without_gaps_and_exact,
    history_is_read_from_where_one_is,
    a_history_is_read_in_pages_bounded_in_bytes,
    timers_are_set_for_their_time,
    instants_are_cut_to_microseconds,
    times_saturate_instead_of_overflowing,
    a_new_task_is_stored_whole,
    a_task_is_leased_to_the_committer_when_asked,
    a_lease_is_not_given_without_a_request_nor_before_its_time,
}

async fn a_finished_task_leaves_and_is_counted(w: &World) {
    let tasks = ["done", "given up"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(2).await;
    w.advance(Duration::from_millis(5));
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![
        FinishedTask {
            lease: claimed[0].lease.clone(),
            end: TaskEnd::Completed,
        },
        FinishedTask {
            lease: claimed[1].lease.clone(),
            end: TaskEnd::Cancelled,
        },
    ];
    w.committed(turn).await;

    let dump = w.dump(run_id).await;
    assert_eq!((dump.tasks, dump.facts), (vec![], vec![]));
    assert_eq!(w.letters().await, []);
    let totals: Vec<_> = w
        .totals()
        .await
        .into_iter()
        .map(|t| {
            (
                t.kind,
                t.name,
                t.outcome,
                t.duration_exp,
                t.count,
                t.total_ms,
            )
        })
        .collect();
    let total = |outcome| (RollupKind::Activity, ACTIVITY.to_owned(), outcome, 3, 1, 5);
    assert_eq!(
        totals,
        [
            total(RollupOutcome::Completed),
            total(RollupOutcome::Cancelled)
        ]
    );
}

async fn a_task_failed_by_a_turn_leaves_one_dead_letter(w: &World) {
    let task = w.task("a");
    let run_id = w.start_with_tasks(vec![task.clone()]).await;
    let claimed = w.claim_one().await;
    let started_at = w.instant();
    w.advance(Duration::from_secs(1));
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![FinishedTask {
        lease: claimed.lease,
        end: TaskEnd::Failed(boom()),
    }];
    w.committed(turn).await;

    assert_eq!(w.dump(run_id).await.tasks, []);
    let letter = DeadLetter {
        id: task.task_id,
        run_id,
        activity_id: "a".into(),
        activity_type: ACTIVITY.into(),
        input: task.input,
        options: task.options,
        epoch: 0,
        attempts: 1,
        last_error: boom(),
        error_history: vec![durable_core::AttemptRecord {
            attempt: 1,
            worker_id: WORKER.into(),
            started_at: Some(started_at),
            failure: boom(),
            omitted_before: 0,
        }],
        parked: false,
        state: DeadLetterState::Dead,
        dead_at: w.instant(),
        requeued_at: None,
        requeue_count: 0,
    };
    assert_eq!(w.letters().await, [letter]);
    assert_eq!(w.totals().await[0].outcome, RollupOutcome::Failed);
}

async fn cancelled_activities_leave_uncounted_and_unknown_ones_are_passed_over(w: &World) {
    let tasks = ["claimed", "pending", "stays"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let lease = w.claim_one().await.lease;
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["claimed".into(), "unknown".into(), "pending".into()];
    w.committed(turn).await;
    let left = w.dump(run_id).await.tasks;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].activity_id, "stays");
    assert_eq!(w.totals().await, []);
    assert_eq!(w.letters().await, []);
    assert!(!w.release(&lease).await, "the lease of a cancelled task");
}

async fn fired_and_cancelled_timers_leave(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.timers = ["fired", "cancelled", "stays"]
        .map(|name| World::timer(name, Duration::from_secs(1)))
        .to_vec();
    w.committed(turn).await;
    w.advance(Duration::from_secs(1));
    let mut turn = w.turn(run_id).await;
    turn.fired_timers = vec!["fired".into()];
    turn.cancelled_timers = vec!["cancelled".into(), "unknown".into()];
    w.committed(turn).await;
    let left = w.dump(run_id).await;
    assert_eq!(left.timers.len(), 1);
    assert_eq!(left.timers[0].timer_id, "stays");
    assert_eq!(left.facts, [], "the turn has the fact itself");
}

async fn the_end_of_a_run_drops_its_tasks_and_timers_and_keeps_its_letters(w: &World) {
    let names = ["dead", "claimed", "pending", "delayed"];
    let mut tasks: Vec<_> = names.iter().map(|name| w.parallel_task(name)).collect();
    tasks[0].options.on_exhausted = durable_core::ExhaustedPolicy::Park;
    tasks[3].delay = Some(Duration::from_secs(60));
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = tasks;
    turn.timers = vec![World::timer("t", Duration::from_secs(60))];
    w.committed(turn).await;
    let dead = w.claim_one().await;
    w.give_up(&dead.lease).await;
    let claimed = w.claim_one().await;
    w.complete(run_id).await;

    let dump = w.dump(run_id).await;
    assert_eq!((dump.tasks, dump.timers), (vec![], vec![]));
    assert_eq!(w.letters().await.len(), 1);
    assert!(!w.release(&claimed.lease).await);
    assert_eq!(w.claim(10).await, []);
    w.advance(Duration::from_secs(60));
    let fired = w.fire_due().await;
    assert_eq!((fired.timers, fired.tasks_ready), (0, 0));
}

async fn facts_taken_leave_and_others_stay(w: &World) {
    let run_id = w.start().await;
    for name in ["a", "b", "c"] {
        w.signal(run_id, name).await;
    }
    let waiting = w.waiting(run_id).await.facts;
    let mut turn = w.turn(run_id).await;
    turn.facts_through = 2;
    let committed = w.committed(turn).await;
    assert_eq!(committed.arrivals, 3);
    let after = w.waiting(run_id).await;
    assert_eq!((after.run.consumed, after.run.arrivals), (2, 3));
    assert_eq!(after.facts, waiting[2..]);
}

async fn signals_taken_are_marked_once(w: &World) {
    let run_id = w.start().await;
    w.signal(run_id, "first").await;
    w.queue(run_id, vec![]).await;
    let first_turn = w.now();
    w.advance(Duration::from_secs(1));
    w.signal(run_id, "second").await;
    w.signal(run_id, "third").await;
    let mut turn = w.turn(run_id).await;
    turn.facts_through = 2;
    w.committed(turn).await;
    let marks: Vec<_> = w
        .dump(run_id)
        .await
        .signals
        .iter()
        .map(|signal| signal.processed_at)
        .collect();
    assert_eq!(marks, [first_turn, w.now(), None]);
}

async fn events_are_appended_without_gaps_and_exact(w: &World) {
    let run_id = w.start().await;
    let texts = [
        "9007199254740993",
        r#""\u0000 \ud83d\ude00""#,
        r#"{"a":1,"a":2}"#,
        " [1 , 1e400] ",
    ];
    let effect = |text: &str| WorkflowEvent::SideEffectRecorded {
        effect_id: text.into(),
        value: json(text),
    };
    let mut expected = Vec::new();
    for half in texts.chunks(2) {
        w.advance(Duration::from_secs(1));
        let mut turn = w.turn(run_id).await;
        turn.events = half.iter().map(|text| effect(text)).collect();
        for event in &turn.events {
            expected.push(HistoryEvent {
                sequence_num: i64::try_from(expected.len()).expect("few events") + 1,
                event: event.clone(),
                created_at: w.instant(),
            });
        }
        let committed = w.committed(turn).await;
        assert_eq!(
            committed.sequence,
            i64::try_from(expected.len()).expect("few")
        );
    }
    assert_eq!(w.stored_events(run_id).await, expected);
}

async fn history_is_read_from_where_one_is(w: &World) {
    let run_id = w.start().await;
    for _ in 0..4 {
        w.queue(run_id, vec![]).await;
    }
    let all = w.stored_events(run_id).await;
    let rest = w.store.load_history(run_id, 3).await.expect("load_history");
    let rest = rest.expect("the run exists");
    assert_eq!(rest.events, all[3..]);
    assert_eq!(rest.run, w.run(run_id).await);
    for (after, limit, expected) in [
        (0, 2, &all[..2]),
        (1, 2, &all[1..3]),
        (3, 1_000_000, &all[3..]),
        (0, 0, &all[..0]),
        (9, 2, &all[..0]),
    ] {
        let page = w.store.list_events(run_id, after, limit).await;
        let page = page.expect("list_events").expect("the run exists");
        assert_eq!(page.events, expected, "{limit} after {after}");
        assert_eq!(page.run, w.run(run_id).await);
    }
    assert_eq!(
        w.store.list_events(w.id(), 0, 1).await.expect("reads"),
        None
    );
    assert_eq!(w.store.load_history(w.id(), 0).await.expect("reads"), None);
    let unknown = w.store.load_turns(&[w.id(), run_id]).await.expect("reads");
    assert_eq!(unknown[0], None);
    assert!(unknown[1].is_some(), "answers are in the order asked");
}

async fn timers_are_set_for_their_time(w: &World) {
    let run_id = w.start().await;
    w.advance(Duration::from_secs(5));
    let mut turn = w.turn(run_id).await;
    turn.timers = vec![
        World::timer("b", Duration::from_micros(1)),
        World::timer("a", Duration::from_secs(60)),
    ];
    w.committed(turn).await;
    let timer = |id: &str, wait| TimerRecord {
        run_id,
        timer_id: id.into(),
        fire_at: after(w.instant(), wait),
        epoch: 0,
    };
    assert_eq!(
        w.dump(run_id).await.timers,
        [
            timer("a", Duration::from_secs(60)),
            timer("b", Duration::from_micros(1))
        ]
    );
}

async fn instants_are_cut_to_microseconds(w: &World) {
    let run_id = w.start().await;
    let cut = w.instant();
    let mut turn = w.turn(run_id).await;
    turn.timers = vec![World::timer("t", Duration::from_nanos(1_999))];
    let finer = cut + Duration::from_nanos(999);
    one(w.store.commit_turns(vec![turn], Some(finer)).await);
    let dump = w.dump(run_id).await;
    assert_eq!(dump.run.updated_at, cut);
    assert_eq!(dump.events[0].created_at, cut);
    assert_eq!(dump.timers[0].fire_at, after(cut, Duration::from_micros(1)));
}

async fn times_saturate_instead_of_overflowing(w: &World) {
    let century = Duration::from_millis(everruns_durable::persistence::limits::DURATION_MS_MAX);
    let late = Timestamp::from_second(Timestamp::MAX.as_second() - 100).expect("before the end");
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.timers = vec![World::timer("t", century)];
    turn.tasks = vec![w.task("a")];
    turn.tasks[0].delay = Some(century);
    turn.tasks[0].options.schedule_to_close_timeout = Some(century);
    one(w.store.commit_turns(vec![turn], Some(late)).await);
    let dump = w.dump(run_id).await;
    let last = after(late, century);
    assert!(late < last && last < Timestamp::MAX);
    assert_eq!(dump.timers[0].fire_at, last);
    assert_eq!(dump.tasks[0].visible_at, last);
    assert_eq!(dump.tasks[0].close_deadline, Some(last));
}

async fn a_new_task_is_stored_whole(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    w.advance(Duration::from_secs(5));
    let mut new = w.task("a");
    new.input = json(r#"{"big": 9007199254740993}"#);
    new.options.schedule_to_close_timeout = Some(Duration::from_secs(90));
    new.options.heartbeat_timeout = Some(Duration::from_secs(3));
    new.options.priority = -7;
    new.options.retry_policy.non_retryable_errors = vec!["Fatal".into()];
    new.trace = Some(trace());
    let mut turn = w.turn(run_id).await;
    turn.events.push(turn.events[0].clone());
    turn.tasks = vec![w.parallel_task("before"), new.clone()];
    w.committed(turn).await;

    let stored = w.dump(run_id).await.tasks;
    let now = w.instant();
    let expected = TaskRecord {
        id: new.task_id,
        run_id,
        activity_id: "a".into(),
        activity_type: ACTIVITY.into(),
        input: new.input,
        options: new.options,
        status: TaskStatus::Pending,
        line: (3 << 20) + 1,
        epoch: 0,
        scheduled_at: now,
        visible_at: now,
        attempt: 0,
        deliveries: 0,
        claimed_by: None,
        claimed_at: None,
        token: None,
        lease_expires_at: None,
        heartbeat_at: None,
        heartbeat_details: Payload::ABSENT,
        close_deadline: Some(after(now, Duration::from_secs(90))),
        attempts: vec![],
        requeue_count: 0,
        trace: new.trace,
    };
    assert_eq!(stored[1], expected);
    assert_eq!(stored[0].line, 3 << 20);
}

async fn a_task_is_leased_to_the_committer_when_asked(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.task("a")];
    turn.tasks[0].lease = true;
    let task_id = turn.tasks[0].task_id;
    let turn_id = turn.turn_id;
    let now = w.instant();
    let committed = w.committed(turn).await;
    let lease = TaskLease {
        run_id,
        task_id,
        attempt: 1,
        token: turn_id,
    };
    assert_eq!(
        committed.tasks[0].place,
        TaskPlace::Leased {
            lease: lease.clone(),
            expires_at: after(now, LEASE),
            started_at: now,
        }
    );
    let stored = w.dump(run_id).await.tasks.remove(0);
    assert_eq!(stored.status, TaskStatus::Claimed);
    assert_eq!((stored.attempt, stored.deliveries), (1, 1));
    assert_eq!(stored.claimed_by.as_deref(), Some(WORKER));
    assert_eq!(
        (stored.claimed_at, stored.lease_expires_at),
        (Some(now), Some(after(now, LEASE)))
    );
    assert_eq!(stored.token, Some(turn_id));
    assert_eq!(w.claim(1).await, []);
    w.succeed(&lease).await;
}

async fn a_lease_is_not_given_without_a_request_nor_before_its_time(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.parallel_task("delayed"), w.parallel_task("not asked")];
    turn.tasks[0].lease = true;
    turn.tasks[0].delay = Some(Duration::from_secs(1));
    let places: Vec<_> = w.committed(turn).await.tasks;
    assert_eq!(places[0].place, TaskPlace::Waiting);
    assert_eq!(places[1].place, TaskPlace::Claimable);
    let stored = w.dump(run_id).await.tasks;
    assert_eq!(stored[0].status, TaskStatus::Delayed);
    assert_eq!(
        stored[0].visible_at,
        after(w.instant(), Duration::from_secs(1))
    );

    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.parallel_task("nobody to lease to")];
    turn.tasks[0].lease = true;
    turn.lease = None;
    assert_eq!(w.committed(turn).await.tasks[0].place, TaskPlace::Claimable);
}

impl World {
    /// Fails a task with a failure that is not retried.
    pub(super) async fn give_up(
        &self,
        lease: &TaskLease,
    ) -> everruns_durable::persistence::model::FinishOutcome {
        let failure = boom().non_retryable();
        self.report(
            lease,
            everruns_durable::persistence::model::TaskOutcome::Failed { failure },
        )
        .await
    }

    /// The tasks of a run that stand so, by activity id, in the order of the line.
    pub(super) async fn standing(&self, run_id: Uuid, status: TaskStatus) -> Vec<String> {
        let tasks = self.dump(run_id).await.tasks.into_iter();
        tasks
            .filter(|task| task.status == status)
            .map(|task| task.activity_id)
            .collect()
    }
}

async fn a_history_is_read_in_pages_bounded_in_bytes(w: &World) {
    let run_id = w.start().await;
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 64));
    let input = Payload::from_json_text(text).expect("JSON");
    let fits = HISTORY_PAGE_BYTES_MAX / PAYLOAD_BYTES_MAX;
    let count = i64::try_from(2 * fits + 1).expect("few");
    for _ in 0..count {
        let mut turn = w.turn(run_id).await;
        turn.events = vec![WorkflowEvent::WorkflowStarted {
            input: input.clone(),
        }];
        w.committed(turn).await;
    }
    let (mut numbers, mut pages) = (Vec::new(), 0);
    while numbers.last() != Some(&count) {
        let after = numbers.last().copied().unwrap_or(0);
        let page = w.store.load_history(run_id, after).await.expect("reads");
        let page = page.expect("the run exists");
        assert_eq!(page.run.sequence, count);
        let events = page.events.len();
        assert!(
            (1..=fits + 1).contains(&events),
            "{events} events in a page"
        );
        numbers.extend(page.events.iter().map(|event| event.sequence_num));
        pages += 1;
    }
    assert!(numbers.iter().copied().eq(1..=count), "{numbers:?}");
    assert!(pages > 1);
    let whole = whole_history(&*w.store, run_id, 0).await.expect("reads");
    assert_eq!(whole.expect("the run exists").events.len(), numbers.len());
}
