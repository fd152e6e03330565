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
    let stderr = code(&server.ask(&["workflow", "watch", &failing]), 7);
    assert!(stderr.contains("Broken"), "{stderr}");
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
