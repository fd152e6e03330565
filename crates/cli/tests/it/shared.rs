//! Several servers on one PostgreSQL.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::durable::{Server, http, runtime, until};

/// Where the servers are at the moment: what a load balancer would know.
#[derive(Default)]
struct Addresses(Mutex<Vec<String>>);

impl Addresses {
    fn set(&self, servers: &[Server]) {
        *self.0.lock().expect("not poisoned") =
            servers.iter().map(|server| server.http.clone()).collect();
    }

    fn get(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }
}

/// A place of the test's own on the throw-away server: a schema.
fn database(name: &str) -> String {
    let url = std::env::var("DURABLE_TEST_POSTGRES_URL")
        .expect("DURABLE_TEST_POSTGRES_URL is not set: run by cargo xtask test");
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}schema=cli_{name}_{}", std::process::id())
}

fn server(folder: &Path, db: &str) -> Server {
    Server::start(
        folder,
        "server",
        &[
            "--db",
            db,
            "--migrate",
            "--embedded-worker",
            "--grace",
            "20s",
        ],
        &[],
    )
}

/// Starts a program at whichever of the servers answers; one that goes away is passed over.
fn start(
    client: &reqwest::Client,
    runtime: &tokio::runtime::Runtime,
    servers: &[&str],
    n: usize,
) -> String {
    let steps = json!([
        {"do": "activity", "type": "add", "input": {"a": {"$": "n"}, "b": 1}, "save": "n"},
        {"do": "sleep", "ms": 100},
        {"do": "activity", "type": "sleep", "input": {"ms": 20}},
        {"do": "return", "value": {"$": "n"}},
    ]);
    let body = json!({
        "workflow_type": "durable.program",
        "input": {"vars": {"n": n}, "steps": steps},
        "idempotency_key": format!("program-{n}"),
    });
    // The key makes a start whose answer was lost safe to send again, to the other one too.
    until("a server that takes a start", || {
        servers.iter().find_map(|http| {
            runtime.block_on(async {
                let sent = client
                    .post(format!("{http}/v1/durable/workflows"))
                    .json(&body)
                    .send()
                    .await
                    .ok()?;
                let run: Value = sent.error_for_status().ok()?.json().await.ok()?;
                run["id"].as_str().map(str::to_owned)
            })
        })
    })
}

fn all_complete(server: &Server, ids: &[String]) {
    for (n, id) in ids.iter().enumerate() {
        let result = server.json(&["workflow", "result", id, "--wait", "90s"]);
        assert_eq!(result["result"], json!(n + 1), "{result}");
    }
}

#[test]
fn one_of_two_servers_is_killed_under_load_and_nothing_is_lost() {
    let folders = [
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    ];
    let db = database("killed");
    let (one, other) = (
        server(folders[0].path(), &db),
        server(folders[1].path(), &db),
    );
    let (runtime, client) = (runtime(), http());
    let (first, second) = (one.http.clone(), other.http.clone());
    let mut one = Some(one);
    let mut ids = Vec::new();
    for n in 0..120 {
        if n == 60
            && let Some(one) = one.take()
        {
            one.kill();
        }
        let order = if n % 2 == 0 {
            [first.as_str(), second.as_str()]
        } else {
            [second.as_str(), first.as_str()]
        };
        ids.push(start(&client, &runtime, &order, n));
    }
    all_complete(&other, &ids);
}

#[test]
fn a_rolling_restart_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = database("rolling");
    let stop = AtomicBool::new(false);
    let addresses = Addresses::default();
    let mut servers = vec![server(folder.path(), &db), server(folder.path(), &db)];
    addresses.set(&servers);
    let ids = std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            let (runtime, client) = (runtime(), http());
            let mut ids = Vec::new();
            while !stop.load(Ordering::Relaxed) || ids.len() < 100 {
                let servers = addresses.get();
                let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
                ids.push(start(&client, &runtime, &servers, ids.len()));
            }
            ids
        });
        for at in 0..servers.len() {
            let successor = server(folder.path(), &db);
            let mut old = std::mem::replace(&mut servers[at], successor);
            addresses.set(&servers);
            old.signal("TERM");
            assert_eq!(
                old.ended().code(),
                Some(0),
                "a deploy stops its servers politely"
            );
        }
        stop.store(true, Ordering::Relaxed);
        starter.join().expect("started")
    });
    all_complete(&servers[0], &ids);
}
