//! The suite in another language: a Python worker and the contract as Python sees it, against the real binary.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use super::{Context, Counts, Row};
use crate::process;

/// Runs pytest in an environment below the target folder, which is made when it is missing or its requirements have changed.
pub(super) fn suite(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    let root = context.workspace.root();
    let (tests, home) = (
        root.join("tests/python"),
        context.workspace.target().join("python"),
    );
    let python = environment(&home, &tests.join("requirements.txt"))?;
    let stubs = stubs(&python, &home, &root.join("crates/proto/proto"))?;
    let mut build = context.workspace.cargo();
    build.args(["build", "--quiet", "--package", "durable"]);
    succeed(&mut build)?;
    let binary = context.workspace.target().join("debug/durable");
    let mut command = Command::new(&python);
    command
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(&tests)
        .env("DURABLE_TEST_BINARY", binary)
        .env("DURABLE_TEST_STUBS", stubs)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let mut last = String::new();
    let status = process::run_by_line(&mut command, |line| {
        if !line.trim().is_empty() {
            line.clone_into(&mut last);
        }
        Ok(writeln!(io::stdout(), "{line}")?)
    })?;
    Ok(vec![Row {
        target: "tests/python".to_owned(),
        counts: judge(&last, status.success()),
    }])
}

/// The environment's interpreter.
fn environment(home: &Path, requirements: &Path) -> anyhow::Result<PathBuf> {
    let (venv, stamp) = (home.join("venv"), home.join("requirements.txt"));
    let python = venv.join("bin/python");
    let wanted = fs::read(requirements).context("the requirements cannot be read")?;
    if python.exists() && fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    fs::create_dir_all(home)?;
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    succeed(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "-r"])
            .arg(requirements),
    )?;
    fs::write(stamp, wanted)?;
    Ok(python)
}

/// The folder of the generated stubs: made from the contract each time, so that they cannot be stale.
fn stubs(python: &Path, home: &Path, proto: &Path) -> anyhow::Result<PathBuf> {
    let stubs = home.join("stubs");
    fs::create_dir_all(&stubs)?;
    let mut command = Command::new(python);
    command.args(["-m", "grpc_tools.protoc", "-I"]).arg(proto);
    for kind in ["python_out", "grpc_python_out"] {
        command.arg(format!("--{kind}={}", stubs.display()));
    }
    succeed(command.arg(proto.join("durable/v1/worker.proto")))?;
    Ok(stubs)
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = process::run(command)?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Reads pytest's last line, `2 failed, 11 passed, 1 skipped in 3.20s`. One that says nothing is a failure.
fn judge(last: &str, succeeded: bool) -> Counts {
    let count = |what: &str| {
        let parts = last.trim_matches(['=', ' ']).split([',', ' ']);
        let words: Vec<&str> = parts.filter(|word| !word.is_empty()).collect();
        let place = words
            .iter()
            .position(|word| word.trim_end_matches('s') == what.trim_end_matches('s'));
        place
            .and_then(|place| words.get(place.checked_sub(1)?))
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let (passed, failed) = (count("passed"), count("failed") + count("errors"));
    let broken = !succeeded || passed == 0;
    Counts {
        passed,
        failed: failed.max(u64::from(broken)),
        ignored: count("skipped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(last: &str, succeeded: bool) -> (u64, u64, u64) {
        let counts = judge(last, succeeded);
        (counts.passed, counts.failed, counts.ignored)
    }

    #[test]
    fn pytest_is_read_by_its_last_line() {
        assert_eq!(says("13 passed in 3.20s", true), (13, 0, 0));
        assert_eq!(
            says("== 2 failed, 11 passed, 1 skipped in 3.2s ==", false),
            (11, 2, 1)
        );
        assert_eq!(says("3 passed, 1 error in 0.1s", false), (3, 1, 0));
        assert_eq!(says("13 passed in 3.20s", false), (13, 1, 0));
        assert_eq!(says("no tests ran in 0.01s", true), (0, 1, 0));
    }
}
