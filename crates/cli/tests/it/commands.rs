//! Every command against a real server.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use crate::durable::{Server, run, texts, until};

fn server(folder: &tempfile::TempDir) -> Server {
    Server::dev(folder.path(), &["--db", "memory:"])
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A command that must succeed; answers what a person reads.
fn say(server: &Server, arguments: &[&str]) -> String {
    let output = server.ask(arguments);
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    stdout
}

fn status_is(server: &Server, id: &str, status: &str) {
    until(status, || {
        (server.json(&["workflow", "get", id])["status"] == status).then_some(())
    });
}

#[test]
fn a_run_is_started_found_talked_to_and_ended() {
    let folder = folder();
    let server = server(&folder);
    let program = json!({"vars": {"x": 1}, "steps": [
        {"do": "wait_signal", "name": "go", "save": "word"},
        {"do": "return", "value": {"$": "word"}},
    ]});
    std::fs::write(folder.path().join("program.json"), program.to_string()).expect("written");
    let start = [
        "workflow",
        "start",
        "durable.program",
        "--input",
        "@program.json",
        "--id",
        "order-1",
        "-a",
        "customer=A1",
        "-a",
        "amount=3",
    ];
    let id = say(&server, &start).trim().to_owned();
    status_is(&server, &id, "running");

    let listed = say(
        &server,
        &[
            "workflow",
            "list",
            "--status",
            "running",
            "--attribute",
            "customer=A1",
        ],
    );
    assert!(
        listed.contains(&id) && listed.contains("order-1") && listed.contains("ago"),
        "{listed}"
    );
    let none = server.json(&["workflow", "list", "--attribute", "amount=4"]);
    assert_eq!(none["workflows"], json!([]));
    let lines = say(
        &server,
        &[
            "workflow",
            "list",
            "--workflow-id",
            "order-1",
            "-o",
            "jsonl",
        ],
    );
    let line: Value = serde_json::from_str(lines.trim()).expect("one object a line");
    assert_eq!(line["id"], id.as_str());

    assert!(say(&server, &["workflow", "get", "order-1"]).contains(&id));
    let why = say(&server, &["workflow", "why", "order-1"]);
    assert!(why.contains("go"), "{why}");
    let vars = server.json(&["workflow", "query", "order-1", "vars"]);
    assert_eq!(vars["result"]["x"], 1, "{vars}");
    let set = json!({"name": "x", "value": 5}).to_string();
    say(
        &server,
        &["workflow", "update", "order-1", "set_var", "--input", &set],
    );
    assert_eq!(
        server.json(&["workflow", "query", "order-1", "vars"])["result"]["x"],
        5
    );
    let unknown = json!({"name": "y", "value": 5}).to_string();
    let refused = server.ask(&[
        "workflow", "update", "order-1", "set_var", "--input", &unknown,
    ]);
    assert_eq!(refused.status.code(), Some(7), "{:?}", texts(&refused));

    let signal = [
        "workflow", "signal", "order-1", "go", "--input", "\"well\"", "--id", "s1",
    ];
    say(&server, &signal);
    assert_eq!(
        say(&server, &["workflow", "result", "order-1"]).trim(),
        "well"
    );
    let events = say(&server, &["workflow", "events", "order-1"]);
    assert!(
        events.contains("workflow.completed") && events.contains("signal"),
        "{events}"
    );
    let watched = say(&server, &["workflow", "watch", "order-1"]);
    assert!(
        watched.contains("workflow.started") && watched.trim_end().ends_with("well"),
        "{watched}"
    );
}

/// Gives every field of a name, wherever it stands, another text; answers whether there was one.
fn rename(value: &mut Value, name: &str, text: &str) -> bool {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| rename(item, name, text) | found),
        Value::Object(fields) => fields.iter_mut().fold(false, |found, (key, value)| {
            if key == name {
                *value = text.into();
                return true;
            }
            rename(value, name, text) | found
        }),
        _ => false,
    }
}

