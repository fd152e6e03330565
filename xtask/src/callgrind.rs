//! How many instructions the replay of a history of a thousand events takes, counted by callgrind: a number that no busy machine changes.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::{process, workspace::Workspace};

/// Replays counted; what the program needs before the first is counted too, and taken off.
const REPLAYS: u64 = 10;
/// How much more than the committed number is let through, in percent: what another compiler may cost.
const SLACK_PERCENT: u64 = 10;
/// Where the committed number is.
const COMMITTED: &str = "crates/core/examples/replay/instructions";

/// What a count means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the slack.
    Same { counted: u64, committed: u64 },
    /// Much cheaper than the committed number, which should follow, or the next change may waste what was won.
    Cheaper { counted: u64, committed: u64 },
    /// Dearer than is let through.
    Dearer { counted: u64, committed: u64 },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Same { counted, committed }
        | Self::Cheaper { counted, committed }
        | Self::Dearer { counted, committed }) = self;
        let told = match self {
            Self::Same { .. } => "about the same",
            Self::Cheaper { .. } => "cheaper: keep it with `cargo xtask ratchet --update`",
            Self::Dearer { .. } => {
                "too dear: find out why, or, if it is worth it, `cargo xtask ratchet --update`"
            }
        };
        write!(
            f,
            "a replay takes {counted} instructions, {committed} are committed: {told}"
        )
    }
}

/// Compares a count with the committed one.
pub(crate) fn judge(counted: u64, committed: u64) -> Verdict {
    let slack = committed / 100 * SLACK_PERCENT;
    if counted > committed + slack {
        Verdict::Dearer { counted, committed }
    } else if counted < committed - slack {
        Verdict::Cheaper { counted, committed }
    } else {
        Verdict::Same { counted, committed }
    }
}

/// Whether callgrind can be run.
pub(crate) fn is_installed() -> bool {
    Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Builds the program and counts one replay.
pub(crate) fn count(workspace: &Workspace) -> anyhow::Result<u64> {
    let mut build = workspace.cargo();
    build.args(["build", "--quiet", "--release", "-p", "durable-core"]);
    build.args(["--example", "replay"]);
    if !process::run(&mut build)?.success() {
        bail!("the example `replay` cannot be built");
    }
    let program = workspace.target().join("release/examples/replay");
    let (one, more) = (
        instructions(&program, 1)?,
        instructions(&program, 1 + REPLAYS)?,
    );
    Ok(more.saturating_sub(one) / REPLAYS)
}

fn instructions(program: &Path, replays: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg(replays.to_string())
        .output()
        .context("valgrind cannot be run")?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind failed:\n{told}");
    }
    collected(&told).with_context(|| format!("valgrind told no count:\n{told}"))
}

/// The count in `==123== Collected : 456`.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// The committed number.
pub(crate) fn committed(workspace: &Workspace) -> anyhow::Result<u64> {
    let path = file(workspace);
    let text = fs::read_to_string(&path);
    let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
    let number = text.trim().parse();
    number.with_context(|| format!("{} holds no number", path.display()))
}

/// Replaces it.
pub(crate) fn commit(workspace: &Workspace, counted: u64) -> anyhow::Result<()> {
    let path = file(workspace);
    let written = fs::write(&path, format!("{counted}\n"));
    written.with_context(|| format!("{} cannot be written", path.display()))
}

fn file(workspace: &Workspace) -> PathBuf {
    workspace.root().join(COMMITTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_let_through_and_no_more() {
        let judged = |counted| judge(counted, 1_000);
        assert!(matches!(judged(1_000), Verdict::Same { .. }));
        assert!(matches!(judged(1_100), Verdict::Same { .. }));
        assert!(matches!(judged(1_101), Verdict::Dearer { .. }));
        assert!(matches!(judged(899), Verdict::Cheaper { .. }));
    }

    #[test]
    fn the_count_is_found_in_what_callgrind_tells() {
        let told = "==7== Events    : Ir\n==7== Collected : 12345\n==7== \n";
        assert_eq!(collected(told), Some(12_345));
        assert_eq!(collected("==7== nothing"), None);
    }
}
