//! `durable worker --connect`: a process that works for a server, and leaves politely.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::durable::{Process, Server, durable, run, runtime, texts, until};

/// A server that hosts nothing itself.
fn server(folder: &Path, env: &[(&str, &str)]) -> Server {
    let arguments = ["--db", "memory:", "--migrate"];
    Server::start(folder, "server", &arguments, env)
}

/// A worker for it, up and known; its log goes to the file.
fn worker(
    folder: &Path,
    server: &Server,
    arguments: &[&str],
    env: &[(&str, &str)],
) -> (Process, PathBuf) {
    let log = folder.join("worker.log");
    let file = std::fs::File::create(&log).expect("a file");
    let mut worker = Process::start(
        durable(folder)
            .args(["worker", "--connect", &server.grpc])
            .args(arguments)
            .envs(env.iter().copied())
            .stderr(Stdio::from(file)),
    );
    worker.line_with("works for");
    (worker, log)
}

/// Starts a program by HTTP; answers its run.
fn start(server: &Server, steps: &Value) -> String {
    let body = json!({"workflow_type": "durable.program", "input": {"steps": steps}});
    let url = format!("{}/v1/durable/workflows", server.http);
    runtime().block_on(async {
        let response = crate::durable::http().post(url).json(&body).send().await;
        let response = response.expect("an answer");
        assert_eq!(response.status(), 201);
        let run: Value = response.json().await.expect("JSON");
        run["id"].as_str().expect("an id").to_owned()
    })
}

#[test]
fn a_worker_of_its_own_runs_programs_and_ends_with_0() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path(), &[]);
    let id = start(
        &server,
        &json!([
            {"do": "activity", "type": "add", "input": {"a": 1, "b": 2}, "save": "sum"},
            {"do": "sleep", "ms": 10},
            {"do": "return", "value": {"$": "sum"}},
        ]),
    );
    let nobody = server.json(&["workflow", "why", &id]);
    let (mut worker, log) = worker(folder.path(), &server, &[], &[]);
    let result = server.json(&["workflow", "result", &id, "--wait", "60s"]);
    assert_eq!(result["result"], 3, "{result}, before: {nobody}");
    worker.signal("TERM");
    assert_eq!(worker.ended().code(), Some(0));
    let log = std::fs::read_to_string(log).expect("a log");
    for line in ["working", "draining"] {
        assert!(log.contains(line), "{line:?} is not in {log}");
    }
}

#[test]
fn a_token_that_may_not_work_is_code_5_and_says_which_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = [("DURABLE_TOKENS", "eve:reader:looks")];
    let server = server(folder.path(), &env);
    let connect = ["worker", "--connect", &server.grpc, "--worker-token"];
    for token in ["looks", "nobody's"] {
        let ended = run(folder.path(), &[&connect[..], &[token]].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(5), "{stderr}");
        assert!(stderr.contains("--role worker"), "{stderr}");
    }
}

#[test]
fn a_worker_that_stops_gives_back_what_it_runs_without_an_attempt_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path(), &[]);
    let steps = json!([{"do": "activity", "type": "sleep", "input": {"ms": 600_000}}]);
    let id = start(&server, &steps);
    let (mut worker, log) = worker(folder.path(), &server, &["--grace", "600ms"], &[]);
    let task = || server.json(&["task", "list", "--run", &id])["tasks"][0].clone();
    until("the activity to run", || {
        (task()["status"] == "claimed").then_some(())
    });
    worker.signal("INT");
    assert_eq!(
        worker.ended().code(),
        Some(0),
        "{:?}",
        std::fs::read_to_string(log)
    );
    let task = task();
    assert_eq!(
        (&task["status"], &task["attempt"]),
        (&json!("pending"), &json!(0)),
        "{task}"
    );
}

#[test]
fn a_worker_shows_the_token_of_its_flag_then_of_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("token");
    std::fs::write(&secret, "right\n").expect("written");
    let secret = secret.display().to_string();
    let server = server(folder.path(), &[("WORKER_GRPC_AUTH_TOKEN", "right")]);
    let direct = |token| [("WORKER_GRPC_AUTH_TOKEN", token)];
    let by_file = [("WORKER_GRPC_AUTH_TOKEN_FILE", secret.as_str())];
    let flag: &[&str] = &["--worker-token", "right"];
    for (arguments, env) in [
        (flag, &direct("wrong")[..]),
        (&[], &direct("right")),
        (&[], &by_file),
    ] {
        let (mut worker, log) = worker(folder.path(), &server, arguments, env);
        worker.signal("TERM");
        assert_eq!(
            worker.ended().code(),
            Some(0),
            "{:?}",
            std::fs::read_to_string(log)
        );
    }
    let output = run(
        folder.path(),
        &[
            "worker",
            "--connect",
            &server.grpc,
            "--worker-token",
            "wrong",
        ],
    );
    assert_eq!(output.status.code(), Some(5), "{:?}", texts(&output));
}

#[test]
fn a_worker_without_a_server_is_told_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    drop(taken);
    let output = run(
        folder.path(),
        &["worker", "--connect", &format!("http://{address}")],
    );
    assert_eq!(output.status.code(), Some(6), "{:?}", texts(&output));
    let output = run(folder.path(), &["worker", "--max-concurrent-tasks", "1"]);
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--connect"), "{stderr}");
}
