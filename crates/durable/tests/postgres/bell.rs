//! The doorbell: stores on one schema hear each other, and nobody else.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use everruns_durable::persistence::postgres::{Postgres, PostgresOptions};
use everruns_durable::persistence::sql::tx::Database as _;
use everruns_durable::persistence::{Bell, Ring};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use uuid::Uuid;

use crate::server::{connect, fresh_database, with_database};

/// Only bounds how long a broken bell is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process with its own store on the database, whose bell can be heard.
struct Process {
    store: Postgres,
    bell: Arc<dyn Bell>,
}

impl Process {
    async fn start(url: &str, options: PostgresOptions) -> Self {
        let store = Postgres::open(url, options).await.unwrap();
        let bell = store.bell().expect("a bell");
        let process = Self { store, bell };
        assert_eq!(process.hears().await, Ring::everything(), "it was away");
        assert!(process.bell.is_connected());
        process
    }

    async fn hears(&self) -> Ring {
        tokio::time::timeout(PATIENCE, self.bell.listen())
            .await
            .expect("a ring")
    }
}

async fn two_processes() -> (Process, Process, String) {
    let url = fresh_database().await;
    let first = Process::start(&url, PostgresOptions::default()).await;
    let second = Process::start(&url, PostgresOptions::default()).await;
    (first, second, url)
}

fn tasks(activity_type: &str) -> Ring {
    Ring {
        task_types: [activity_type.to_owned()].into(),
        ..Ring::default()
    }
}

fn runs(count: u128) -> Ring {
    Ring {
        ready_runs: (0..count).map(Uuid::from_u128).collect(),
        ..Ring::default()
    }
}

/// What a plain listener hears on a channel, payload by payload, as long as its client lives.
async fn tap(url: &str, channel: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (hear, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message {
                hear.send(note.payload().to_owned()).unwrap();
            }
        }
    });
    let listen = format!("LISTEN \"{channel}\"");
    client.batch_execute(&listen).await.unwrap();
    (client, heard)
}

#[tokio::test]
async fn two_stores_on_one_schema_hear_each_other() {
    let (first, second, _) = two_processes().await;
    let ring = Ring {
        task_types: ["charge".to_owned()].into(),
        ready_runs: [Uuid::from_u128(1)].into(),
        finished_runs: [Uuid::from_u128(2)].into(),
        messages: true,
        clocks: true,
        everything: false,
    };
    first.bell.ring(ring.clone());
    assert_eq!(second.hears().await, ring);
    second.bell.ring(Ring::everything());
    assert_eq!(first.hears().await, Ring::everything());
}

#[tokio::test]
async fn nobody_hears_their_own_rings() {
    let (first, second, _) = two_processes().await;
    first.bell.ring(tasks("mine"));
    assert_eq!(second.hears().await, tasks("mine"));
    second.bell.ring(tasks("theirs"));
    assert_eq!(first.hears().await, tasks("theirs"), "and nothing else");
}

#[tokio::test]
async fn listeners_on_one_store_all_hear_and_take_nothing_from_each_other() {
    let (first, second, _) = two_processes().await;
    let beside = first.store.bell().expect("a bell");
    assert_eq!(beside.listen().await, Ring::everything(), "it was away");
    second.bell.ring(tasks("charge"));
    assert_eq!(first.hears().await, tasks("charge"));
    assert_eq!(beside.listen().await, tasks("charge"));
    beside.ring(tasks("ship"));
    assert_eq!(first.hears().await, tasks("ship"), "in the same process");
    assert_eq!(second.hears().await, tasks("ship"), "and in another");
    first.bell.ring(tasks("last"));
    assert_eq!(beside.listen().await, tasks("last"), "not its own before");
}

#[tokio::test]
async fn a_listener_that_gives_up_waiting_loses_nothing() {
    let (first, second, _) = two_processes().await;
    for _ in 0..100 {
        let waiting = first.bell.listen();
        assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
    }
    second.bell.ring(tasks("charge"));
    assert_eq!(first.hears().await, tasks("charge"));
}

#[tokio::test]
async fn a_burst_of_rings_is_few_notifications() {
    let (first, second, url) = two_processes().await;
    let (_client, mut heard) = tap(&url, "durable_durable").await;
    for number in 0..10_000 {
        first.bell.ring(tasks(&format!("type-{}", number % 10)));
        if number % 100 == 0 {
            // The sender may go on whenever it can.
            tokio::task::yield_now().await;
        }
    }
    first.bell.ring(tasks("the last"));
    let mut notifications = 0;
    loop {
        let payload = heard.recv().await.expect("the connection lives");
        notifications += 1;
        if payload.contains("the last") {
            break;
        }
    }
    assert!(notifications < 200, "{notifications} notifications");
    let mut all = Ring::default();
    while !all.task_types.contains("the last") {
        all.merge(second.hears().await);
    }
    assert_eq!(all.task_types.len(), 11, "and nothing was left out");
}

#[tokio::test]
async fn a_listener_that_was_cut_off_comes_back_and_asks_to_look_at_everything() {
    let (first, second, url) = two_processes().await;
    let admin = connect(&url).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE 'durable %'";
    let cut = admin.query(cut, &[]).await.unwrap();
    assert_eq!(cut.len(), 2, "two listeners; nobody has rung yet");
    for process in [&first, &second] {
        assert_eq!(process.hears().await, Ring::everything());
        assert!(process.bell.is_connected());
    }
    first.bell.ring(tasks("charge"));
    assert_eq!(second.hears().await, tasks("charge"));
}

