//! Activities whose own writes and result commit as one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use durable_core::Timestamp;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::{ReapLeases, StepLogFilter};
use everruns_durable::postgres::{self, ActivityTransaction};
use everruns_durable::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::server::{connect, fresh_database};

/// A database with a table of the user's own.
async fn database() -> String {
    let url = fresh_database().await;
    let client = connect(&url).await;
    client
        .batch_execute("CREATE TABLE own (attempt TEXT PRIMARY KEY)")
        .await
        .unwrap();
    url
}

async fn own_rows(url: &str) -> Vec<String> {
    let client = connect(url).await;
    let sql = "SELECT attempt FROM own ORDER BY attempt";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn insert(transaction: &ActivityTransaction, attempt: &str) -> ActivityResult<()> {
    let sql = "INSERT INTO own VALUES ($1)";
    transaction.execute(sql, &[&attempt]).await?;
    Ok(())
}

fn engine(url: &str) -> EngineBuilder {
    Engine::postgres(url).configure(|settings| {
        settings.worker.lease = Duration::from_secs(2);
        settings.worker.lease_renewal = Duration::from_millis(500);
        settings.chores.fallback_poll = Duration::from_millis(200);
    })
}

fn at_once(attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts: attempts,
        initial_interval: Duration::from_millis(1),
        ..RetryPolicy::exponential()
    }
}

/// Runs an activity by name, a few attempts at most, and answers what it answers.
#[workflow]
async fn run_it(ctx: WorkflowContext, activity_type: String) -> WorkflowResult<String> {
    let call = ctx.activity_named(activity_type, ());
    call.retry(at_once(3)).await
}

async fn run(builder: EngineBuilder, activity_type: &str) -> Result<String, Error> {
    let engine = builder.workflow::<run_it>().start().await.unwrap();
    let answer = engine.run::<run_it>(activity_type.to_owned()).await;
    engine.shutdown().await.unwrap();
    answer
}

#[activity(transactional)]
async fn write_one(ctx: ActivityContext, _input: ()) -> ActivityResult<String> {
    let transaction = ctx.transaction().await?;
    insert(&transaction, "one").await?;
    let again = ctx.transaction().await?;
    assert!(Arc::ptr_eq(&transaction, &again), "one an attempt");
    ctx.log(
        everruns_durable::persistence::model::LogLevel::Info,
        "written",
    );
    Ok("done".into())
}

#[tokio::test]
async fn its_writes_and_its_result_are_there_together() {
    let url = database().await;
    let engine = engine(&url)
        .workflow::<run_it>()
        .activity(write_one)
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let handle = client.start::<run_it>("write_one".into()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "done");
    assert_eq!(own_rows(&url).await, ["one"]);
    let logs = engine
        .store()
        .list_step_logs(StepLogFilter::of_run(handle.id()), Default::default())
        .await
        .unwrap();
    assert_eq!(logs.lines.len(), 1, "what it logged is stored with it");
    engine.shutdown().await.unwrap();
}

#[activity(transactional)]
async fn fail_first(ctx: ActivityContext, _input: ()) -> ActivityResult<String> {
    let transaction = ctx.transaction().await?;
    insert(&transaction, &format!("attempt {}", ctx.attempt)).await?;
    match ctx.attempt {
        1 => Err(ActivityError::new("Oops", "after the write")),
        2 => panic!("after the write"),
        _ => Ok("third".into()),
    }
}

#[tokio::test]
async fn an_attempt_that_fails_or_panics_takes_its_writes_with_it() {
    let url = database().await;
    let answer = run(engine(&url).activity(fail_first), "fail_first").await;
    assert_eq!(answer.unwrap(), "third");
    assert_eq!(own_rows(&url).await, ["attempt 3"]);
}

#[activity(transactional, start_to_close = "200ms")]
async fn hang_first(ctx: ActivityContext, _input: ()) -> ActivityResult<String> {
    let transaction = ctx.transaction().await?;
    insert(&transaction, "the one").await?;
    if ctx.attempt == 1 {
        std::future::pending::<()>().await;
    }
    Ok("second".into())
}

