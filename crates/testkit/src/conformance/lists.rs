//! What operators read: filters, pages, counts, log lines.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{AttributeValue, Failure, Payload, RetryPolicy, WorkflowEvent};
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::limits::COUNT_ROWS_MAX;
use everruns_durable::persistence::model::{
    Attributes, BlockRun, ClosePolicy, CountLimit, DlqFilter, FinishOutcome, LogLevel,
    NewOutboxEvent, NewStepLog, NewTask, Page, RunCount, RunDump, RunFilter, RunMark, RunSummary,
    StartRun, StepLogFilter, StepLogRecord, StoreCounts, TaskFilter, TaskLease, TaskOutcome,
    TaskResult, TaskStatus, WorkflowStatus,
};
use uuid::Uuid;

use crate::World;
use crate::world::{ACTIVITY, json, one};

claims! { "lists":
    runs_are_listed_newest_first_in_pages,
    continuing_after_a_run_visits_every_run_once,
    a_page_has_at_least_one_and_at_most_a_thousand_rows,
    every_filter_of_runs_alone_finds_what_it_says,
    filters_of_runs_combined_find_what_all_of_them_say,
    the_count_of_runs_is_the_length_of_their_list,
    tasks_are_listed_in_queue_order_by_every_filter,
    log_lines_are_written_only_with_an_accepted_result,
    log_lines_are_listed_by_id_in_pages,
    a_log_line_id_used_twice_is_one_line,
    what_does_not_exist_reads_as_nothing,
    a_list_shows_runs_tasks_letters_and_schedules_without_payloads,
    runs_are_summarized_by_id,
    a_page_of_events_ends_before_it_is_too_large,
    a_page_of_log_lines_ends_before_it_is_too_large,
    following_next_visits_every_run_of_a_combination_once,
    a_capped_count_says_that_there_are_more,
    a_page_that_passes_over_too_many_rows_is_refused,
    counts_are_what_the_store_holds,
    a_figure_of_the_counts_is_cut_where_it_would_cost_too_much,
    what_waits_is_counted_up_to_a_number,
    marks_tell_where_runs_stand_in_the_order_asked_for,
}

const SECOND: Duration = Duration::from_secs(1);

async fn list(w: &World, filter: RunFilter, limit: usize, offset: usize) -> Vec<Uuid> {
    let runs = w.store.list_runs(filter, Page { limit, offset }).await;
    let runs = runs.expect("list_runs");
    runs.runs.into_iter().map(|run| run.id).collect()
}

pub(super) async fn all(w: &World, filter: &RunFilter) -> Vec<Uuid> {
    list(w, filter.clone(), 1000, 0).await
}

async fn start_many(w: &World, count: usize) -> Vec<Uuid> {
    let starts: Vec<StartRun> = (0..count).map(|_| w.new_start()).collect();
    let ids = starts.iter().map(|start| start.run_id).collect();
    let started = w.store.start_runs(starts, w.now()).await;
    assert_eq!(started.expect("start_runs").len(), count);
    ids
}

async fn runs_are_listed_newest_first_in_pages(w: &World) {
    let mut ids = start_many(w, 25).await;
    ids.reverse();
    let filter = RunFilter::default;
    assert_eq!(all(w, &filter()).await, ids);
    assert_eq!(list(w, filter(), 10, 0).await, ids[..10]);
    assert_eq!(list(w, filter(), 10, 10).await, ids[10..20]);
    assert_eq!(list(w, filter(), 10, 20).await, ids[20..]);
    assert_eq!(list(w, filter(), 10, 25).await, Vec::<Uuid>::new());
    let runs = w.store.list_runs(filter(), Page::default()).await;
    let newest = runs.expect("list_runs").runs.remove(0);
    assert_eq!(newest, RunSummary::from(&w.run(ids[0]).await));
}

async fn continuing_after_a_run_visits_every_run_once(w: &World) {
    let mut ids = start_many(w, 25).await;
    ids.reverse();
    let mut seen: Vec<Uuid> = Vec::new();
    loop {
        let filter = RunFilter {
            before: seen.last().copied(),
            ..RunFilter::default()
        };
        let page = list(w, filter, 4, 0).await;
        if page.is_empty() {
            break;
        }
        seen.extend(page);
        start_many(w, 1).await;
    }
    assert_eq!(seen, ids, "runs started meanwhile do not shift the pages");
}