#[tokio::test]
async fn a_sender_that_was_cut_off_rings_all_the_same() {
    let (first, second, url) = two_processes().await;
    first.bell.ring(tasks("before"));
    assert_eq!(second.hears().await, tasks("before"));
    let admin = connect(&url).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'durable ring'";
    assert_eq!(admin.query(cut, &[]).await.unwrap().len(), 1);
    first.bell.ring(tasks("after"));
    assert_eq!(second.hears().await, tasks("after"));
}

#[tokio::test]
async fn a_ring_that_names_too_much_is_everything() {
    let (first, second, _) = two_processes().await;
    first.bell.ring(runs(200));
    assert_eq!(second.hears().await, runs(200));
    first.bell.ring(runs(1000));
    assert_eq!(second.hears().await, Ring::everything());
}

#[tokio::test]
async fn what_cannot_be_read_is_everything() {
    let (first, _second, url) = two_processes().await;
    let admin = connect(&url).await;
    let ring = "SELECT pg_notify('durable_durable', 'from the future')";
    admin.query(ring, &[]).await.unwrap();
    assert_eq!(first.hears().await, Ring::everything());
}

#[tokio::test]
async fn schemas_do_not_hear_each_other() {
    let url = fresh_database().await;
    let on = |schema: &str| PostgresOptions {
        schema: schema.to_owned(),
        ..PostgresOptions::default()
    };
    // Longer than the name of a channel may be, and alike up to there.
    let (one, other) = (
        format!("{}1", "s".repeat(62)),
        format!("{}2", "s".repeat(62)),
    );
    let first = Process::start(&url, on(&one)).await;
    let second = Process::start(&url, on(&one)).await;
    let stranger = Process::start(&url, on(&other)).await;
    let neighbour = Process::start(&url, on(&other)).await;
    first.bell.ring(tasks("private"));
    assert_eq!(second.hears().await, tasks("private"));
    neighbour.bell.ring(tasks("elsewhere"));
    assert_eq!(stranger.hears().await, tasks("elsewhere"));
}

#[tokio::test]
async fn the_bell_ends_with_its_store() {
    let (first, second, url) = two_processes().await;
    first.bell.ring(tasks("charge"));
    second.hears().await;
    let Process { store, bell } = first;
    drop((store, second));
    let admin = connect(&url).await;
    let connections = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name LIKE 'durable %'";
    let gone = async {
        while admin
            .query_one(connections, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            > 0
        {}
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("closed");
    assert!(!bell.is_connected());
    bell.ring(tasks("into the void"));
}

#[tokio::test]
async fn past_a_pooler_the_bell_needs_a_way_around_it() {
    let pooler = std::env::var("DURABLE_TEST_PGBOUNCER_URL")
        .expect("DURABLE_TEST_PGBOUNCER_URL is not set: run by cargo xtask test");
    let direct = fresh_database().await;
    let (_, name) = direct.rsplit_once('/').unwrap();
    let pooled_url = with_database(&pooler, name.split('?').next().unwrap());
    let with = |direct_url: Option<&str>| PostgresOptions {
        pooled: true,
        direct_url: direct_url.map(str::to_owned),
        ..PostgresOptions::default()
    };
    let first = Process::start(&pooled_url, with(Some(&direct))).await;
    let second = Process::start(&pooled_url, with(Some(&direct))).await;
    first.bell.ring(tasks("charge"));
    assert_eq!(second.hears().await, tasks("charge"));
    let without = Postgres::open(&pooled_url, with(None)).await.unwrap();
    assert!(without.bell().is_none());
}

#[tokio::test]
async fn a_listener_whose_connection_died_in_silence_is_noticed() {
    let url = fresh_database().await;
    let (proxy_url, freeze) = proxy(&url).await;
    let options = PostgresOptions {
        direct_url: Some(proxy_url),
        bell_probe: Duration::from_secs(2),
        ..PostgresOptions::default()
    };
    let first = Process::start(&url, options).await;
    let second = Process::start(&url, PostgresOptions::default()).await;
    freeze.send_modify(|epoch| *epoch += 1);
    assert_eq!(first.hears().await, Ring::everything(), "it was away");
    second.bell.ring(tasks("charge"));
    let mut heard = first.hears().await;
    while heard.everything {
        // On a slow machine the probe may have given up once more.
        second.bell.ring(tasks("charge"));
        heard = first.hears().await;
    }
    assert_eq!(heard, tasks("charge"));
}

/// Stands in front of the server. Raising the number makes all connections there are go silent, without closing them.
async fn proxy(url: &str) -> (String, watch::Sender<u32>) {
    let config: tokio_postgres::Config = url.parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("the test server listens on TCP");
    };
    let server = format!("{host}:{}", config.get_ports()[0]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    let proxy_url = url.replace(&server, &own);
    assert_ne!(proxy_url, url);
    let (freeze, frozen) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(pass_on(near, far, frozen.clone()));
        }
    });
    (proxy_url, freeze)
}

/// Carries bytes both ways until it is frozen; the connections stay open then.
async fn pass_on(mut near: TcpStream, mut far: TcpStream, mut frozen: watch::Receiver<u32>) {
    frozen.mark_unchanged();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = frozen.changed() => std::future::pending().await,
    }
}