#[workflow]
async fn run_hanging(ctx: WorkflowContext, _input: ()) -> WorkflowResult<String> {
    ctx.activity::<hang_first>(()).retry(at_once(3)).await
}

#[tokio::test]
async fn an_attempt_past_its_time_is_rolled_back_and_does_not_hold_the_next_one_up() {
    let url = database().await;
    let engine = engine(&url)
        .workflow::<run_hanging>()
        .activity(hang_first)
        .start()
        .await
        .unwrap();
    // The second writes the same key: it would wait for the first one's transaction.
    assert_eq!(engine.run::<run_hanging>(()).await.unwrap(), "second");
    assert_eq!(own_rows(&url).await, ["the one"]);
    engine.shutdown().await.unwrap();
}

/// Loses its connection after it has written, the first time.
struct CutOff(String);

#[async_trait]
impl Activity for CutOff {
    const TYPE: &'static str = "cut_off";
    const TRANSACTIONAL: bool = true;
    type Input = ();
    type Output = String;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        let transaction = ctx.transaction().await?;
        insert(&transaction, "the one").await?;
        if ctx.attempt == 1 {
            let row = transaction
                .query_one("SELECT pg_backend_pid()", &[])
                .await?;
            let pid: i32 = row.get(0);
            let sql = "SELECT pg_terminate_backend($1, 5000)";
            connect(&self.0).await.query(sql, &[&pid]).await?;
        }
        Ok(format!("attempt {}", ctx.attempt))
    }
}

#[tokio::test]
async fn a_connection_that_dies_before_the_commit_leaves_one_row_in_the_end() {
    let url = database().await;
    let builder = engine(&url).activity(CutOff(url.clone()));
    assert_eq!(run(builder, CutOff::TYPE).await.unwrap(), "attempt 2");
    assert_eq!(own_rows(&url).await, ["the one"]);
}

/// Notes that it is called, and writes.
struct Counted(Arc<AtomicU32>);

#[async_trait]
impl Activity for Counted {
    const TYPE: &'static str = "counted";
    const TRANSACTIONAL: bool = true;
    type Input = ();
    type Output = String;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let transaction = ctx.transaction().await?;
        insert(&transaction, "the one").await?;
        Ok(format!("attempt {}", ctx.attempt))
    }
}

/// Stands in front of the server. A connection on which the user's table was written hears nothing of its `COMMIT`, which is carried out.
async fn deaf_to_commits(url: &str) -> String {
    let config: tokio_postgres::Config = url.parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("the test server listens on TCP");
    };
    let server = format!("{host}:{}", config.get_ports()[0]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    let proxy_url = url.replace(&server, &own);
    assert_ne!(proxy_url, url);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(pass_on(near, far));
        }
    });
    proxy_url
}