async fn a_page_has_at_least_one_and_at_most_a_thousand_rows(w: &World) {
    let ids = start_many(w, 1001).await;
    assert_eq!(list(w, RunFilter::default(), 0, 0).await.len(), 1);
    assert_eq!(
        list(w, RunFilter::default(), usize::MAX, 0).await.len(),
        1000
    );
    assert_eq!(list(w, RunFilter::default(), 5000, 1000).await, ids[..1]);
    let count = w.store.count_runs(RunFilter::default(), CountLimit::Capped);
    assert_eq!(
        count.await.expect("count_runs").count,
        1001,
        "a count has no page"
    );
}

/// Runs of every status, two types, with and without parent, business id, attributes, blockage.
async fn many_kinds_of_runs(w: &World) -> Vec<RunDump> {
    let parent = w.start().await;
    for i in 0..24_u32 {
        let mut start = w.new_start();
        if i % 3 == 0 {
            start.workflow_type = "other".into();
        }
        if i % 4 < 2 {
            start.business_id = Some(format!("order-{}", i % 4));
        }
        if i % 2 == 0 {
            let tag = AttributeValue::Int(i64::from(i % 4));
            start.attributes.insert("tag".into(), tag);
        }
        let run_id = start.run_id;
        if i % 5 == 4 {
            let mut child = w.new_child(&format!("c{i}"), ClosePolicy::Cancel);
            child.start = start;
            w.ask_for_child(parent, child).await;
            w.relay().await;
        } else {
            w.start_one(start).await;
        }
        bring_to_status(w, run_id, i).await;
        w.advance(SECOND);
    }
    w.settle().await;
    w.everything().await.runs
}

async fn bring_to_status(w: &World, run_id: Uuid, i: u32) {
    let turn = w.turn(run_id).await;
    match i % 7 {
        0 | 1 => {}
        2 => drop(w.committed(turn).await),
        3 => drop(w.committed(World::completing(turn)).await),
        4 => drop(
            w.committed(World::failing(turn, Failure::new("Boom", "")))
                .await,
        ),
        5 => drop(w.committed(World::cancelling(turn)).await),
        _ => {
            let block = BlockRun {
                run_id,
                expected_sequence: 0,
                build: "build-1".into(),
                reason: "diverged".into(),
            };
            assert!(one(w.store.block_runs(vec![block], w.now()).await));
        }
    }
}

/// The filter, restated over what the store says it holds.
fn passes(filter: &RunFilter, all: &RunDump) -> bool {
    let run = &all.run;
    let is = |wanted: &Option<String>, found: Option<&String>| {
        wanted.is_none() || wanted.as_ref() == found
    };
    (filter.statuses.is_empty() || filter.statuses.contains(&run.status))
        && is(&filter.workflow_type, Some(&run.workflow_type))
        && is(&filter.business_id, run.business_id.as_ref())
        && filter
            .attributes
            .iter()
            .all(|(name, value)| all.attributes.get(name) == Some(value))
        && filter
            .parent
            .is_none_or(|id| run.parent.as_ref().is_some_and(|p| p.run_id == id))
        && filter
            .created_from
            .is_none_or(|from| run.created_at >= from)
        && filter
            .created_until
            .is_none_or(|until| run.created_at < until)
        && (!filter.blocked || run.blocked.is_some())
        && filter.before.is_none_or(|before| run.id < before)
}

/// One filter for each field, and what each changes.
fn single_filters(runs: &[RunDump]) -> Vec<(&'static str, RunFilter)> {
    let none = RunFilter::default;
    let middle = &runs[runs.len() / 2].run;
    let tag = Attributes::from([("tag".to_owned(), AttributeValue::Int(2))]);
    let mut filters = vec![
        ("type", {
            let workflow_type = Some("other".into());
            RunFilter {
                workflow_type,
                ..none()
            }
        }),
        ("business id", {
            let business_id = Some("order-1".into());
            RunFilter {
                business_id,
                ..none()
            }
        }),
        (
            "attributes",
            RunFilter {
                attributes: tag,
                ..none()
            },
        ),
        (
            "parent",
            RunFilter {
                parent: Some(runs[0].run.id),
                ..none()
            },
        ),
        ("from", {
            let created_from = Some(middle.created_at);
            RunFilter {
                created_from,
                ..none()
            }
        }),
        ("until", {
            let created_until = Some(middle.created_at);
            RunFilter {
                created_until,
                ..none()
            }
        }),
        (
            "blocked",
            RunFilter {
                blocked: true,
                ..none()
            },
        ),
        (
            "before",
            RunFilter {
                before: Some(middle.id),
                ..none()
            },
        ),
        ("two statuses", {
            let statuses = vec![WorkflowStatus::Pending, WorkflowStatus::Failed];
            RunFilter { statuses, ..none() }
        }),
    ];
    for status in WorkflowStatus::ALL {
        let statuses = vec![status];
        filters.push((status.as_str(), RunFilter { statuses, ..none() }));
    }
    filters
}

