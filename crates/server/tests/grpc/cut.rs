//! A connection that is cut again and again, often right after a request was sent: nothing is lost, nothing is doubled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use durable_testkit::audit;
use everruns_durable::Engine;
use everruns_durable::core::WorkflowEvent;
use everruns_durable::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::place::Place;

/// Passes bytes on and hangs up every so often.
struct Scissors {
    url: String,
    cuts: Arc<AtomicUsize>,
}

impl Scissors {
    async fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = server.trim_start_matches("http://").to_owned();
        let cuts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&cuts);
        tokio::spawn(async move {
            let mut patience = 3;
            while let Ok((client, _)) = listener.accept().await {
                // Another number of requests each time; later ones more, so that the work comes to an end.
                patience += 3;
                let server = TcpStream::connect(&server).await.expect("the server");
                tokio::spawn(pass_on(client, server, patience, Arc::clone(&counted)));
            }
        });
        Self { url, cuts }
    }
}

/// The client's side is dropped after so many of its writes have reached the server, whose answer to the last one nobody gets.
async fn pass_on(client: TcpStream, server: TcpStream, writes: usize, cuts: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move {
        tokio::io::copy(&mut from_server, &mut to_client).await.ok();
        from_server
    });
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..writes {
        let read = from_client.read(&mut buffer).await.unwrap_or(0);
        if read == 0 || to_server.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    let read = from_client.read(&mut buffer).await.unwrap_or(0);
    // From here on the client hears nothing more.
    answers.abort();
    drop(from_client);
    cuts.fetch_add(1, Ordering::SeqCst);
    to_server.write_all(&buffer[..read]).await.ok();
    to_server.flush().await.ok();
    // The server is not hung up on, so that it can do what it was asked: its side stays open until the test's runtime ends.
    std::future::pending::<()>().await;
}

#[workflow]
async fn tally(ctx: WorkflowContext, steps: u32) -> WorkflowResult<u32> {
    let mut sum = 0;
    for step in 1..=steps {
        sum += ctx.activity_named::<u32>("count", step).await?;
    }
    Ok(sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_where_answers_are() {
    const RUNS: usize = 20;
    let place = Place::open().await;
    let scissors = Scissors::before(&place.url).await;
    let done: Arc<Mutex<BTreeMap<u32, usize>>> = Arc::default();
    let counted = Arc::clone(&done);
    let worker = Engine::connect(&scissors.url)
        .workflow::<tally>()
        .activity_fn("count", move |_ctx, step: u32| {
            let counted = Arc::clone(&counted);
            async move {
                *counted.lock().await.entry(step).or_default() += 1;
                Ok(step)
            }
        })
        .configure(|settings| {
            settings.worker.lease = Duration::from_secs(1);
            settings.worker.lease_renewal = Duration::from_millis(200);
            settings.turns.owner_lease = Duration::from_secs(1);
            settings.chores.fallback_poll = Duration::from_millis(200);
        });
    let worker = worker.start().await.expect("connects");
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(worker.client().start::<tally>(4).await.expect("starts"));
    }
    for run in &runs {
        // Asked without the detour: what is under test is the worker's work.
        let result = place.client().run::<tally>(run.id()).result().await;
        assert_eq!(result.expect("a result"), 10);
    }
    let dump = place.store.dump().await.expect("dumped");
    assert_eq!(dump.runs.len(), RUNS, "each was started once");
    for run in &dump.runs {
        let completed = run
            .events
            .iter()
            .filter(|event| matches!(event.event, WorkflowEvent::ActivityCompleted { .. }));
        assert_eq!(completed.count(), 4, "each result counts once");
        assert!(run.tasks.is_empty());
    }
    let report = audit::audit(&*place.store, None).await.expect("audited");
    assert!(report.is_clean(), "{report}");
    let cuts = scissors.cuts.load(Ordering::SeqCst);
    assert!(cuts >= 5, "it was cut only {cuts} times");
    assert!(done.lock().await.values().all(|times| *times >= RUNS));
    worker.shutdown().await.ok();
}
