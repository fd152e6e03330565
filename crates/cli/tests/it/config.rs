//! Configuration, as the binary reads it.

use std::path::Path;

use serde_json::Value;

use crate::durable::{durable, texts};

fn shown(folder: &Path, arguments: &[&str], env: &[(&str, &str)], key: &str) -> (Value, String) {
    let output = durable(folder)
        .args(["config", "show", "-o", "json"])
        .args(arguments)
        .envs(env.iter().copied())
        .output()
        .expect("it runs");
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(!stdout.contains("s3cret"), "{stdout}");
    let rows: Value = serde_json::from_str(&stdout).expect("JSON");
    let rows = rows.as_array().expect("rows");
    let row = rows
        .iter()
        .find(|row| row["key"] == key)
        .expect("the setting");
    (
        row["value"].clone(),
        row["origin"].as_str().expect("an origin").to_owned(),
    )
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let env = [("DURABLE_HTTP", "127.0.0.1:3")];
    assert_eq!(shown(folder, &[], &[], "http").0, "127.0.0.1:7400");
    std::fs::write(folder.join("durable.toml"), "http = \"127.0.0.1:2\"\n").expect("written");
    let (value, origin) = shown(folder, &[], &[], "http");
    assert_eq!(
        (value, origin.as_str()),
        ("127.0.0.1:2".into(), "file durable.toml")
    );
    std::fs::write(folder.join("other.toml"), "http = \"127.0.0.1:4\"\n").expect("written");
    assert_eq!(
        shown(folder, &["--config", "other.toml"], &[], "http").0,
        "127.0.0.1:4"
    );
    let (value, origin) = shown(folder, &[], &env, "http");
    assert_eq!(
        (value, origin.as_str()),
        ("127.0.0.1:3".into(), "environment DURABLE_HTTP")
    );
    let (value, origin) = shown(folder, &["--http", "127.0.0.1:5"], &env, "http");
    assert_eq!(
        (value, origin.as_str()),
        ("127.0.0.1:5".into(), "flag --http")
    );
}

#[test]
fn secrets_are_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s3cret\n").expect("written");
    let secret = secret.display().to_string();
    let env = [
        ("DATABASE_URL", "postgres://u:s3cret@h/d"),
        ("WORKER_GRPC_AUTH_TOKEN_FILE", secret.as_str()),
        ("DURABLE_TOKENS", "ann:admin:s3cret"),
    ];
    assert_eq!(
        shown(folder.path(), &[], &env, "db").0,
        "postgres://u:***@h/d"
    );
    assert_eq!(shown(folder.path(), &[], &env, "worker_token").0, "***");
    assert_eq!(shown(folder.path(), &[], &env, "tokens").0, "ann:admin:***");
}

#[test]
fn dev_shows_its_own_defaults() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = [("DATABASE_URL", "postgres://real")];
    assert_eq!(
        shown(folder.path(), &["--dev"], &env, "db").0,
        "sqlite:durable.db"
    );
    assert_eq!(
        shown(folder.path(), &["--dev"], &env, "embedded_worker").0,
        "true"
    );
    assert_eq!(
        shown(folder.path(), &[], &env, "embedded_worker").0,
        "false"
    );
}
