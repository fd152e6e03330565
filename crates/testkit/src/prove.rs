//! The proof of the proof: known mistakes, planted one at a time, and the suite that catches each.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::Context as _;
use everruns_durable::persistence::Bug;

/// The environment variable by which a build with planted bugs chooses one.
const CHOICE: &str = "DURABLE_PLANTED_BUG";
/// Longest part of a failure that a table shows.
const SHOWN_MAX: usize = 90;

/// What is run against each bug, in order, until something fails: commands of this program.
#[derive(Debug, Clone)]
pub struct Suites(Vec<(&'static str, Vec<&'static str>)>);

impl Suites {
    /// Only the memory store.
    #[must_use]
    pub fn quick() -> Self {
        Self(vec![
            (
                "conformance",
                vec!["conformance", "--stores", "memory", "--fail-fast"],
            ),
            (
                "faults",
                vec!["faults", "--stores", "memory", "--plans", "40"],
            ),
            (
                "random intents",
                vec![
                    "differential",
                    "--stores",
                    "memory,memory",
                    "--steps",
                    "8000",
                    "--seed",
                    "1",
                ],
            ),
        ])
    }

    /// Memory and SQLite.
    #[must_use]
    pub fn full() -> Self {
        let mut suites = Self::quick();
        suites.0.insert(
            1,
            (
                "conformance",
                vec!["conformance", "--stores", "sqlite", "--fail-fast"],
            ),
        );
        suites
    }
}

/// Whether a bug was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A suite failed.
    Caught {
        /// Which one.
        suite: String,
        /// What it says.
        by: String,
    },
    /// All passed.
    Missed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught { suite, by } => write!(f, "caught by {suite}: {by}"),
            Self::Missed => f.write_str("NOT CAUGHT"),
        }
    }
}

/// Runs the suites in processes of their own, since a bug is planted for a whole process.
#[derive(Debug)]
pub struct Proof {
    program: PathBuf,
    suites: Suites,
}

impl Proof {
    /// A proof by these suites of the running program.
    ///
    /// # Errors
    /// When the program's own path cannot be found.
    pub fn new(suites: Suites) -> anyhow::Result<Self> {
        Ok(Self {
            program: std::env::current_exe().context("where is this program?")?,
            suites,
        })
    }

    /// Runs the suites with a bug planted, or with none, until one fails.
    ///
    /// # Errors
    /// When a suite cannot be run at all.
    pub fn try_bug(&self, bug: Option<Bug>) -> anyhow::Result<Verdict> {
        for (suite, args) in &self.suites.0 {
            let mut command = Command::new(&self.program);
            command.args(args).env_remove(CHOICE);
            if let Some(bug) = bug {
                command.env(CHOICE, bug.name());
            }
            let output = command
                .output()
                .with_context(|| format!("cannot run {args:?}"))?;
            if !output.status.success() {
                return Ok(Verdict::Caught {
                    suite: (*suite).to_owned(),
                    by: reason(&output),
                });
            }
        }
        Ok(Verdict::Missed)
    }
}

/// The line that says what failed.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("FAILED "))
        .or_else(|| {
            let mut lines = text.lines();
            lines.find(|line| line.starts_with("the ") || line.starts_with("both stores"))?;
            lines.next()
        })
        .or_else(|| errors.lines().last())
        .unwrap_or("it failed without a word");
    let mut shown: String = line.trim().chars().take(SHOWN_MAX).collect();
    if shown.len() < line.trim().len() {
        shown.push('…');
    }
    shown
}
