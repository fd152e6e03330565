//! Which doors a server opens, and which it refuses to.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::durable::{Server, durable, run, runtime, texts, until};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn refused(folder: &Path, arguments: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = durable(folder)
        .args(arguments)
        .envs(env.iter().copied())
        .output()
        .expect("it runs");
    (output.status.code(), texts(&output).1)
}

#[test]
fn no_door_beyond_this_machine_opens_without_tokens() {
    let folder = folder();
    for flag in ["--http", "--grpc"] {
        for command in ["server", "dev"] {
            let (code, stderr) = refused(
                folder.path(),
                &[command, "--db", "memory:", flag, "0.0.0.0:0"],
                &[],
            );
            assert_eq!(code, Some(2), "{stderr}");
            assert!(stderr.contains("durable token create"), "{stderr}");
        }
    }
}

#[test]
fn in_production_no_door_opens_without_tokens() {
    let folder = folder();
    let production = [("DURABLE_ENV", "production")];
    let arguments = [
        "server",
        "--db",
        "memory:",
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
    ];
    let (code, stderr) = refused(folder.path(), &arguments, &production);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("WORKER_GRPC_AUTH_TOKEN"), "{stderr}");
    let env = [
        ("DURABLE_ENV", "production"),
        ("WORKER_GRPC_AUTH_TOKEN", "secret"),
    ];
    let server = Server::start(folder.path(), "server", &["--db", "memory:"], &env);
    assert_eq!(
        server.ask(&["health"]).status.code(),
        Some(5),
        "nobody reads without a token"
    );
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let (code, stderr) = refused(
        folder.path(),
        &["server", "--db", "memory:", "--http", &address],
        &[],
    );
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
}

#[test]
fn a_schema_that_is_behind_is_an_error_that_names_the_way_out() {
    let folder = folder();
    let arguments = ["server", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let (code, stderr) = refused(folder.path(), &arguments, &[]);
    assert_ne!(code, Some(0));
    assert!(stderr.contains("migrat"), "{stderr}");
    let output = run(folder.path(), &["migrate"]);
    assert!(output.status.success(), "{:?}", texts(&output));
    let output = run(folder.path(), &["migrate", "validate"]);
    assert!(output.status.success(), "{:?}", texts(&output));
    let mut server = Server::start(folder.path(), "server", &[], &[]);
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_server_with_too_much_waiting_says_when_to_come_back() {
    let folder = folder();
    let arguments = [
        "--db",
        "memory:",
        "--max-queue-ratio",
        "1",
        "--overload-retry-after",
        "7s",
    ];
    let one_slot = [("MAX_CONCURRENT_TASKS", "1")];
    let server = Server::start(folder.path(), "dev", &arguments, &one_slot);
    let long = json!([{"do": "activity", "type": "sleep", "input": {"ms": 600_000}}]);
    // One runs, the others wait: more than one for each slot is too much.
    server.program(&json!([{"do": "parallel", "branches": [long, long, long]}]));
    let body = json!({"workflow_type": "durable.program", "input": {"steps": []}});
    let url = format!("{}/v1/durable/workflows", server.http);
    let refused = until("a start to be refused", || {
        let sent = crate::durable::http().post(&url).json(&body).send();
        let response = runtime().block_on(sent).expect("an answer");
        (response.status() != 201).then_some(response)
    });
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "7");
    let start = [
        "workflow",
        "start",
        "durable.program",
        "--input",
        "{\"steps\":[]}",
    ];
    let (_, stderr) = texts(&server.ask(&start));
    assert!(stderr.contains("too much is waiting"), "{stderr}");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for() {
    let folder = folder();
    let server = Server::dev(
        folder.path(),
        &["--db", "memory:", "--header-timeout", "300ms"],
    );
    for url in [&server.http, &server.grpc] {
        let address = url.strip_prefix("http://").expect("no TLS");
        // Nothing at all; the beginning of headers; the beginning of HTTP/2's preface.
        for begun in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n", "PRI * HT"] {
            let mut stream = TcpStream::connect(address).expect("connected");
            stream.write_all(begun.as_bytes()).expect("sent");
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .expect("set");
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest);
            assert!(
                end.is_ok()
                    || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
                "{begun:?} was waited for"
            );
        }
    }
}