fn expected(runs: &[RunDump], filter: &RunFilter) -> Vec<Uuid> {
    let found = runs.iter().rev().filter(|run| passes(filter, run));
    found.map(|run| run.run.id).collect()
}

async fn every_filter_of_runs_alone_finds_what_it_says(w: &World) {
    let runs = many_kinds_of_runs(w).await;
    for (name, filter) in single_filters(&runs) {
        let expected = expected(&runs, &filter);
        assert!(
            !expected.is_empty() && expected.len() < runs.len(),
            "{name} tells runs apart"
        );
        assert_eq!(all(w, &filter).await, expected, "{name}");
    }
}

/// Both filters in one, where they are about different fields.
fn both(a: &RunFilter, b: &RunFilter) -> RunFilter {
    RunFilter {
        statuses: [a.statuses.clone(), b.statuses.clone()].concat(),
        workflow_type: a.workflow_type.clone().or(b.workflow_type.clone()),
        business_id: a.business_id.clone().or(b.business_id.clone()),
        attributes: a
            .attributes
            .clone()
            .into_iter()
            .chain(b.attributes.clone())
            .collect(),
        parent: a.parent.or(b.parent),
        created_from: a.created_from.or(b.created_from),
        created_until: a.created_until.or(b.created_until),
        blocked: a.blocked || b.blocked,
        before: a.before.or(b.before),
    }
}

async fn filters_of_runs_combined_find_what_all_of_them_say(w: &World) {
    let runs = many_kinds_of_runs(w).await;
    let filters = single_filters(&runs);
    let mut found = 0;
    for (first, a) in &filters {
        for (second, b) in &filters {
            let filter = both(a, b);
            let expected = expected(&runs, &filter);
            found += expected.len();
            assert_eq!(all(w, &filter).await, expected, "{first} and {second}");
        }
    }
    assert!(found > 100, "combinations find something");
    let everything = filters
        .iter()
        .fold(RunFilter::default(), |sum, (_, filter)| both(&sum, filter));
    assert_eq!(all(w, &everything).await, expected(&runs, &everything));
}

async fn the_count_of_runs_is_the_length_of_their_list(w: &World) {
    let runs = many_kinds_of_runs(w).await;
    for (name, filter) in single_filters(&runs) {
        let listed = all(w, &filter).await.len() as u64;
        for limit in [CountLimit::Capped, CountLimit::Exact] {
            let count = w.store.count_runs(filter.clone(), limit).await;
            let expected = RunCount {
                count: listed,
                exact: true,
            };
            assert_eq!(count.expect("count_runs"), expected, "{name}");
        }
    }
}

fn queued(w: &World, activity_id: &str, activity_type: &str, priority: i32) -> NewTask {
    let mut task = w.parallel_task(activity_id);
    task.activity_type = activity_type.into();
    task.options.priority = priority;
    task
}

async fn task_names(w: &World, filter: TaskFilter, page: Page) -> Vec<String> {
    let tasks = w.store.list_tasks(filter, page).await.expect("list_tasks");
    tasks.into_iter().map(|task| task.activity_id).collect()
}