async fn pass_on(near: TcpStream, far: TcpStream) {
    let (mut from_client, mut to_client) = near.into_split();
    let (mut from_server, mut to_server) = far.into_split();
    let (mut said, mut heard) = (vec![0; 65_536], vec![0; 65_536]);
    let (mut has_written, mut has_committed) = (false, false);
    loop {
        tokio::select! {
            biased;
            read = from_client.read(&mut said) => {
                let Ok(bytes @ 1..) = read else { return };
                let contains = |text: &[u8]| said[..bytes].windows(text.len()).any(|w| w == text);
                has_written |= contains(b"INSERT INTO own");
                has_committed |= has_written && contains(b"COMMIT");
                if to_server.write_all(&said[..bytes]).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut heard) => {
                let Ok(bytes @ 1..) = read else { return };
                if !has_committed && to_client.write_all(&heard[..bytes]).await.is_err() {
                    return;
                }
                // What is said behind a commit is not passed on; when the server has told of it, both sides are closed.
                if has_committed && heard[..bytes].windows(7).any(|w| w == b"COMMIT\0") {
                    return;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_counts_once_and_the_run_goes_on() {
    let url = database().await;
    let calls = Arc::new(AtomicU32::new(0));
    let builder = engine(&deaf_to_commits(&url).await)
        // Nothing is found by looking: the run has to be rung for.
        .configure(|settings| settings.chores.fallback_poll = Duration::from_secs(3600))
        .activity(Counted(Arc::clone(&calls)));
    let answer = tokio::time::timeout(Duration::from_secs(60), run(builder, Counted::TYPE));
    assert_eq!(answer.await.expect("in time").unwrap(), "attempt 1");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(own_rows(&url).await, ["the one"]);
}

/// Holds its first call until it is released; later ones go straight through.
struct Zombie {
    calls: AtomicU32,
    began: Arc<Notify>,
    release: Arc<Notify>,
    over: Arc<Notify>,
}

#[async_trait]
impl Activity for Zombie {
    const TYPE: &'static str = "zombie";
    const TRANSACTIONAL: bool = true;
    type Input = ();
    type Output = String;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let transaction = ctx.transaction().await?;
        insert(&transaction, &format!("call {call}")).await?;
        if call == 0 {
            self.began.notify_one();
            self.release.notified().await;
            self.over.notify_one();
        }
        Ok(format!("call {call}"))
    }
}

#[tokio::test]
async fn a_zombie_whose_lease_is_lost_cannot_commit_its_writes() {
    let url = database().await;
    let [began, release, over] = [(); 3].map(|()| Arc::new(Notify::new()));
    let zombie = Zombie {
        calls: AtomicU32::new(0),
        began: Arc::clone(&began),
        release: Arc::clone(&release),
        over: Arc::clone(&over),
    };
    let engine = engine(&url)
        .workflow::<run_it>()
        .activity(zombie)
        .start()
        .await
        .unwrap();
    let handle = engine
        .client()
        .start::<run_it>(Zombie::TYPE.to_owned())
        .await
        .unwrap();
    began.notified().await;
    let reap = ReapLeases {
        max: 10,
        first_shard: 0,
        now: Some(Timestamp::now() + Duration::from_secs(60)),
    };
    let reaped = engine.store().reap_leases(reap).await.unwrap();
    assert_eq!(reaped.len(), 1);
    assert_eq!(handle.result().await.unwrap(), "call 1");
    release.notify_one();
    over.notified().await;
    // Waits for the zombie's end.
    engine.shutdown().await.unwrap();
    assert_eq!(own_rows(&url).await, ["call 1"]);
}

/// Tells on standard output that it has written, and waits to be killed.
struct Victim;

#[async_trait]
impl Activity for Victim {
    const TYPE: &'static str = "victim";
    const TRANSACTIONAL: bool = true;
    type Input = ();
    type Output = String;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        let transaction = ctx.transaction().await?;
        insert(&transaction, "the one").await?;
        if std::env::var_os(VICTIM_URL).is_some() {
            let mut out = std::io::stdout();
            writeln!(out, "\n{WRITTEN}")?;
            out.flush()?;
            std::future::pending::<()>().await;
        }
        Ok("survived".into())
    }
}

const VICTIM_URL: &str = "DURABLE_TEST_VICTIM_URL";
const WRITTEN: &str = "the victim has written";

/// Does nothing unless the test below starts it as a process of its own.
#[tokio::test]
async fn the_victims_process() {
    let Ok(url) = std::env::var(VICTIM_URL) else {
        return;
    };
    let builder = engine(&url).workflow::<run_it>().activity(Victim);
    let engine = builder.start().await.unwrap();
    let start = engine.client().start::<run_it>(Victim::TYPE.to_owned());
    start.idempotency_key("victim").await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_process_killed_between_its_writes_and_the_commit_leaves_one_row_in_the_end() {
    let url = database().await;
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "transactional::the_victims_process",
            "--exact",
            "--nocapture",
        ])
        .env(VICTIM_URL, &url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == WRITTEN));
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(own_rows(&url).await.is_empty(), "nothing was committed");

    let builder = engine(&url).workflow::<run_it>().activity(Victim);
    let engine = builder.start().await.unwrap();
    let start = engine.client().start::<run_it>(Victim::TYPE.to_owned());
    let handle = start.idempotency_key("victim").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "survived");
    engine.shutdown().await.unwrap();
    assert_eq!(own_rows(&url).await, ["the one"]);
}

