//! The proof of the proof: known mistakes, planted one at a time, and what catches each on every store.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use everruns_durable::persistence::Bug;

use crate::flavour::Kind;

/// The environment variable by which a build with planted bugs chooses one.
const CHOICE: &str = "DURABLE_PLANTED_BUG";
/// A suite that takes longer hangs, unless the machine is so slow that it takes about as long without a bug.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// How long a suite may take without a bug, on however busy a machine.
const CONTROL_MAX: Duration = Duration::from_secs(30 * 60);
/// How much longer than without a bug a suite may take before it counts as hanging.
const SLOWER: u32 = 3;
/// The exit code of a suite that could not be run, or that failed; the word [`FAILED`] tells them apart.
const ORDERLY_FAILURE: i32 = 1;
/// How the line begins that says what did not hold.
const FAILED: &str = "FAILED ";
/// How what follows begins where nothing failed, but something never happened.
const VACUOUS: &str = "vacuous: ";
/// Longest part of a failure that a report shows.
const SHOWN_MAX: usize = 90;

/// What is run against each bug, in order, until something fails: commands of this program.
const SUITES: [(&str, &[&str]); 2] = [
    ("conformance", &["conformance", "--fail-fast"]),
    ("faults", &["faults", "--plans", "40"]),
];

/// Whether a bug was caught on a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A suite failed.
    Caught {
        /// The claim or the plan of faults that did, or that the suite hangs.
        by: String,
        /// What it says.
        says: String,
    },
    /// All passed.
    Missed,
    /// All passed, but something that was to be shown never happened. Perhaps because of the bug, but that is no catch: nothing was seen to go wrong.
    Vacuous {
        /// What did not happen.
        says: String,
    },
}

impl Verdict {
    /// Whether the bug was seen.
    #[must_use]
    pub const fn is_catch(&self) -> bool {
        matches!(self, Self::Caught { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught { by, says } => write!(f, "caught by {by}: {says}"),
            Self::Missed => f.write_str("NOT CAUGHT"),
            Self::Vacuous { says } => write!(f, "NOT CAUGHT, vacuous: {says}"),
        }
    }
}

/// The suites on one store, each run in a process of its own, since a bug is planted for a whole process.
#[derive(Debug)]
pub struct Proof {
    program: PathBuf,
    store: Kind,
    hangs_after: Duration,
}

impl Proof {
    /// A proof on this store, once its conformance is seen to pass without a bug: else nothing would be shown.
    ///
    /// # Errors
    /// When it does not pass, or cannot be run.
    pub fn with_control(store: Kind) -> anyhow::Result<Self> {
        let mut proof = Self {
            program: std::env::current_exe().context("where is this program?")?,
            store,
            hangs_after: CONTROL_MAX,
        };
        let started = Instant::now();
        let (suite, args) = SUITES[0];
        let verdict = proof.run(suite, args, None)?;
        if verdict != Verdict::Missed {
            bail!(
                "the {suite} of {} fails without any bug: {verdict}",
                store.name()
            );
        }
        proof.hangs_after = HANGS_AFTER.max(started.elapsed() * SLOWER);
        Ok(proof)
    }

    /// Which store it is about.
    #[must_use]
    pub const fn store(&self) -> Kind {
        self.store
    }

    /// Runs the suites with a bug planted until one fails.
    ///
    /// # Errors
    /// When a suite cannot be run at all.
    pub fn try_bug(&self, bug: Bug) -> anyhow::Result<Verdict> {
        for (suite, args) in SUITES {
            let verdict = self.run(suite, args, Some(bug))?;
            if verdict.is_catch() {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Missed)
    }

    fn run(&self, suite: &str, args: &[&str], bug: Option<Bug>) -> anyhow::Result<Verdict> {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .args(["--stores", self.store.name()])
            .env_remove(CHOICE)
            .envs(bug.map(|bug| (CHOICE, bug.name())));
        let ended = Ended::of(&mut command, self.hangs_after)
            .with_context(|| format!("cannot run {suite} on {}", self.store.name()))?;
        ended.verdict(suite)
    }
}

/// The simulator, each time in a process of its own: for mistakes of the engine.
#[derive(Debug)]
pub struct SimulatorProof {
    program: PathBuf,
    hangs_after: Duration,
}

impl SimulatorProof {
    /// Seeds that each bug has to fail one of.
    const SEEDS: &'static str = "600";

    /// A proof, once the simulator is seen to find nothing without a bug.
    ///
    /// # Errors
    /// When it does find something, or cannot be run.
    pub fn with_control() -> anyhow::Result<Self> {
        let mut proof = Self {
            program: std::env::current_exe().context("where is this program?")?,
            hangs_after: CONTROL_MAX,
        };
        let started = Instant::now();
        let verdict = proof.run(None)?;
        if verdict != Verdict::Missed {
            bail!("the simulator finds something without any bug: {verdict}");
        }
        proof.hangs_after = HANGS_AFTER.max(started.elapsed() * SLOWER);
        Ok(proof)
    }

    /// Plays seeds with a bug planted until one is violated.
    ///
    /// # Errors
    /// When the simulator cannot be run.
    pub fn try_bug(&self, bug: Bug) -> anyhow::Result<Verdict> {
        self.run(Some(bug))
    }

