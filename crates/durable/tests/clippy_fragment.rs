//! The guide's `clippy.toml` refuses what workflow code may not use, and lets pass what it should.

use std::fs;
use std::path::Path;
use std::process::Command;

const FRAGMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/clippy.toml");
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");

/// Each line but the first and the last uses something that the fragment names.
const FORBIDDEN: &str = r#"pub async fn workflow() {
    let _ = std::time::SystemTime::now();
    let _ = std::time::Instant::now();
    let _ = std::env::var("HOME");
    let _ = std::collections::HashMap::<u8, u8>::new();
    std::thread::sleep(std::time::Duration::ZERO);
    tokio::time::sleep(std::time::Duration::ZERO).await;
    let _ = tokio::spawn(async {});
    let _ = tokio::time::timeout(std::time::Duration::ZERO, async {}).await;
    let _ = fastrand::u64(..);
    let _ = uuid::Uuid::now_v7();
}
"#;

/// What the prelude's `select!` is: tokio's, in order.
const ALLOWED: &str = r#"
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => { ::tokio::select! { biased; $($branches)* } };
}
pub async fn workflow() -> std::collections::BTreeMap<u8, u8> {
    select! { map = async { std::collections::BTreeMap::new() } => map }
}
"#;

const MANIFEST: &str = r#"
[package]
name = "workflows"
version = "0.1.0"
edition = "2024"

[dependencies]
fastrand = "2"
tokio = { version = "1", features = ["macros", "rt", "time"] }
uuid = { version = "1", features = ["v7"] }

[workspace]
"#;

/// Lints a crate with the fragment beside its manifest; answers what clippy said.
fn clippy(source: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("src")).expect("a folder");
    fs::write(place("Cargo.toml"), MANIFEST).expect("written");
    fs::write(place("src/lib.rs"), source).expect("written");
    fs::copy(FRAGMENT, place("clippy.toml")).expect("the fragment is there");
    // The versions that are downloaded already.
    fs::copy(LOCK, place("Cargo.lock")).expect("the lock is there");
    // Kept between runs, so that the dependencies are looked at once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clippy_fragment");
    let output = Command::new(env!("CARGO"))
        .args(["clippy", "--offline", "--quiet", "--manifest-path"])
        .arg(place("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env_remove("CLIPPY_CONF_DIR")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .expect("cargo can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn clippy_refuses_what_a_workflow_may_not_use_and_nothing_else() {
    let said = clippy(FORBIDDEN);
    let bad = FORBIDDEN.lines().count() - 2;
    for line in 2..bad + 2 {
        assert!(
            said.contains(&format!("src/lib.rs:{line}:")),
            "line {line} passes:\n{said}"
        );
    }
    assert!(said.contains("use ctx.sleep()"), "{said}");
    let said = clippy(ALLOWED);
    assert!(said.is_empty(), "{said}");
}
