//! `durable dev`: starts with nothing, stops politely, goes on after a kill.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::durable::{Process, Server, durable, run, runtime, texts, until};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn the_first_start_shows_a_demo_and_the_second_goes_on() {
    let folder = folder();
    let mut first = Server::dev(folder.path(), &[]);
    let demo = first.line_with("demo:");
    assert!(demo.contains("Hello, World!"), "{demo}");
    first.signal("TERM");
    assert_eq!(first.ended().code(), Some(0));
    let ready = std::fs::read_dir(folder.path())
        .expect("listed")
        .filter_map(Result::ok);
    let left: Vec<_> = ready
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("ready"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let mut second = Server::dev(folder.path(), &[]);
    second.line_with("goes on where it stopped");
    let runs = second.json(&["workflow", "list"]);
    assert_eq!(
        runs["workflows"].as_array().map(Vec::len),
        Some(1),
        "{runs}"
    );
}

#[test]
fn the_database_of_the_environment_is_left_alone() {
    let folder = folder();
    let env = [("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nowhere")];
    let server = Server::start(folder.path(), "dev", &["--db", "memory:"], &env);
    assert_eq!(server.json(&["health"])["status"], "healthy");
}

#[test]
fn what_a_shell_exports_for_production_does_not_get_in_the_way() {
    let folder = folder();
    let exported = [
        ("DURABLE_ENV", "production"),
        ("WORKER_GRPC_AUTH_TOKEN", "of a worker"),
    ];
    let server = Server::start(folder.path(), "dev", &["--db", "memory:"], &exported);
    assert_eq!(server.json(&["health"])["status"], "healthy");
    // A worker of the same shell shows its token, and is let in.
    let mut worker = durable(folder.path());
    let worker = worker
        .args(["worker", "--connect", &server.grpc])
        .envs(exported)
        .stderr(Stdio::null());
    Process::start(worker).line_with("works for");

    // With tokens of its own the server has a guard, and the worker's token counts too.
    let guarded = [exported[1], ("DURABLE_TOKENS", "ann:admin:s3cret")];
    let server = Server::start(folder.path(), "dev", &["--db", "memory:"], &guarded);
    assert_eq!(server.ask(&["health"]).status.code(), Some(5));
    let mut worker = durable(folder.path());
    let worker = worker
        .args(["worker", "--connect", &server.grpc])
        .envs(guarded)
        .stderr(Stdio::null());
    Process::start(worker).line_with("works for");
}

#[test]
fn killed_in_the_middle_of_200_programs_all_of_them_complete() {
    let folder = folder();
    let server = Server::dev(folder.path(), &[]);
    let steps = json!([
        {"do": "activity", "type": "sleep", "input": {"ms": 100}},
        {"do": "repeat", "times": 3, "steps": [
            {"do": "activity", "type": "add", "input": {"a": {"$": "n"}, "b": 1}, "save": "n"},
            {"do": "sleep", "ms": 200},
        ]},
        {"do": "return", "value": {"$": "n"}},
    ]);
    let ids = start_many(&server.http, 200, &steps);
    let completed = |server: &Server| {
        let list = server.json(&[
            "workflow",
            "list",
            "--status",
            "completed",
            "--type",
            "durable.program",
            "--limit",
            "1000",
        ]);
        list["workflows"].as_array().map_or(0, Vec::len)
    };
    // Beside the demo.
    until("some to complete", || {
        (completed(&server) > 10).then_some(())
    });
    server.kill();

    let server = Server::dev(folder.path(), &[]);
    for (n, id) in ids.iter().enumerate() {
        let result = server.json(&["workflow", "result", id, "--wait", "60s"]);
        assert_eq!(result["result"], json!(n + 3), "{result}");
    }
}

/// Starts programs over HTTP, many at once: a command for each would be most of the work.
fn start_many(http: &str, count: usize, steps: &Value) -> Vec<String> {
    let client = crate::durable::http();
    runtime().block_on(async {
        let mut ids = Vec::new();
        for n in 0..count {
            let body = json!({"workflow_type": "durable.program", "input": {"vars": {"n": n}, "steps": steps}});
            let response = client.post(format!("{http}/v1/durable/workflows")).json(&body).send().await.expect("an answer");
            assert_eq!(response.status(), 201);
            let run: Value = response.json().await.expect("JSON");
            ids.push(run["id"].as_str().expect("an id").to_owned());
        }
        ids
    })
}