    fn run(&self, bug: Option<Bug>) -> anyhow::Result<Verdict> {
        let mut command = Command::new(&self.program);
        command
            .args(["sim", "--fail-fast", "--seeds", Self::SEEDS])
            .env_remove(CHOICE)
            .envs(bug.map(|bug| (CHOICE, bug.name())));
        let ended =
            Ended::of(&mut command, self.hangs_after).context("cannot run the simulator")?;
        ended.verdict("simulator")
    }
}

/// How a suite's process ended.
#[derive(Debug)]
struct Ended {
    /// The exit code; none after a signal.
    code: Option<i32>,
    in_time: bool,
    output: String,
    errors: String,
}

impl Ended {
    /// Runs a command to its end, or until it hangs: then it is killed.
    fn of(command: &mut Command, hangs_after: Duration) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = text_of(child.stdout.take().context("its output is piped")?);
        let errors = text_of(child.stderr.take().context("its errors are piped")?);
        // The output ends when the process does.
        let early = output.recv_timeout(hangs_after).ok();
        let in_time = early.is_some();
        if !in_time {
            child.kill()?;
        }
        Ok(Self {
            output: early.map_or_else(|| output.recv(), Ok)?,
            errors: errors.recv()?,
            code: child.wait()?.code(),
            in_time,
        })
    }

    fn verdict(&self, suite: &str) -> anyhow::Result<Verdict> {
        let failures = || {
            let lines = self.output.lines();
            lines.filter_map(|line| line.strip_prefix(FAILED))
        };
        if let Some(line) = failures().find(|line| !line.starts_with(VACUOUS)) {
            let (place, says) = line.split_once(": ").unwrap_or((line, ""));
            return Ok(Verdict::Caught {
                by: place
                    .split_once("::")
                    .map_or_else(|| format!("{suite} {place}"), |(_, claim)| claim.to_owned()),
                says: shortened(says),
            });
        }
        let last_words = self.errors.lines().last().unwrap_or("it says nothing");
        match self.code {
            _ if !self.in_time => Ok(Verdict::Caught {
                by: format!("{suite} hangs"),
                says: "it had to be killed".to_owned(),
            }),
            Some(0) => Ok(Verdict::Missed),
            // For example because the database could not be reached: that is no catch.
            Some(ORDERLY_FAILURE) => match failures().next() {
                Some(line) => Ok(Verdict::Vacuous {
                    says: shortened(line.trim_start_matches(VACUOUS)),
                }),
                None => bail!("{suite} did not get to a verdict: {last_words}"),
            },
            _ => Ok(Verdict::Caught {
                by: format!("{suite} crashes"),
                says: shortened(last_words),
            }),
        }
    }
}

/// Reads to the end, on a thread of its own.
fn text_of(mut source: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing, and nobody may be waiting any more.
        let _ = source.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str, hangs_after: Duration) -> Ended {
        Ended::of(Command::new("sh").args(["-c", script]), hangs_after).expect("there is a shell")
    }

    fn by(script: &str) -> Option<String> {
        match ended(script, HANGS_AFTER)
            .verdict("suite")
            .expect("it got to a verdict")
        {
            Verdict::Caught { by, .. } => Some(by),
            Verdict::Missed | Verdict::Vacuous { .. } => None,
        }
    }

    #[test]
    fn what_catches_a_bug_is_named() {
        let claim = "echo 'FAILED sqlite/4::leases::a_claim: expected 1'; exit 1";
        assert_eq!(by(claim).as_deref(), Some("leases::a_claim"));
        let plan = "echo 'FAILED memory plan 3: lost'; exit 1";
        assert_eq!(by(plan).as_deref(), Some("suite memory plan 3"));
        assert_eq!(by("exit 101").as_deref(), Some("suite crashes"));
        assert_eq!(by("true"), None);
    }

    #[test]
    fn what_never_happened_catches_nothing_and_is_no_pass_either() {
        let vacuous = "echo 'FAILED vacuous: never happened: a crash'; exit 1";
        assert_eq!(by(vacuous), None);
        let ended = ended(vacuous, HANGS_AFTER);
        let verdict = ended.verdict("suite").expect("it got to a verdict");
        assert_ne!(verdict, Verdict::Missed, "the control is not to pass by it");
        let both = "echo 'FAILED vacuous: x'; echo 'FAILED seed 3: lost'; exit 1";
        assert_eq!(by(both).as_deref(), Some("suite seed 3"));
    }

    #[test]
    fn a_suite_that_could_not_run_catches_nothing() {
        let refused = ended("echo 'Error: no server' >&2; exit 1", HANGS_AFTER);
        assert!(refused.verdict("suite").is_err());
    }

    #[test]
    fn a_suite_that_does_not_end_is_killed_and_counts_as_caught() {
        let hung = ended("exec sleep 600", Duration::from_millis(1));
        assert!(!hung.in_time);
        assert_eq!(hung.code, None, "it was killed");
        let Ok(Verdict::Caught { by, .. }) = hung.verdict("suite") else {
            panic!("a hang counts as caught");
        };
        assert_eq!(by, "suite hangs");
    }
}