async fn tasks_are_listed_in_queue_order_by_every_filter(w: &World) {
    let first = w
        .start_with_tasks(vec![
            queued(w, "low", ACTIVITY, -1),
            queued(w, "early", ACTIVITY, 0),
            queued(w, "urgent", "other", 5),
        ])
        .await;
    assert_eq!(w.claim_one().await.activity_id, "early");
    w.advance(SECOND);
    let mut delayed = queued(w, "delayed", ACTIVITY, 0);
    delayed.delay = Some(SECOND);
    let second = w
        .start_with_tasks(vec![delayed, queued(w, "late", ACTIVITY, 0)])
        .await;

    let every = TaskFilter::default;
    let page = Page::default();
    let queue = ["urgent", "early", "late", "delayed", "low"];
    assert_eq!(task_names(w, every(), page).await, queue);
    let of_run = TaskFilter {
        run_id: Some(second),
        ..every()
    };
    assert_eq!(task_names(w, of_run, page).await, ["late", "delayed"]);
    let of_type = TaskFilter {
        activity_type: Some("other".into()),
        ..every()
    };
    assert_eq!(task_names(w, of_type, page).await, ["urgent"]);
    let of_status = TaskFilter {
        status: Some(TaskStatus::Pending),
        ..every()
    };
    let names = task_names(w, of_status.clone(), page).await;
    assert_eq!(names, ["urgent", "late", "low"]);
    let combined = TaskFilter {
        run_id: Some(first),
        activity_type: Some(ACTIVITY.into()),
        ..of_status
    };
    assert_eq!(task_names(w, combined, page).await, ["low"]);
    let middle = Page {
        limit: 2,
        offset: 1,
    };
    assert_eq!(task_names(w, every(), middle).await, ["early", "late"]);
    let tasks = w.store.list_tasks(every(), page).await.expect("list_tasks");
    let urgent = w.queued(first, "urgent").await.expect("it is queued");
    assert_eq!(tasks[0], urgent.listed());
    for (at, task) in tasks.iter().enumerate() {
        let behind = TaskFilter {
            after: Some(task.rank()),
            ..every()
        };
        assert_eq!(task_names(w, behind, page).await, queue[at + 1..]);
    }
}

fn log(w: &World, message: &str) -> NewStepLog {
    NewStepLog {
        id: w.id(),
        activity_id: "a".into(),
        attempt: 1,
        level: LogLevel::Warn,
        message: message.into(),
        meta: json("{\"a\":1e400}"),
    }
}

async fn finish_with_logs(w: &World, lease: &TaskLease, logs: Vec<NewStepLog>) -> FinishOutcome {
    let result = TaskResult {
        lease: lease.clone(),
        outcome: TaskOutcome::Completed { result: json("2") },
        jitter: 0.5,
        step_logs: logs,
    };
    one(w.store.finish_tasks(vec![result], w.now()).await)
}

async fn logs(w: &World, run_id: Uuid, page: Page) -> Vec<StepLogRecord> {
    let of_run = StepLogFilter::of_run(run_id);
    let logs = w.store.list_step_logs(of_run, page).await;
    logs.expect("list_step_logs").lines
}

async fn log_lines_are_written_only_with_an_accepted_result(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let claimed = w.claim_one().await;
    let mut stale = claimed.lease.clone();
    stale.token = w.id();
    let lost = finish_with_logs(w, &stale, vec![log(w, "stale")]).await;
    assert_eq!(lost, FinishOutcome::LeaseLost);
    assert_eq!(logs(w, run_id, Page::default()).await, []);
    w.advance(SECOND);
    let line = log(w, "done");
    finish_with_logs(w, &claimed.lease, vec![line.clone()]).await;
    let expected = StepLogRecord {
        id: line.id,
        run_id,
        activity_id: line.activity_id,
        attempt: 1,
        level: LogLevel::Warn,
        message: "done".into(),
        meta: line.meta,
        created_at: w.instant(),
    };
    assert_eq!(logs(w, run_id, Page::default()).await, [expected]);
}

async fn log_lines_are_listed_by_id_in_pages(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let claimed = w.claim_one().await;
    let mut lines: Vec<NewStepLog> = LogLevel::ALL
        .into_iter()
        .map(|level| {
            let mut line = log(w, level.as_str());
            line.level = level;
            line
        })
        .collect();
    lines.reverse();
    finish_with_logs(w, &claimed.lease, lines[..2].to_vec()).await;
    let mut turn = w.turn(run_id).await;
    turn.step_logs = lines[2..].to_vec();
    w.committed(turn).await;
    let mut listed = Vec::new();
    for offset in [0, 3] {
        let page = Page { limit: 3, offset };
        let page = logs(w, run_id, page).await;
        listed.extend(page.into_iter().map(|line| line.level));
    }
    assert_eq!(listed, LogLevel::ALL);
}

async fn a_log_line_id_used_twice_is_one_line(w: &World) {
    let run_id = w.start().await;
    let first = log(w, "first");
    for message in ["first", "second"] {
        let mut turn = w.turn(run_id).await;
        turn.step_logs = vec![NewStepLog {
            message: message.into(),
            ..first.clone()
        }];
        w.committed(turn).await;
    }
    let lines = logs(w, run_id, Page::default()).await;
    assert_eq!((lines.len(), lines[0].message.as_str()), (1, "first"));
}

