//! `durable token`, and a server that uses the file.

use crate::durable::{Server, run, texts, until};

fn make(folder: &std::path::Path, arguments: &[&str]) -> String {
    let output = run(folder, &[&["token", "create"], arguments].concat());
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    stdout.trim().to_owned()
}

#[test]
fn tokens_are_made_shown_once_used_and_revoked_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let boss = make(folder.path(), &["boss", "--role", "admin"]);
    let reader = make(
        folder.path(),
        &["reader", "--role", "reader", "--expires-in", "1h"],
    );
    let file = std::fs::read_to_string(folder.path().join("tokens.toml")).expect("the file");
    assert!(!file.contains(&boss) && !file.contains(&reader), "{file}");
    let (listed, _) = texts(&run(folder.path(), &["token", "list"]));
    assert!(
        listed.contains("boss") && listed.contains("in 59m") && listed.contains("never"),
        "{listed}"
    );
    let again = run(
        folder.path(),
        &["token", "create", "boss", "--role", "reader"],
    );
    assert_eq!(again.status.code(), Some(4));

    let server = Server::dev(
        folder.path(),
        &["--db", "memory:", "--token-file", "tokens.toml"],
    )
    .with_token(&reader);
    assert_eq!(server.ask(&["workflow", "list"]).status.code(), Some(0));
    assert_eq!(
        server.ask(&["dlq", "purge", "--yes"]).status.code(),
        Some(5)
    );
    let revoked = run(folder.path(), &["token", "revoke", "reader"]);
    assert!(revoked.status.success(), "{:?}", texts(&revoked));
    until("the server to see it", || {
        (server.ask(&["workflow", "list"]).status.code() == Some(5)).then_some(())
    });
    let server = server.with_token(&boss);
    assert_eq!(
        server.ask(&["dlq", "purge", "--yes"]).status.code(),
        Some(0)
    );
    assert_eq!(
        run(folder.path(), &["token", "revoke", "nobody"])
            .status
            .code(),
        Some(3)
    );
}