fn claimed(server: &Server) -> bool {
    let tasks = server.json(&["task", "list", "--status", "claimed"]);
    tasks["tasks"]
        .as_array()
        .is_some_and(|tasks| !tasks.is_empty())
}

#[test]
fn a_stop_gives_back_what_runs_without_an_attempt_lost() {
    let folder = folder();
    let mut server = Server::dev(folder.path(), &["--grace", "3s"]);
    let steps = json!([{"do": "activity", "type": "sleep", "input": {"ms": 600_000}}]);
    let id = server.program(&steps);
    until("the activity to run", || claimed(&server).then_some(()));
    server.signal("TERM");
    let http = server.http.clone();
    until("it to say that it is not ready", || {
        (status_of(&format!("{http}/readyz")) == Some(503)).then_some(())
    });
    assert_eq!(server.ended().code(), Some(0));

    let server = Server::dev(folder.path(), &["--grace", "1s"]);
    until("the activity to run again", || {
        claimed(&server).then_some(())
    });
    let tasks = server.json(&["task", "list", "--run", &id]);
    assert_eq!(tasks["tasks"][0]["attempt"], 1, "{tasks}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = folder();
    let mut server = Server::dev(folder.path(), &["--grace", "600s"]);
    server.program(&json!([{"do": "activity", "type": "sleep", "input": {"ms": 600_000}}]));
    until("the activity to run", || claimed(&server).then_some(()));
    server.signal("INT");
    let http = server.http.clone();
    until("it to say that it is not ready", || {
        (status_of(&format!("{http}/readyz")) == Some(503)).then_some(())
    });
    server.signal("INT");
    assert_eq!(server.ended().code(), Some(130));
}

#[test]
fn a_second_process_on_the_same_file_is_told_why_not() {
    let folder = folder();
    let _first = Server::dev(folder.path(), &[]);
    let arguments = ["dev", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let output = crate::durable::run(folder.path(), &arguments);
    assert!(!output.status.success());
    let (_, stderr) = texts(&output);
    assert!(stderr.contains("durable.db"), "{stderr}");
}

fn status_of(url: &str) -> Option<u16> {
    runtime().block_on(async {
        Some(
            crate::durable::http()
                .get(url)
                .send()
                .await
                .ok()?
                .status()
                .as_u16(),
        )
    })
}

#[test]
fn a_command_that_waits_outlives_a_restart_of_its_server() {
    let folder = folder();
    let mut server = Server::dev(folder.path(), &[]);
    let address = server
        .http
        .strip_prefix("http://")
        .expect("no TLS")
        .to_owned();
    let id = server.program(&json!([{"do": "wait_signal", "name": "go", "save": "x"}, {"do": "return", "value": {"$": "x"}}]));
    let mut watching = crate::durable::durable(folder.path())
        .args(["--server", &server.http, "workflow", "watch", &id])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("workflow.started"), "{first}");
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
    let server = Server::start_at(folder.path(), &address);
    let sent = server.ask(&["workflow", "signal", &id, "go", "--input", "\"well\""]);
    assert!(sent.status.success(), "{:?}", texts(&sent));
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let output = watching.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?}", texts(&output));
    assert_eq!(rest.last().map(String::as_str), Some("well"), "{rest:?}");
    let started = rest
        .iter()
        .filter(|line| line.contains("workflow.started"))
        .count();
    assert_eq!(started, 0, "nothing is told twice: {rest:?}");
}

#[test]
fn it_serves_on_where_nobody_reads_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ready = folder.path().join("ready.json");
    let process = durable(folder.path())
        .args([
            "dev",
            "--db",
            "memory:",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--ready-file",
        ])
        .arg(&ready)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let http = until("the ready file", || {
        let text = std::fs::read_to_string(&ready).ok()?;
        let endpoints: Value = serde_json::from_str(&text).ok()?;
        Some(endpoints["http"].as_str()?.to_owned())
    });
    // The demo's end is said when it has ended, and only then is this the whole of what it says.
    let demo = ["--server", &http, "workflow", "result", "durable-dev-demo"];
    until("the demo", || {
        run(folder.path(), &demo).status.success().then_some(())
    });
    let stopped = Command::new("kill").arg(process.id().to_string()).status();
    assert!(stopped.expect("kill runs").success());
    let output = process.wait_with_output().expect("it ends");
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_script_that_nobody_reads_is_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = durable(folder.path())
        .args(["completions", "bash"])
        .stdout(writer)
        .output()
        .expect("it runs");
    let (_, stderr) = texts(&output);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
}