async fn what_does_not_exist_reads_as_nothing(w: &World) {
    let nobody = w.id();
    let store = &w.store;
    assert_eq!(store.get_run(nobody).await.expect("get_run"), None);
    let turns = store.load_turns(&[nobody]).await.expect("load_turns");
    assert_eq!(turns, [None]);
    let history = store.load_history(nobody, 0).await;
    assert_eq!(history.expect("load_history"), None);
    let attributes = store.get_attributes(nobody).await;
    assert_eq!(attributes.expect("get_attributes"), Attributes::new());
    assert_eq!(logs(w, nobody, Page::default()).await, []);
    let update = store.get_update(nobody, "u").await;
    assert_eq!(update.expect("get_update"), None);
    assert_eq!(store.get_once("k").await.expect("get_once"), None);
    assert_eq!(store.get_breaker("k").await.expect("get_breaker"), None);
    assert_eq!(store.get_schedule("s").await.expect("get_schedule"), None);
    let counts = store.counts().await.expect("counts");
    assert_eq!(counts, StoreCounts::default());
}

async fn counts_are_what_the_store_holds(w: &World) {
    let since = w.instant();
    let busy = w
        .start_with_tasks(vec![w.task("a"), w.task("b"), queued(w, "c", "other", 0)])
        .await;
    w.advance(SECOND);
    let mut dying = w.parallel_task("a");
    dying.options.retry_policy = RetryPolicy::never();
    let done = w.start_with_tasks(vec![dying]).await;
    let mut claim = w.new_claim(10);
    claim.activity_types = vec![ACTIVITY.into()];
    let claimed = w.store.claim_tasks(claim).await.expect("claim_tasks");
    for task in claimed.iter().filter(|task| task.lease.run_id == done) {
        w.fail(&task.lease).await;
    }
    let mut turn = World::completing(w.turn(done).await);
    turn.outbox = vec![NewOutboxEvent {
        id: w.id(),
        event_type: "order.paid".into(),
        payload: json("1"),
        idempotency_key: None,
    }];
    w.committed(turn).await;
    let pending = w.start().await;
    bring_to_status(w, pending, 6).await;
    w.ask_for_child(busy, w.new_child("child", ClosePolicy::Cancel))
        .await;
    let expected = StoreCounts {
        runs: BTreeMap::from([(WorkflowStatus::Pending, 1), (WorkflowStatus::Running, 1)]),
        tasks: BTreeMap::from([
            (
                ACTIVITY.to_owned(),
                BTreeMap::from([(TaskStatus::Claimed, 1), (TaskStatus::InLine, 1)]),
            ),
            (
                "other".to_owned(),
                BTreeMap::from([(TaskStatus::Pending, 1)]),
            ),
        ]),
        oldest_pending_at: Some(since),
        dead_letters: 1,
        messages: 1,
        outbox_pending: 1,
        blocked_runs: 1,
        exact: true,
    };
    assert_eq!(w.store.counts().await.expect("counts"), expected);
}

async fn a_figure_of_the_counts_is_cut_where_it_would_cost_too_much(w: &World) {
    let over = usize::try_from(COUNT_ROWS_MAX).expect("small") + 1;
    let mut tasks: Vec<_> = (0..over).map(|_| w.parallel_task("many")).collect();
    for (n, task) in tasks.iter_mut().enumerate() {
        task.activity_id = format!("many {n}");
    }
    let since = w.instant();
    w.start_with_tasks(tasks).await;
    w.advance(SECOND);
    w.start_with_tasks(vec![queued(w, "few", "zz few", 5)])
        .await;
    let counts = w.store.counts().await.expect("counts");
    assert!(!counts.exact, "{counts:?}");
    assert_eq!(
        counts.tasks[ACTIVITY][&TaskStatus::Pending],
        COUNT_ROWS_MAX,
        "the largest number that is told"
    );
    assert_eq!(
        counts.tasks["zz few"][&TaskStatus::Pending],
        1,
        "a type is not hidden by another one"
    );
    assert_eq!(counts.oldest_pending_at, Some(since));
}

