//! What another transaction holds locked delays that alone: on PostgreSQL, with a second connection
//! that holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use durable_core::WorkflowEvent;
use durable_testkit::postgres::TestDatabase;
use durable_testkit::world::{LEASE, World};
use everruns_durable::admin::Wait;
use everruns_durable::persistence::limits::CLOSED_CHILDREN_MAX;
use everruns_durable::persistence::model::{
    ClosePolicy, FinishOutcome, FireDue, LeaseExtension, LeaseState, OutSignal, OverlapPolicy,
    RelayMessages, ScheduleRecord, SendOutcome, TaskLease, TaskOutcome, TaskResult, TurnOutcome,
};
use everruns_durable::persistence::{Shards, StoreError};
use everruns_durable::prelude::*;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// A world on a database of its own, and a connection beside it.
async fn world() -> (World, Client, TestDatabase) {
    let database = TestDatabase::create(Shards::new(1)).await.unwrap();
    let store = database.open(false).await.unwrap();
    let other = connect(&database).await;
    (World::new(store), other, database)
}

async fn connect(database: &TestDatabase) -> Client {
    let url = database.url().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Opens a transaction that holds these runs until it is rolled back.
async fn hold(other: &Client, runs: &[Uuid]) {
    other.batch_execute("BEGIN").await.unwrap();
    let sql = "SELECT id FROM durable.durable_workflow_instances WHERE id = ANY($1) FOR UPDATE";
    let held = other.query(sql, &[&runs.to_vec()]).await.unwrap();
    assert_eq!(held.len(), runs.len());
}

async fn let_go(other: &Client) {
    other.batch_execute("ROLLBACK").await.unwrap();
}

fn extension(lease: &TaskLease) -> LeaseExtension {
    LeaseExtension {
        lease: lease.clone(),
        extend: LEASE,
        heartbeat: None,
    }
}

fn completed(lease: &TaskLease) -> TaskResult {
    TaskResult {
        lease: lease.clone(),
        outcome: TaskOutcome::Completed {
            result: Payload::null(),
        },
        jitter: 0.0,
        step_logs: Vec::new(),
    }
}

fn busy(error: StoreError) -> Vec<Uuid> {
    match error {
        StoreError::Busy { runs } => runs,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn leases_are_renewed_while_a_run_is_locked_and_a_locked_task_is_not_called_lost() {
    let (w, other, database) = world().await;
    let mut leases = Vec::new();
    for _ in 0..3 {
        w.start_with_tasks(vec![w.task("a")]).await;
        leases.push(w.claim_one().await.lease);
    }
    hold(&other, &[leases[0].run_id]).await;
    let extensions: Vec<_> = leases.iter().map(extension).collect();
    let extend = || w.store.extend_leases(extensions.clone(), w.now());
    let holds = |state: &LeaseState| matches!(state, LeaseState::Extended { .. });
    let states = extend().await.unwrap();
    assert!(states.iter().all(holds), "by the tasks alone: {states:?}");

    let sql = "SELECT id FROM durable.durable_task_queue WHERE id = $1 FOR UPDATE";
    other.query(sql, &[&leases[1].task_id]).await.unwrap();
    let states = extend().await.unwrap();
    assert_eq!(states[1], LeaseState::Unknown);
    assert!(holds(&states[0]) && holds(&states[2]), "{states:?}");
    let_go(&other).await;
    assert!(extend().await.unwrap().iter().all(holds));
    database.remove().await;
}

/// Where the large values of queued tasks are stored: a value that is written anew gets another
/// place.
async fn large_values(other: &Client) -> Vec<u32> {
    let table = "SELECT reltoastrelid::regclass::text FROM pg_class
         WHERE oid = 'durable.durable_task_queue'::regclass";
    let table: String = other.query_one(table, &[]).await.unwrap().get(0);
    let places = format!("SELECT DISTINCT chunk_id FROM {table} ORDER BY 1");
    let places = other.query(&places, &[]).await.unwrap();
    places.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_renewal_a_release_and_a_retry_write_no_payload_that_they_did_not_bring() {
    let (w, other, database) = world().await;
    let large = |n: u32| {
        let numbers: Vec<String> = (0..4000_u32)
            .map(|i| i.wrapping_add(n).wrapping_mul(2_654_435_761).to_string())
            .collect();
        durable_testkit::world::json(&format!("[{}]", numbers.join(",")))
    };
    let mut task = w.task("a");
    task.input = large(1);
    let run = w.start_with_tasks(vec![task]).await;
    let mut lease = w.claim_one().await.lease;
    w.extend(&lease, Some(large(2))).await;
    let stored = large_values(&other).await;
    assert_eq!(stored.len(), 2, "the input and the details");

    w.extend(&lease, None).await;
    assert_eq!(large_values(&other).await, stored, "renewed");
    w.release(&lease).await;
    assert_eq!(large_values(&other).await, stored, "released");
    lease = w.claim_one().await.lease;
    w.fail(&lease).await;
    assert_eq!(large_values(&other).await, stored, "to be tried again");
    let task = w.queued(run, "a").await.expect("it is tried again");
    assert_eq!(task.heartbeat_details, large(2));
    assert_eq!(task.attempts.len(), 1);
    database.remove().await;
}

#[tokio::test]
async fn a_heartbeat_that_comes_with_a_failure_is_kept_for_the_next_attempt() {
    let (w, _other, database) = world().await;
    let run = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let details = durable_testkit::world::json("[1]");
    w.extend(&lease, Some(details.clone())).await;
    w.fail(&lease).await;
    let task = w.queued(run, "a").await.expect("it is tried again");
    assert_eq!(task.heartbeat_details, details);
    database.remove().await;
}

#[tokio::test]
async fn timers_behind_more_locked_runs_than_fit_into_a_batch_fire_and_the_locked_ones_come_later()
{
    let (w, other, database) = world().await;
    let mut locked = Vec::new();
    for n in 0..5 {
        let run = w.start().await;
        w.set_timer(run, "t", Duration::from_secs(1 + n)).await;
        locked.push(run);
    }
    let free = w.start().await;
    w.set_timer(free, "t", Duration::from_secs(30)).await;
    let later = w.start().await;
    w.set_timer(later, "t", Duration::from_secs(90)).await;
    w.advance(Duration::from_secs(60));
    hold(&other, &locked).await;
    let fire = || {
        w.store.fire_due(FireDue {
            max: 2,
            first_shard: 0,
            jitter: 0.5,
            now: w.now(),
        })
    };
    let fired = fire().await.unwrap();
    assert_eq!((fired.timers, fired.put_off), (1, 5));
    assert_eq!(fired.ready_runs, [free]);
    let next = fired.next_due.expect("the timer of the last one");
    assert!(
        next > w.instant(),
        "what is locked is not asked for at once"
    );
    let_go(&other).await;
    let mut timers = 0;
    while timers < 5 {
        let fired = fire().await.unwrap();
        assert!(fired.timers > 0 && fired.put_off == 0, "{fired:?}");
        timers += fired.timers;
    }
    database.remove().await;
}

#[tokio::test]
async fn deadlines_clocks_and_leases_of_other_runs_run_out_while_one_is_locked() {
    let (w, other, database) = world().await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut start = w.new_start();
        start.run_timeout = Some(Duration::from_secs(5));
        runs.push(w.start_one(start).await);
    }
    let mut leases = Vec::new();
    for _ in 0..2 {
        w.start_with_tasks(vec![w.task("a")]).await;
        leases.push(w.claim_one().await.lease);
    }
    w.advance(LEASE * 2);
    hold(&other, &[runs[0], leases[0].run_id]).await;
    let fired = w.fire_due().await;
    assert_eq!(fired.runs_timed_out, [runs[1]]);
    let reaped: Vec<Uuid> = w.reap().await.iter().map(|task| task.run_id).collect();
    assert_eq!(reaped, [leases[1].run_id]);
    let_go(&other).await;
    assert_eq!(w.fire_due().await.runs_timed_out, [runs[0]]);
    let reaped: Vec<Uuid> = w.reap().await.iter().map(|task| task.run_id).collect();
    assert_eq!(reaped, [leases[0].run_id]);
    database.remove().await;
}

#[tokio::test]
async fn a_set_of_turns_is_told_which_runs_are_locked_and_goes_through_without_them() {
    let (w, other, database) = world().await;
    let runs = [w.start().await, w.start().await, w.start().await];
    let mut turns = Vec::new();
    for run in runs {
        turns.push(World::completing(w.turn(run).await));
    }
    hold(&other, &[runs[1]]).await;
    let all = w.store.commit_turns(turns.clone(), w.now()).await;
    assert_eq!(busy(all.unwrap_err()), [runs[1]]);
    // It is known now, and not waited for again.
    let again = w.store.commit_turns(turns.clone(), w.now()).await;
    assert_eq!(busy(again.unwrap_err()), [runs[1]]);
    let locked = turns.remove(1);
    let others = w.store.commit_turns(turns, w.now()).await.unwrap();
    let is_committed = |outcome: &TurnOutcome| matches!(outcome, TurnOutcome::Committed(_));
    assert!(others.iter().all(is_committed), "{others:?}");
    let_go(&other).await;
    let then = w.store.commit_turns(vec![locked], w.now()).await.unwrap();
    assert!(then.iter().all(is_committed), "{then:?}");
    database.remove().await;
}

#[tokio::test]
async fn a_set_of_results_is_told_which_runs_are_locked_and_goes_through_without_them() {
    let (w, other, database) = world().await;
    let mut leases = Vec::new();
    for _ in 0..2 {
        w.start_with_tasks(vec![w.task("a")]).await;
        leases.push(w.claim_one().await.lease);
    }
    hold(&other, &[leases[0].run_id]).await;
    let results: Vec<TaskResult> = leases.iter().map(completed).collect();
    let all = w.store.finish_tasks(results.clone(), w.now()).await;
    assert_eq!(busy(all.unwrap_err()), [leases[0].run_id]);
    let is_recorded = |outcome: &FinishOutcome| matches!(outcome, FinishOutcome::Recorded { .. });
    let one = w.store.finish_tasks(results[1..].to_vec(), w.now()).await;
    assert!(one.unwrap().iter().all(is_recorded));
    let_go(&other).await;
    let other_one = w.store.finish_tasks(results[..1].to_vec(), w.now()).await;
    assert!(other_one.unwrap().iter().all(is_recorded));
    database.remove().await;
}

/// A run that has said these signals to these runs.
async fn sender(w: &World, to: &[(Uuid, &str)]) -> Uuid {
    let run = w.start().await;
    let mut turn = w.turn(run).await;
    let signal = |(run_id, name): &(Uuid, &str)| OutSignal {
        run_id: *run_id,
        signal: w.new_signal(name),
    };
    turn.signals = to.iter().map(signal).collect();
    w.committed(turn).await;
    run
}

#[tokio::test]
async fn messages_to_other_runs_arrive_while_one_is_locked_and_none_overtakes_another() {
    let (w, other, database) = world().await;
    let (locked, free) = (w.start().await, w.start().await);
    let (first, second) = (w.start().await, w.start().await);
    // What is said after the message that waits, waits too; what was said before arrives.
    sender(
        &w,
        &[(first, "before"), (locked, "waits"), (second, "after")],
    )
    .await;
    for _ in 0..4 {
        sender(&w, &[(free, "other")]).await;
    }
    hold(&other, &[locked]).await;
    let relay = || {
        w.store.relay_messages(RelayMessages {
            max: 3,
            first_shard: 0,
            now: w.now(),
        })
    };
    let (mut delivered, mut put_off) = (0, 0);
    for _ in 0..3 {
        let relayed = relay().await.unwrap();
        delivered += relayed.delivered;
        put_off = relayed.put_off;
    }
    assert_eq!((delivered, put_off), (5, 1));
    let told = |run| {
        let w = &w;
        async move { w.waiting_events(run).await.len() }
    };
    assert_eq!(
        (told(first).await, told(second).await, told(free).await),
        (1, 0, 4)
    );
    let_go(&other).await;
    let relayed = relay().await.unwrap();
    assert_eq!((relayed.delivered, relayed.put_off), (2, 0));
    assert_eq!((told(locked).await, told(second).await), (1, 1));
    database.remove().await;
}

#[tokio::test]
async fn what_was_sent_to_a_locked_run_is_busy_and_others_are_not_kept_waiting() {
    let (w, other, database) = world().await;
    let (locked, free) = (w.start().await, w.start().await);
    hold(&other, &[locked]).await;
    let send = |run_id| everruns_durable::persistence::model::SendSignal {
        run_id,
        signal: w.new_signal("s"),
    };
    let set = vec![send(locked), send(free)];
    let error = w.store.send_signals(set, w.now()).await.unwrap_err();
    assert!(error.is_retryable() && !error.is_outcome_unknown());
    assert_eq!(busy(error), [locked]);
    let sent = w.signal(free, "s").await;
    assert!(matches!(sent, SendOutcome::Accepted { .. }));
    let_go(&other).await;
    let sent = w.signal(locked, "s").await;
    assert!(matches!(sent, SendOutcome::Accepted { .. }));
    database.remove().await;
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_at_last_lets_a_termination_through() {
    let (w, other, database) = world().await;
    let run = w.start().await;
    hold(&other, &[run]).await;
    let store = Arc::clone(&w.store);
    let now = w.now();
    let terminate = tokio::spawn(async move {
        let end = everruns_durable::persistence::model::TerminateRun {
            run_id: run,
            reason: "so be it".to_owned(),
        };
        store.terminate_runs(vec![end], now).await
    });
    // It waits: it is one write, and no other call waits for it.
    waits_for_a_lock(&database).await;
    let_go(&other).await;
    assert!(terminate.await.unwrap().is_ok());
    database.remove().await;
}

/// Returns once a connection of the store's has been seen waiting for a lock.
async fn waits_for_a_lock(database: &TestDatabase) {
    let observer = connect(database).await;
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while observer.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

/// Lets every fact for these runs fail.
async fn poison(other: &Client, runs: &[Uuid]) {
    let list: Vec<String> = runs.iter().map(|run| format!("'{run}'")).collect();
    let sql = format!(
        "CREATE OR REPLACE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'poisoned'; END $$;
         CREATE TRIGGER poison BEFORE INSERT ON durable.durable_inbox FOR EACH ROW
         WHEN (NEW.workflow_id IN ({})) EXECUTE FUNCTION poison()",
        list.join(", ")
    );
    other.batch_execute(&sql).await.unwrap();
}

async fn cure(other: &Client) {
    let sql = "DROP TRIGGER poison ON durable.durable_inbox";
    other.batch_execute(sql).await.unwrap();
}

#[tokio::test]
async fn a_timer_that_cannot_be_fired_is_set_aside_with_a_reason_and_the_others_fire_in_the_same_call()
 {
    let (w, other, database) = world().await;
    let mut runs = Vec::new();
    for n in 0..9 {
        let run = w.start().await;
        w.set_timer(run, "t", Duration::from_secs(1 + n)).await;
        runs.push(run);
    }
    let (first, second) = (runs[2], runs[5]);
    poison(&other, &[first, second]).await;
    w.advance(Duration::from_secs(60));
    let fired = w.fire_due().await;
    assert_eq!(fired.timers, 7);
    let asides = w.store.asides().expect("it sets things aside");
    let list = asides.list();
    let mut set_aside: Vec<Uuid> = list.iter().map(|aside| aside.run_id).collect();
    set_aside.sort_unstable();
    let mut poisoned = vec![first, second];
    poisoned.sort_unstable();
    assert_eq!(set_aside, poisoned);
    assert!(list[0].reason.contains("poisoned"), "{}", list[0].reason);
    assert_eq!(fired.next_due, Some(list[0].next_try), "and not at once");

    // Tried again by itself, it fails again, and is left alone for longer.
    w.advance(Duration::from_secs(2));
    assert_eq!(w.fire_due().await.timers, 0);
    assert_eq!(asides.list()[0].attempts, 2);
    cure(&other).await;
    assert_eq!(w.fire_due().await.timers, 0, "its time has not come");
    let client = everruns_durable::Client::on(Arc::clone(&w.store));
    let listed = client.set_aside();
    let aside = listed.iter().find(|aside| aside.run_id == first).unwrap();
    let reason = Wait::SetAside(aside.clone()).to_string();
    assert!(
        reason.starts_with("its timer, which failed 2 times"),
        "{reason}"
    );
    assert!(reason.contains("poisoned"), "{reason}");
    assert_eq!(listed, asides.list());
    assert!(
        client.retry_set_aside(first),
        "an operator wants it tried now"
    );
    assert!(
        !client.retry_set_aside(first),
        "nothing of it is set aside any more"
    );
    assert_eq!(w.fire_due().await.timers, 1);
    w.advance(Duration::from_secs(60));
    assert_eq!(w.fire_due().await.timers, 1, "the other comes by itself");
    assert_eq!(asides.list(), []);
    database.remove().await;
}

#[workflow]
async fn wait_for_a_word(ctx: WorkflowContext, _input: ()) -> WorkflowResult<String> {
    ctx.signal::<String>("word").await
}

/// Each committer meets a run whose events cannot be written: the other runs go on, and the two are
/// listed until they go through.
#[tokio::test]
async fn turns_that_cannot_be_committed_are_set_aside_and_those_of_other_runs_are_taken() {
    let database = TestDatabase::create(Shards::new(1)).await.unwrap();
    let other = connect(&database).await;
    let engine = Engine::postgres(database.url().unwrap())
        .workflow::<wait_for_a_word>()
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let mut handles = Vec::new();
    for _ in 0..8 {
        handles.push(client.start::<wait_for_a_word>(()).await.unwrap());
    }
    let poisoned: Vec<Uuid> = handles[..4].iter().map(RunHandle::id).collect();
    let list: Vec<String> = poisoned.iter().map(|run| format!("'{run}'")).collect();
    let poison = format!(
        "CREATE OR REPLACE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'poisoned'; END $$;
         CREATE TRIGGER poison BEFORE INSERT ON durable.durable_workflow_events FOR EACH ROW
         WHEN (NEW.workflow_id IN ({}) AND NEW.event_type = 'signal.received')
         EXECUTE FUNCTION poison()",
        list.join(", ")
    );
    other.batch_execute(&poison).await.unwrap();
    for handle in &handles {
        handle.signal("word", &"go".to_owned()).await.unwrap();
    }
    for handle in handles.split_off(4) {
        assert_eq!(handle.result().await.unwrap(), "go");
    }
    let asides = engine.store().asides().expect("it sets things aside");
    while asides.list().len() < poisoned.len() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for aside in asides.list() {
        assert_eq!(aside.kind.as_str(), "turn");
        assert!(poisoned.contains(&aside.run_id));
        assert!(aside.reason.contains("poisoned"), "{}", aside.reason);
    }
    let cure = "DROP TRIGGER poison ON durable.durable_workflow_events";
    other.batch_execute(cure).await.unwrap();
    for handle in handles {
        assert_eq!(handle.result().await.unwrap(), "go");
    }
    while !asides.list().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine.shutdown().await.unwrap();
    database.remove().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_delivered_is_set_aside_and_those_of_other_senders_arrive() {
    let (w, other, database) = world().await;
    let (bad, good) = (w.start().await, w.start().await);
    poison(&other, &[bad]).await;
    for _ in 0..3 {
        sender(&w, &[(good, "other")]).await;
    }
    let stuck = sender(&w, &[(bad, "stuck"), (good, "behind")]).await;
    sender(&w, &[(good, "other")]).await;
    assert_eq!(w.relay().await.delivered, 4);
    let asides = w.store.asides().expect("it sets things aside");
    let list = asides.list();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].run_id, stuck);
    cure(&other).await;
    assert!(asides.clear(stuck));
    assert_eq!(w.relay().await.delivered, 2);
    database.remove().await;
}

#[tokio::test]
async fn a_parent_with_more_children_than_fit_into_one_transaction_closes_all_of_them() {
    let (w, _other, database) = world().await;
    let parent = w.start().await;
    let count = CLOSED_CHILDREN_MAX + 5;
    let mut turn = w.turn(parent).await;
    let policies = [
        ClosePolicy::Cancel,
        ClosePolicy::Terminate,
        ClosePolicy::Abandon,
    ];
    let child = |n: usize| w.new_child(&format!("c{n}"), policies[n % 3]);
    turn.children = (0..count).map(child).collect();
    let children: Vec<(Uuid, ClosePolicy)> = turn
        .children
        .iter()
        .map(|child| (child.start.run_id, child.close_policy))
        .collect();
    w.committed(turn).await;
    w.settle().await;
    w.terminate(parent, "enough").await;
    w.settle().await;
    for (child, policy) in children {
        let told = w.waiting(child).await;
        let (is_over, signals) = (told.run.status.is_terminal(), told.facts.len());
        let expected = match policy {
            ClosePolicy::Cancel => (false, 1),
            ClosePolicy::Terminate => (true, 0),
            ClosePolicy::Abandon => (false, 0),
        };
        assert_eq!((is_over, signals), expected, "{policy:?}");
    }
    database.remove().await;
}

#[tokio::test]
async fn a_claim_takes_no_more_bytes_than_fit_and_the_rest_comes_next() {
    let (w, _other, database) = world().await;
    let text = format!("\"{}\"", "x".repeat(3 * 1024 * 1024));
    let input = durable_testkit::world::json(&text);
    for _ in 0..12 {
        let mut task = w.task("a");
        task.input = input.clone();
        w.start_with_tasks(vec![task]).await;
    }
    let first = w.claim(100).await.len();
    assert!((1..12).contains(&first), "{first} of 12 at once");
    assert_eq!(w.claim(100).await.len(), 12 - first);
    database.remove().await;
}

/// A schedule of an unhosted workflow with a tick that is due.
async fn due_schedule(w: &World, id: &str, overlap: OverlapPolicy, last_run: Option<Uuid>) {
    let now = w.store.clock(None).await.unwrap();
    let schedule = ScheduleRecord {
        id: id.to_owned(),
        workflow_type: id.to_owned(),
        version: String::new(),
        input: Payload::null(),
        cron: "0 0 1 1 *".to_owned(),
        time_zone: "UTC".to_owned(),
        overlap,
        catchup_window_ms: 60 * 60 * 1000,
        paused: false,
        next_fire_at: Some(now),
        last_fire_at: None,
        last_run,
        created_at: now,
        updated_at: now,
    };
    w.store.put_schedule(schedule).await.unwrap();
}

/// Returns once all of these schedules have fired.
async fn have_fired(w: &World, ids: &[&str]) {
    for id in ids {
        let fired = async || {
            let schedule = w.store.get_schedule(id).await.unwrap();
            schedule.is_some_and(|schedule| schedule.last_fire_at.is_some())
        };
        let wait = async {
            while !fired().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(waited.is_ok(), "schedule {id} does not fire");
    }
}

/// The last runs of two schedules and the row of a third are locked, and the run of a fourth cannot
/// be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_is_locked_or_cannot_fire_puts_off_itself_alone() {
    let (w, other, database) = world().await;
    let (first, second) = (w.start().await, w.start().await);
    let at_fault = ["locked", "poisoned", "replaces", "terminates"];
    due_schedule(&w, "terminates", OverlapPolicy::Terminate, Some(first)).await;
    due_schedule(&w, "replaces", OverlapPolicy::Replace, Some(second)).await;
    due_schedule(&w, "locked", OverlapPolicy::Allow, None).await;
    due_schedule(&w, "poisoned", OverlapPolicy::Allow, None).await;
    let others = ["a", "b", "c", "d", "e"];
    for id in others {
        due_schedule(&w, id, OverlapPolicy::Allow, None).await;
    }
    let poison = "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'poisoned'; END $$;
         CREATE TRIGGER poison BEFORE INSERT ON durable.durable_workflow_instances FOR EACH ROW
         WHEN (NEW.workflow_type = 'poisoned') EXECUTE FUNCTION poison()";
    other.batch_execute(poison).await.unwrap();
    hold(&other, &[first, second]).await;
    let lock = "SELECT id FROM durable.durable_schedules WHERE id = 'locked' FOR UPDATE";
    other.batch_execute(lock).await.unwrap();

    let engine = Engine::on(Arc::clone(&w.store)).start().await.unwrap();
    have_fired(&w, &others).await;
    let client = engine.client();
    let told = async |what: &str| {
        let is_told = || {
            let troubles = client.chore_troubles();
            let mut of_schedules = troubles.iter().filter(|t| t.chore == "schedules");
            of_schedules.any(|trouble| trouble.last_error.contains(what))
        };
        while !is_told() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    for id in at_fault {
        let schedule = w.store.get_schedule(id).await.unwrap();
        assert_eq!(schedule.unwrap().last_fire_at, None, "{id}");
        let named = format!("schedule {id}:");
        let told = tokio::time::timeout(Duration::from_secs(60), told(&named)).await;
        assert!(told.is_ok(), "nothing says that {id} fails");
    }
    // A schedule that comes later is not kept waiting either.
    due_schedule(&w, "later", OverlapPolicy::Allow, None).await;
    have_fired(&w, &["later"]).await;

    let_go(&other).await;
    have_fired(&w, &["locked", "replaces", "terminates"]).await;
    let cure = "DROP TRIGGER poison ON durable.durable_workflow_instances";
    other.batch_execute(cure).await.unwrap();
    have_fired(&w, &["poisoned"]).await;
    assert!(w.run(first).await.status.is_terminal());
    assert!(!w.run(second).await.status.is_terminal(), "it was asked");
    engine.shutdown().await.unwrap();
    database.remove().await;
}

/// Longer than a busy machine keeps a process waiting: a lease that is lost for want of time would
/// look like one that a lock has cost.
const LONG_LEASE: Duration = Duration::from_secs(4);

/// How often each run's activity was begun, all together.
static BEGUN: AtomicU32 = AtomicU32::new(0);

#[activity]
async fn count(_ctx: ActivityContext, millis: u64) -> ActivityResult<u32> {
    let begun = BEGUN.fetch_add(1, Ordering::SeqCst) + 1;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(begun)
}

/// A long activity, then a timer.
#[workflow]
async fn count_and_sleep(ctx: WorkflowContext, millis: u64) -> WorkflowResult<()> {
    let _: u32 = ctx.activity_named("count", millis).await?;
    ctx.sleep(Duration::from_millis(100)).await?;
    Ok(())
}

/// A caller's transaction signals one run and stays open for several times a lease: the activities
/// of all runs, that one's included, are begun once, the other runs end meanwhile, and the
/// signalled one when the transaction has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_open_transaction_delays_its_own_run_alone_and_nothing_is_executed_twice() {
    let database = TestDatabase::create(Shards::new(1)).await.unwrap();
    let other = connect(&database).await;
    let engine = Engine::postgres(database.url().unwrap())
        .configure(|settings| {
            settings.worker.lease = LONG_LEASE;
            settings.worker.lease_renewal = LONG_LEASE / 8;
            settings.chores.fallback_poll = Duration::from_millis(200);
        })
        .workflow::<count_and_sleep>()
        .activity(count)
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let mut handles = Vec::new();
    for n in 0..6 {
        // The first one's activity ends while its run is locked; the others' run through several
        // leases.
        let lasts = if n == 0 {
            LONG_LEASE
        } else {
            LONG_LEASE * 5 / 2
        };
        let millis = u64::try_from(lasts.as_millis()).unwrap();
        handles.push(client.start::<count_and_sleep>(millis).await.unwrap());
    }
    while BEGUN.load(Ordering::SeqCst) < 6 {
        tokio::task::yield_now().await;
    }
    let locked = handles.remove(0);
    other.batch_execute("BEGIN").await.unwrap();
    let signal = format!(
        "SELECT durable.durable_signal('{}', 'hello', '1')",
        locked.id()
    );
    other.batch_execute(&signal).await.unwrap();
    for handle in handles {
        handle.result().await.unwrap();
    }
    let history = engine.store().load_history(locked.id(), 0).await.unwrap();
    let ended = |event: &WorkflowEvent| matches!(event, WorkflowEvent::ActivityCompleted { .. });
    let events = history.expect("it exists").events;
    assert!(
        !events.iter().any(|stored| ended(&stored.event)),
        "it is locked"
    );
    other.batch_execute("COMMIT").await.unwrap();
    locked.result().await.unwrap();
    assert_eq!(BEGUN.load(Ordering::SeqCst), 6, "each activity once");
    engine.shutdown().await.unwrap();
    database.remove().await;
}
