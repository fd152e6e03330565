//! Real worker processes for tests: started, listened to, killed.
//!
//! What another process does cannot be awaited, so [`until`] looks again and again; no test depends on how often.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use everruns_durable::persistence::{OpenOptions, StoreUrl, WorkflowEventStore, open};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::engine_suite::Script;

/// So long may anything take before a test gives up: machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Looks until there is an answer.
///
/// # Panics
/// When there is none for [`PATIENCE`]; `what` is what was waited for.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Opens a store for one of several processes: a few connections are enough.
///
/// # Errors
/// The store's.
pub async fn open_store(url: &str) -> anyhow::Result<Arc<dyn WorkflowEventStore>> {
    Ok(match StoreUrl::parse(url)? {
        StoreUrl::Postgres(url) => crate::postgres::open_url(&url).await?,
        _ => open(url, OpenOptions::default()).await?,
    })
}

/// Where worker processes write down what their activities did, one line each.
#[derive(Debug)]
pub struct EffectsFile {
    file: File,
}

impl EffectsFile {
    /// Opens it to append; created if it is missing.
    ///
    /// # Errors
    /// The system's.
    pub fn append_to(path: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file })
    }

    /// Writes an effect down. One write to a file opened to append: lines of several processes do not mix.
    ///
    /// # Errors
    /// The system's.
    pub fn note(&self, run_id: Uuid, activity_id: &str, attempt: u32) -> std::io::Result<()> {
        let line = format!("{run_id} {activity_id} {attempt} {}\n", std::process::id());
        (&self.file).write_all(line.as_bytes())
    }
}

/// What an activity that was told to stop writes down instead of its id.
pub const STOPPED: &str = "stopped";

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The run.
    pub run_id: Uuid,
    /// The activity within the run.
    pub activity_id: String,
    /// Which attempt.
    pub attempt: u32,
    /// Process that did it.
    pub pid: u32,
}

/// The effects of all processes of a test.
#[derive(Debug, Clone)]
pub struct Effects {
    path: PathBuf,
}

impl Effects {
    /// In a file of that name; there need not be one yet.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All so far, in the order in which they happened.
    ///
    /// # Panics
    /// When a line is not one of [`EffectsFile::note`]'s.
    #[must_use]
    pub fn all(&self) -> Vec<Effect> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines()
            .map(|line| parse(line).expect("a line of an effects file"))
            .collect()
    }

    /// How many so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// Waits for that many; answers them.
    pub async fn reached(&self, count: usize) -> Vec<Effect> {
        until(&format!("{count} effects"), async || {
            let all = self.all();
            (all.len() >= count).then_some(all)
        })
        .await
    }

    /// How many each process had.
    #[must_use]
    pub fn by_process(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for effect in self.all() {
            *counts.entry(effect.pid).or_default() += 1;
        }
        counts
    }
}

fn parse(line: &str) -> Option<Effect> {
    let mut words = line.split(' ');
    Some(Effect {
        run_id: words.next()?.parse().ok()?,
        activity_id: words.next()?.to_owned(),
        attempt: words.next()?.parse().ok()?,
        pid: words.next()?.parse().ok()?,
    })
}

/// A worker process: `durable-testkit worker`. Killed when it is dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
}

impl WorkerProcess {
    /// Starts one, and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it cannot be started, or ends.
    pub async fn start(
        program: &str,
        db: &str,
        effects: &Effects,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["worker", "--db", db, "--effects"])
            .arg(effects.path())
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("its output is piped")?;
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut worker = Self {
            child,
            stdin,
            lines,
        };
        anyhow::ensure!(worker.line().await? == "ready", "a worker says ready first");
        Ok(worker)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a scripted run in it.
    ///
    /// # Errors
    /// When it refuses, or is gone.
    pub async fn start_run(&mut self, script: &Script) -> anyhow::Result<Uuid> {
        self.started(&format!("start {}", serde_json::to_string(script)?))
            .await
    }

    /// Starts an async workflow of so many steps by it.
    ///
    /// # Errors
    /// When it refuses, or is gone.
    pub async fn start_march(&mut self, steps: u64) -> anyhow::Result<Uuid> {
        self.started(&format!("march {steps}")).await
    }

    async fn started(&mut self, command: &str) -> anyhow::Result<Uuid> {
        let answer = self.ask(command).await?;
        let run = answer
            .strip_prefix("started ")
            .with_context(|| answer.clone())?;
        Ok(run.parse()?)
    }

    /// Waits for a run by it; answers its status.
    ///
    /// # Errors
    /// When it refuses, or is gone.
    pub async fn await_run(&mut self, run_id: Uuid) -> anyhow::Result<String> {
        let answer = self.ask(&format!("await {run_id}")).await?;
        let status = answer
            .strip_prefix(&format!("ended {run_id} "))
            .with_context(|| answer.clone())?;
        Ok(status.to_owned())
    }

    async fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        let stdin = self.stdin.as_mut().context("it was asked to end")?;
        writeln!(stdin, "{command}")?;
        self.line().await
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        line.context("it says nothing")?.context("it has ended")
    }

    /// Its largest resident memory so far, in MiB.
    ///
    /// # Errors
    /// Where there is no `/proc`.
    pub fn peak_memory_mib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line
            .context("VmHWM")?
            .trim()
            .trim_end_matches(" kB")
            .parse()?;
        Ok(kib / 1024)
    }

    /// SIGKILL: it gets no chance to say goodbye.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to shut down, and waits until it has.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.stdin.take());
        let status = until("the worker's end", async || {
            self.child.try_wait().transpose()
        })
        .await?;
        anyhow::ensure!(status.success(), "the worker ended with {status}");
        Ok(())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