async fn what_waits_is_counted_up_to_a_number(w: &World) {
    let waiting = async |at_most| {
        let count = w.store.count_waiting(at_most).await;
        count.expect("count_waiting")
    };
    assert_eq!(waiting(10).await, 0);
    // Neither a run under way nor a task in line or claimed waits; nor does what has ended.
    w.start_with_tasks(vec![w.task("a"), w.task("b"), w.parallel_task("c")])
        .await;
    w.start_with_tasks(vec![w.parallel_task("d")]).await;
    w.claim_one().await;
    let done = w.start().await;
    w.committed(World::completing(w.turn(done).await)).await;
    assert_eq!(waiting(10).await, 2);
    for _ in 0..3 {
        w.start().await;
    }
    assert_eq!(waiting(10).await, 5);
    assert_eq!(waiting(u64::MAX).await, 5);
    for at_most in [1, 2, 4] {
        assert_eq!(waiting(at_most).await, at_most);
    }
    assert_eq!(waiting(0).await, 1, "clamped");
}

/// A payload of this many bytes.
fn large(bytes: usize) -> Payload {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

const MEGABYTE: usize = 1024 * 1024;
/// The largest payload, with room for what a codec adds.
const LARGEST: usize = 4 * MEGABYTE - 1024;

async fn a_list_shows_runs_tasks_letters_and_schedules_without_payloads(w: &World) {
    let mut start = w.new_start();
    (start.input, start.memo) = (large(MEGABYTE), large(MEGABYTE));
    let run_id = w.start_one(start).await;
    let mut failing = w.parallel_task("fails");
    failing.input = large(MEGABYTE);
    failing.options.retry_policy = RetryPolicy::never();
    let mut retried = w.parallel_task("retried");
    retried.input = large(MEGABYTE);
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![failing, retried];
    w.committed(turn).await;
    let message = format!("{}\u{1F600}", "m".repeat(2000));
    for claimed in w.claim(2).await {
        let failure = Failure::new("Broken", message.clone())
            .with_details(large(2000))
            .with_cause(Failure::new("Cause", "c"));
        let result = TaskResult {
            lease: claimed.lease,
            outcome: TaskOutcome::Failed { failure },
            jitter: 0.5,
            step_logs: Vec::new(),
        };
        one(w.store.finish_tasks(vec![result], w.now()).await);
    }
    let brief = Failure::new("Broken", "m".repeat(1024));
    let tasks = w.store.list_tasks(TaskFilter::default(), Page::default());
    let task = tasks.await.expect("list_tasks").remove(0);
    assert_eq!(task.input, Payload::ABSENT);
    assert_eq!(task.attempts.len(), 1);
    assert_eq!(task.attempts[0].failure, brief);
    let whole = w.queued(run_id, "retried").await.expect("it is retried");
    assert_eq!(task, whole.listed());
    let letters = w.store.list_dlq(DlqFilter::default(), Page::default());
    let letter = letters.await.expect("list_dlq").remove(0);
    assert_eq!(
        (&letter.input, &letter.last_error),
        (&Payload::ABSENT, &brief)
    );
    assert_eq!(letter.error_history, []);
    let whole = w
        .store
        .get_dead_letter(letter.id)
        .await
        .expect("get_dead_letter");
    let whole = whole.expect("it is listed");
    assert_eq!(whole.input, large(MEGABYTE));
    assert_eq!(whole.error_history.len(), 1);
    assert_eq!(whole.listed(), letter);
    let runs = w.store.list_runs(RunFilter::default(), Page::default());
    let runs = runs.await.expect("list_runs").runs;
    assert_eq!(runs, [RunSummary::from(&w.run(run_id).await)]);
}

async fn runs_are_summarized_by_id(w: &World) {
    let ids = start_many(w, 3).await;
    let asked = [ids[2], w.id(), ids[0], ids[2]];
    let found = w
        .store
        .summarize_runs(&asked)
        .await
        .expect("summarize_runs");
    let ids_found: Vec<Option<Uuid>> = found.iter().map(|run| Some(run.as_ref()?.id)).collect();
    assert_eq!(ids_found, [Some(ids[2]), None, Some(ids[0]), Some(ids[2])]);
    let first = RunSummary::from(&w.run(ids[0]).await);
    assert_eq!(found[2], Some(first));
}

async fn a_page_of_events_ends_before_it_is_too_large(w: &World) {
    let run_id = w.start().await;
    let before = w.run(run_id).await.sequence;
    let sizes = [5 * MEGABYTE / 2, MEGABYTE, LARGEST, LARGEST, 10, 10];
    let mut turn = w.turn(run_id).await;
    turn.events = sizes
        .iter()
        .map(|size| WorkflowEvent::SideEffectRecorded {
            effect_id: "e".into(),
            value: large(*size),
        })
        .collect();
    w.committed(turn).await;
    let mut pages = Vec::new();
    let mut after = before;
    loop {
        let page = w.store.list_events(run_id, after, 1000).await;
        let page = page.expect("list_events").expect("the run exists");
        let Some(last) = page.events.last() else {
            break;
        };
        after = last.sequence_num;
        pages.push(page.events.len());
    }
    assert_eq!(pages, [3, 3], "7.5 MB, then 4 MB and the small ones");
}

async fn a_page_of_log_lines_ends_before_it_is_too_large(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let claimed = w.claim_one().await;
    let sizes = [LARGEST, 3 * MEGABYTE, 2 * MEGABYTE, 10];
    let lines = sizes.map(|size| {
        let mut line = log(w, "large");
        line.meta = large(size);
        line
    });
    finish_with_logs(w, &claimed.lease, lines.to_vec()).await;
    let mut pages = Vec::new();
    let mut filter = StepLogFilter::of_run(run_id);
    loop {
        let page = w.store.list_step_logs(filter, Page::first(1000)).await;
        let page = page.expect("list_step_logs");
        pages.push((page.lines.len(), page.more));
        filter.after = page.lines.last().map(|line| line.id);
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, [(2, true), (2, false)]);
    let full = w
        .store
        .list_step_logs(StepLogFilter::of_run(run_id), Page::first(1));
    let full = full.await.expect("list_step_logs");
    assert_eq!((full.lines.len(), full.more), (1, true));
}

async fn following_next_visits_every_run_of_a_combination_once(w: &World) {
    let runs = many_kinds_of_runs(w).await;
    let filters = single_filters(&runs);
    for (first, a) in &filters {
        for (second, b) in &filters {
            let filter = both(a, b);
            let mut seen = Vec::new();
            let mut rest = filter.clone();
            loop {
                let page = w.store.list_runs(rest.clone(), Page::first(2)).await;
                let page = page.expect("list_runs");
                seen.extend(page.runs.into_iter().map(|run| run.id));
                rest.before = page.next;
                if page.next.is_none() {
                    break;
                }
            }
            let expected = expected(&runs, &filter);
            assert_eq!(seen, expected, "{first} and {second}");
        }
    }
}

async fn a_capped_count_says_that_there_are_more(w: &World) {
    for _ in 0..2 {
        start_many(w, 5000).await;
    }
    let count = async |limit| {
        let count = w.store.count_runs(RunFilter::default(), limit).await;
        let count = count.expect("count_runs");
        (count.count, count.exact)
    };
    assert_eq!(count(CountLimit::Capped).await, (10_000, true));
    start_many(w, 3).await;
    assert_eq!(count(CountLimit::Capped).await, (10_000, false));
    assert_eq!(count(CountLimit::Exact).await, (10_003, true));
}

async fn a_page_that_passes_over_too_many_rows_is_refused(w: &World) {
    let far = Page {
        limit: 1,
        offset: 10_001,
    };
    let refused = [
        w.store.list_runs(RunFilter::default(), far).await.err(),
        w.store.list_tasks(TaskFilter::default(), far).await.err(),
        w.store.list_dlq(DlqFilter::default(), far).await.err(),
        w.store.list_schedules(Default::default(), far).await.err(),
    ];
    for error in refused {
        let error = error.expect("it is refused");
        assert!(matches!(error, StoreError::Limit { .. }), "{error}");
    }
}

async fn marks_tell_where_runs_stand_in_the_order_asked_for(w: &World) {
    let open = w.start_with_tasks(vec![w.task("a")]).await;
    let done = w.start().await;
    w.committed(World::completing(w.turn(done).await)).await;
    let marks = async |ids: &[Uuid]| w.store.run_marks(ids).await.expect("run_marks");
    assert_eq!(marks(&[]).await, []);
    let mut expected = Vec::new();
    for id in [done, open, done] {
        let run = w.store.get_run(id).await.expect("get_run");
        expected.push(run.map(|run| RunMark {
            status: run.status,
            sequence: run.sequence,
        }));
    }
    expected.push(None);
    assert_eq!(marks(&[done, open, done, w.id()]).await, expected);
}