#[test]
fn an_exported_history_replays_and_a_changed_one_does_not() {
    let folder = folder();
    let server = server(&folder);
    let id = server.program(&json!([
        {"do": "activity", "type": "add", "input": {"a": 1, "b": 2}, "save": "sum"},
        {"do": "return", "value": {"$": "sum"}},
    ]));
    assert_eq!(say(&server, &["workflow", "result", &id]).trim(), "3");
    say(&server, &["workflow", "export", &id, "--file", "h.json"]);
    let output = run(folder.path(), &["replay", "h.json"]);
    let (stdout, stderr) = texts(&output);
    assert!(
        output.status.success() && stdout.contains("replay"),
        "{stdout}{stderr}"
    );

    let text = std::fs::read_to_string(folder.path().join("h.json")).expect("the file");
    let mut history: Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        rename(&mut history["events"], "activity_type", "echo"),
        "{text}"
    );
    std::fs::write(folder.path().join("changed.json"), history.to_string()).expect("written");
    assert_ne!(
        run(folder.path(), &["replay", "changed.json"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        run(folder.path(), &["replay", "none.json"]).status.code(),
        Some(3)
    );
    std::fs::write(folder.path().join("no.json"), "[]").expect("written");
    assert_eq!(
        run(folder.path(), &["replay", "no.json"]).status.code(),
        Some(2)
    );
}

#[test]
fn runs_are_cancelled_terminated_retried_and_reset() {
    let folder = folder();
    let server = server(&folder);
    let wait = json!([{"do": "wait_signal", "name": "go"}]);
    let id = server.program(&wait);
    say(&server, &["workflow", "cancel", &id, "--reason", "enough"]);
    status_is(&server, &id, "cancelled");
    let id = server.program(&wait);
    say(&server, &["workflow", "terminate", &id]);
    status_is(&server, &id, "failed");

    let id = server.program(&json!([
        {"do": "activity", "type": "fail_n", "input": {"n": 1}, "options": {"max_attempts": 1}, "save": "a"},
        {"do": "return", "value": {"$": "a"}},
    ]));
    status_is(&server, &id, "failed");
    let letters = server.json(&["dlq", "list"]);
    assert_eq!(
        letters["dead_letters"][0]["run_id"],
        id.as_str(),
        "{letters}"
    );
    assert!(say(&server, &["dlq", "list"]).contains("fail_n"));
    say(&server, &["workflow", "retry", &id]);
    until("the second failure", || {
        (server.json(&["workflow", "get", &id])["epoch"] == 1).then_some(())
    });

    let id = server
        .program(&json!([{"do": "wait_signal", "name": "a"}, {"do": "wait_signal", "name": "b"}]));
    say(&server, &["workflow", "signal", &id, "a"]);
    say(&server, &["workflow", "reset", &id, "--to", "1"]);
    assert_eq!(server.json(&["workflow", "get", &id])["epoch"], 1);
}

#[test]
fn a_batch_looks_first_and_acts_when_told_to() {
    let folder = folder();
    let server = server(&folder);
    let wait = json!([{"do": "wait_signal", "name": "go"}]);
    let ids: Vec<String> = (0..3).map(|_| server.program(&wait)).collect();
    assert_eq!(
        server.ask(&["batch", "cancel"]).status.code(),
        Some(2),
        "a filter is needed"
    );
    for id in &ids {
        status_is(&server, id, "running");
    }
    // The demo of `durable dev` may still be on its way.
    until("only these run", || {
        let listed = say(&server, &["workflow", "list", "--status", "running"]);
        (listed
            .lines()
            .filter(|line| line.contains("durable.program"))
            .count()
            == 3)
            .then_some(())
    });
    let looked = say(
        &server,
        &[
            "batch",
            "cancel",
            "--status",
            "running",
            "--type",
            "durable.program",
        ],
    );
    assert!(
        looked.contains("3 runs") && looked.contains("--yes"),
        "{looked}"
    );
    say(
        &server,
        &[
            "batch",
            "cancel",
            "--status",
            "running",
            "--type",
            "durable.program",
            "--yes",
        ],
    );
    for id in &ids {
        status_is(&server, id, "cancelled");
    }
}

#[test]
fn schedules_are_made_triggered_paused_and_deleted() {
    let folder = folder();
    let server = server(&folder);
    let program = json!({"steps": []}).to_string();
    let create = [
        "schedule",
        "create",
        "nightly",
        "--cron",
        "0 3 * * *",
        "--type",
        "durable.program",
        "--input",
        &program,
        "--time-zone",
        "Europe/Vienna",
        "--overlap",
        "skip",
    ];
    let made = say(&server, &create);
    assert!(made.contains("in "), "{made}");
    let run = say(&server, &["schedule", "trigger", "nightly"])
        .trim()
        .to_owned();
    status_is(&server, &run, "completed");
    say(&server, &["schedule", "pause", "nightly"]);
    assert!(say(&server, &["schedule", "list"]).contains("paused"));
    say(&server, &["schedule", "resume", "nightly"]);
    assert_eq!(
        server.json(&["schedule", "get", "nightly"])["paused"],
        false
    );
    let backfill = [
        "schedule",
        "backfill",
        "nightly",
        "--from",
        "2026-01-01T00:00:00Z",
        "--until",
        "2026-01-03T00:00:00Z",
    ];
    assert!(say(&server, &backfill).contains("2 runs"));
    say(&server, &["schedule", "delete", "nightly"]);
    assert_eq!(
        server.ask(&["schedule", "get", "nightly"]).status.code(),
        Some(3)
    );
}

#[test]
fn the_system_is_looked_at() {
    let folder = folder();
    let server = server(&folder);
    assert!(say(&server, &["health"]).contains("healthy"));
    let workers = server.json(&["worker", "list"]);
    let id = workers["workers"][0]["id"]
        .as_str()
        .expect("a worker")
        .to_owned();
    assert!(say(&server, &["worker", "list"]).contains("echo"));
    // Flags of all commands stand anywhere; those of hosting do not go with looking after workers.
    for arguments in [
        &["worker", "-o", "json", "list"][..],
        &[
            "worker",
            "--output",
            "jsonl",
            "--server",
            &server.http,
            "list",
        ],
    ] {
        assert!(say(&server, arguments).contains(&id), "{arguments:?}");
    }
    let both = ["worker", "--connect", &server.grpc, "list"];
    let refused = server.ask(&both);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    say(&server, &["breaker", "list"]);
    say(&server, &["set-aside", "list"]);
    let unknown = uuid::Uuid::nil().to_string();
    let refused = server.ask(&["set-aside", "retry", &unknown]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    say(&server, &["task", "list"]);
    say(&server, &["task", "stats"]);
    let doctor = say(&server, &["doctor"]);
    assert!(
        doctor.contains("stuck runs") && doctor.contains("clock"),
        "{doctor}"
    );
    say(&server, &["worker", "drain", &id]);
    assert_eq!(
        server.ask(&["worker", "drain", "nobody"]).status.code(),
        Some(3)
    );
    assert!(say(&server, &["completions", "bash"]).contains("durable"));
}

#[test]
fn output_for_programs_has_no_colour_and_no_notes() {
    let folder = folder();
    let server = server(&folder);
    let id = server.program(&json!([{"do": "return", "value": {"a": 1}}]));
    let result = server.json(&["workflow", "result", &id]);
    assert_eq!(result["result"], json!({"a": 1}));
    assert!(!say(&server, &["workflow", "list"]).contains('\u{1b}'));
}

/// More digits than a double has, or any integer that the program calculates with.
const LARGE: &str = "12345678901234567890123";

#[test]
fn numbers_keep_their_digits_from_the_input_to_the_output() {
    let folder = folder();
    let server = server(&folder);
    let steps = r#"[{"do": "wait_signal", "name": "go"}]"#;
    let input = format!(r#"{{"vars": {{"n": {LARGE}}}, "steps": {steps}}}"#);
    let start = ["workflow", "start", "durable.program", "--id", "large"];
    say(
        &server,
        &[&start[..], &["--input", &input, "--memo", LARGE]].concat(),
    );
    say(
        &server,
        &["workflow", "signal", "large", "go", "--input", LARGE],
    );
    say(&server, &["workflow", "result", "large"]);
    for format in ["json", "jsonl", "table"] {
        for command in ["get", "events", "watch"] {
            let said = say(&server, &["workflow", command, "large", "-o", format]);
            assert!(said.contains(LARGE), "{command} -o {format}: {said}");
        }
    }
    let events = say(&server, &["workflow", "events", "large", "-o", "json"]);
    assert_eq!(
        events.matches(LARGE).count(),
        2,
        "input and signal: {events}"
    );
}

#[test]
fn a_result_keeps_its_digits() {
    // Workflows of one's own answer whatever they like; a server that says so stands in for theirs.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("connected");
            let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
            while lines
                .next()
                .is_some_and(|line| !line.expect("text").is_empty())
            {}
            let body = format!(r#"{{"id":"x","status":"completed","result":{{"n":{LARGE}}}}}"#);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).expect("sent");
        }
    });
    let folder = folder();
    let id = "01900000-0000-7000-8000-000000000000";
    let said = |format: &str| {
        let command = ["--server", &server, "workflow", "result", id, "-o", format];
        let (stdout, stderr) = texts(&run(folder.path(), &command));
        assert!(!stdout.is_empty(), "{stderr}");
        stdout
    };
    assert_eq!(said("table"), format!("{{\n  \"n\": {LARGE}\n}}\n"));
    assert!(said("json").contains(&format!("\n    \"n\": {LARGE}\n")));
    assert!(said("jsonl").contains(&format!(r#""result":{{"n":{LARGE}}}"#)));
}
