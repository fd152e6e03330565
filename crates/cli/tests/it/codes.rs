//! Every exit code, and that errors say what to do.

use serde_json::json;

use crate::durable::{Server, run, texts};

fn code(output: &std::process::Output, expected: i32) -> String {
    let (stdout, stderr) = texts(output);
    assert_eq!(output.status.code(), Some(expected), "{stdout}{stderr}");
    stderr
}

const NOBODY: &str = "01900000-0000-7000-8000-000000000000";

#[test]
fn each_kind_of_end_has_its_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::dev(folder.path(), &["--db", "memory:"]);
    code(&server.ask(&["version"]), 0);

    let waiting = server.program(&json!([{"do": "wait_signal", "name": "go"}]));
    let stderr = code(
        &server.ask(&["workflow", "result", &waiting, "--wait", "0s"]),
        1,
    );
    assert!(stderr.contains("workflow why"), "{stderr}");

    code(&server.ask(&["workflow", "fly"]), 2);
    let stderr = code(
        &server.ask(&["workflow", "start", "durable.program", "--input", "{oops"]),
        2,
    );
    assert!(stderr.contains("not JSON"), "{stderr}");
    let bad = json!({"steps": [{"do": "dance"}]}).to_string();
    code(
        &server.ask(&["workflow", "start", "durable.program", "--input", &bad]),
        2,
    );

    code(&server.ask(&["workflow", "get", NOBODY]), 3);
    let stderr = code(&server.ask(&["workflow", "get", "order-none"]), 3);
    assert!(stderr.contains("order-none"), "{stderr}");

    let program = json!({"steps": []}).to_string();
    let start = [
        "workflow",
        "start",
        "durable.program",
        "--input",
        &program,
        "--id",
        "once",
        "--reuse-policy",
        "reject_duplicate",
    ];
    code(&server.ask(&start), 0);
    code(&server.ask(&start), 4);

    let failing =
        server.program(&json!([{"do": "fail", "type": "Broken", "message": "on purpose"}]));
    let stderr = code(&server.ask(&["workflow", "result", &failing]), 7);
    assert!(stderr.contains("Broken: on purpose"), "{stderr}");
    assert!(stderr.contains("workflow retry"), "{stderr}");
    let stderr = code(&server.ask(&["workflow", "watch", &failing]), 7);
    assert!(stderr.contains("Broken"), "{stderr}");

    code(&server.ask(&["workflow", "cancel", &waiting]), 0);
    let stderr = code(&server.ask(&["workflow", "result", &waiting]), 7);
    assert!(stderr.contains("workflow events"), "{stderr}");
    assert!(
        !stderr.contains("workflow retry"),
        "it is refused: {stderr}"
    );
}

#[test]
fn values_that_are_not_allowed_are_told_with_those_that_are() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, allowed) in [
        (&["task", "list", "--status", "zzz"][..], "in_line"),
        (
            &["workflow", "list", "--status", "running,zzz"],
            "cancelled",
        ),
        (
            &["workflow", "list", "--created-from", "yesterday"],
            "2026-01-31T12:00:00Z",
        ),
        (&["audit", "list", "--kind", "zzz"], "dead_letter"),
        (
            &[
                "schedule", "backfill", "s", "--from", "then", "--until", "now",
            ],
            "2026-01-31T12:00:00Z",
        ),
    ] {
        let stderr = code(&run(folder.path(), arguments), 2);
        assert!(stderr.contains(allowed), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_backfill_of_nothing_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::dev(folder.path(), &["--db", "memory:"]);
    let made = [
        "schedule",
        "create",
        "s",
        "--cron",
        "0 3 * * *",
        "--type",
        "durable.program",
        "--input",
        r#"{"steps":[]}"#,
    ];
    code(&server.ask(&made), 0);
    let backfill = |from: &str, until: &str| {
        server.ask(&[
            "schedule", "backfill", "s", "--from", from, "--until", until,
        ])
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let stderr = code(&backfill(late, early), 2);
    assert!(stderr.contains("is after"), "{stderr}");
    code(&backfill(early, late), 0);
}

#[test]
fn a_schema_that_is_behind_is_told_with_the_command_that_mends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let stderr = code(&run(folder.path(), &["server", "--db", "sqlite:new.db"]), 1);
    assert!(stderr.contains("durable migrate up --db"), "{stderr}");
    assert!(stderr.contains("--migrate"), "{stderr}");
}

#[test]
fn a_server_that_is_not_there_is_code_6_and_says_what_was_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("its address");
    let stderr = code(
        &run(
            folder.path(),
            &["--server", &format!("http://{free}"), "health"],
        ),
        6,
    );
    assert!(
        stderr.contains(&free.to_string()) && stderr.contains("durable dev"),
        "{stderr}"
    );
    let doctor = ["--server", &format!("http://{free}"), "doctor"];
    code(&run(folder.path(), &doctor), 6);
    let url = format!("postgres://nobody@{free}/nowhere");
    let stderr = code(&run(folder.path(), &["migrate", "status", "--db", &url]), 6);
    assert!(stderr.contains(&free.to_string()), "{stderr}");
}

#[test]
fn a_token_that_is_missing_or_not_allowed_to_is_code_5() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = [("DURABLE_TOKENS", "eve:reader:looks")];
    let server = Server::start(folder.path(), "dev", &["--db", "memory:"], &env);
    let stderr = code(&server.ask(&["workflow", "list"]), 5);
    assert!(stderr.contains("hint"), "{stderr}");
    let server = server.with_token("looks");
    code(&server.ask(&["workflow", "list"]), 0);
    code(
        &server.ask(&[
            "workflow",
            "start",
            "durable.program",
            "--input",
            r#"{"steps":[]}"#,
        ]),
        5,
    );
}

#[test]
fn a_bad_setting_is_code_2_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let stderr = code(&run(folder.path(), &["server", "--http", "everywhere"]), 2);
    assert!(stderr.contains("flag --http"), "{stderr}");
    let stderr = code(
        &run(folder.path(), &["server", "--db", "mysql://u:s3cret@h/d"]),
        2,
    );
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[test]
fn audit_of_a_database_ends_with_0_if_it_is_sound_and_with_1_if_it_is_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audited.db");
    let url = format!("sqlite:{}", path.display());
    code(&run(folder.path(), &["audit"]), 2);
    code(&run(folder.path(), &["audit", "--db", &url]), 6);

    let server = Server::dev(folder.path(), &["--db", &url]);
    let ended = server.program(&json!([{"do": "return", "value": 1}]));
    code(&server.ask(&["workflow", "result", &ended]), 0);
    // The server still has the file.
    let stderr = code(&run(folder.path(), &["audit", "--db", &url]), 0);
    assert!(stderr.contains("0 violations"), "{stderr}");
    server.kill();

    let damage = "UPDATE durable_workflow_instances SET task_count = 5";
    let file = rusqlite::Connection::open(&path).expect("the file");
    assert!(file.execute(damage, []).expect("damaged") > 0);
    drop(file);
    let output = run(folder.path(), &["audit", "--db", &url, "-o", "json"]);
    let stderr = code(&output, 1);
    assert!(!stderr.contains("0 violations"), "{stderr}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut found = found.as_array().expect("a list").iter();
    assert!(found.any(|found| found["invariant"] == "I12" && found["run"] == ended));
}