#[activity(transactional)]
async fn break_a_promise(ctx: ActivityContext, _input: ()) -> ActivityResult<String> {
    let transaction = ctx.transaction().await?;
    let attempt = format!("attempt {}", ctx.attempt);
    insert(&transaction, &attempt).await?;
    if ctx.attempt == 1 {
        let sql = "INSERT INTO promises VALUES ('nobody')";
        transaction.execute(sql, &[]).await?;
    }
    Ok(attempt)
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_fails_the_attempt_and_the_result_with_it() {
    let url = database().await;
    let promises =
        "CREATE TABLE promises (attempt TEXT REFERENCES own DEFERRABLE INITIALLY DEFERRED)";
    connect(&url).await.batch_execute(promises).await.unwrap();
    let answer = run(engine(&url).activity(break_a_promise), "break_a_promise").await;
    assert_eq!(answer.unwrap(), "attempt 2");
    assert_eq!(own_rows(&url).await, ["attempt 2"]);
}

/// Keeps the transaction beyond its answer, the first time.
struct Leaks(parking_lot::Mutex<Vec<Arc<ActivityTransaction>>>);

#[async_trait]
impl Activity for Leaks {
    const TYPE: &'static str = "leaks";
    const TRANSACTIONAL: bool = true;
    type Input = ();
    type Output = String;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        let transaction = ctx.transaction().await?;
        self.0.lock().clear();
        insert(&transaction, &format!("attempt {}", ctx.attempt)).await?;
        if ctx.attempt == 1 {
            self.0.lock().push(transaction);
        }
        Ok(format!("attempt {}", ctx.attempt))
    }
}

#[tokio::test]
async fn a_transaction_that_is_still_in_use_is_not_committed() {
    let url = database().await;
    let builder = engine(&url).activity(Leaks(parking_lot::Mutex::default()));
    assert_eq!(run(builder, Leaks::TYPE).await.unwrap(), "attempt 2");
    assert_eq!(own_rows(&url).await, ["attempt 2"]);
}

#[activity(transactional)]
async fn start_another(ctx: ActivityContext, _input: ()) -> ActivityResult<String> {
    let transaction = ctx.transaction().await?;
    let name = format!("from attempt {}", ctx.attempt);
    let run_id = postgres::enqueue_in::<write_one>(&transaction, ())
        .idempotency_key("another")
        .memo(&name)
        .await?;
    if ctx.attempt == 1 {
        return Err(ActivityError::new("Oops", "after the start"));
    }
    Ok(run_id.to_string())
}

#[tokio::test]
async fn a_run_that_it_starts_in_its_transaction_exists_with_its_result() {
    let url = database().await;
    let engine = engine(&url)
        .workflow::<run_it>()
        .activity(start_another)
        .activity(write_one)
        .start()
        .await
        .unwrap();
    let run_id = engine.run::<run_it>("start_another".into()).await.unwrap();
    let client = engine.client();
    let other =
        client.run::<everruns_durable::workflow::ActivityRun<write_one>>(run_id.parse().unwrap());
    assert_eq!(other.result().await.unwrap(), "done");
    let memo: String = other.get().await.unwrap().memo.to_value().unwrap();
    assert_eq!(memo, "from attempt 2", "the first one's start is gone");
    engine.shutdown().await.unwrap();
}

#[activity]
async fn not_transactional(ctx: ActivityContext, _input: ()) -> ActivityResult<String> {
    ctx.transaction().await?;
    Ok("not reached".into())
}

#[tokio::test]
async fn an_activity_that_is_not_transactional_has_no_transaction() {
    let url = database().await;
    let builder = engine(&url).activity(not_transactional);
    let error = run(builder, "not_transactional").await.unwrap_err();
    let failure = error.failure().expect("the run failed").to_string();
    assert!(failure.contains("#[activity(transactional)]"), "{failure}");
}

#[tokio::test]
async fn a_store_without_transactions_refuses_the_activity_at_once() {
    let builder = Engine::in_memory().activity(write_one);
    let error = run(builder, "write_one").await.unwrap_err();
    let failure = error.failure().expect("the run failed").to_string();
    assert!(failure.contains("no transactions to share"), "{failure}");
}
