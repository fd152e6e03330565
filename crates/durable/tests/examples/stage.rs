//! Builds the examples and runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where the built examples are. Built here, so that none is older than its source, whichever tests were asked for.
fn examples() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let this = std::env::current_exe().expect("a test has a path");
        let profile = this
            .parent()
            .and_then(Path::parent)
            .expect("TARGET/PROFILE/deps/TEST");
        let target = profile.parent().expect("TARGET/PROFILE");
        let name = profile
            .file_name()
            .expect("a profile has a name")
            .to_string_lossy();
        let mut cargo = Command::new(env!("CARGO"));
        // The whole workspace, as the tests are built: the same features, so that only the examples themselves are left to build.
        cargo
            .args(["build", "--quiet", "--workspace", "--examples"])
            .arg("--target-dir")
            .arg(target);
        cargo.args(["--profile", if name == "debug" { "dev" } else { &name }]);
        let status = cargo.status().expect("cargo can be started");
        assert!(status.success(), "the examples cannot be built");
        profile.join("examples")
    })
}

/// Examples take seconds; one that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs an example on a store in memory; answers what it printed.
pub(crate) fn story(example: &str) -> Vec<String> {
    told_by(Command::new(examples().join(example)).env_remove("DATABASE_URL"))
}

/// Runs an example on a store.
pub(crate) fn story_on(example: &str, url: &str) -> Vec<String> {
    told_by(Command::new(examples().join(example)).env("DATABASE_URL", url))
}

fn told_by(example: &mut Command) -> Vec<String> {
    let mut child = example
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example can be started");
    let began = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().expect("it is ours");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let text = String::from_utf8(output.stdout).expect("examples print text");
    let errors = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{example:?}: {status}\n{text}{errors}");
    text.lines().map(str::to_owned).collect()
}

/// Each of these begins some line, in this order.
pub(crate) fn assert_tells(story: &[String], parts: &[&str]) {
    let mut lines = story.iter();
    for part in parts {
        let told = lines.any(|line| line.starts_with(part));
        assert!(
            told,
            "{part:?} is missing, or in another place:\n{}",
            story.join("\n")
        );
    }
}

/// Each of these is a line, wherever.
pub(crate) fn assert_mentions(story: &[String], whole_lines: &[&str]) {
    for line in whole_lines {
        assert!(
            story.iter().any(|told| told == line),
            "{line:?} is missing:\n{}",
            story.join("\n")
        );
    }
}
