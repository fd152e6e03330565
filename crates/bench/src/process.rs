//! Processes: the ones this program starts itself as, and what one costs.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// How long a child may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A child that has said that it is ready. Dropped, it is killed; it also ends by itself when this process does, since its standard input ends then.
pub(crate) struct Ready {
    child: Child,
    /// What it said.
    pub(crate) said: String,
    _input: Option<ChildStdin>,
}

impl Ready {
    /// Starts this program as a child and waits for its first line.
    pub(crate) async fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("a child could not be started")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(output).lines();
        let name = arguments.first().copied().unwrap_or_default();
        match tokio::time::timeout(READY_WITHIN, lines.next_line()).await {
            Ok(Ok(Some(said))) => Ok(Self {
                child,
                said,
                _input: input,
            }),
            Ok(Ok(None)) => bail!("{name} ended before it was ready"),
            Ok(Err(error)) => Err(error).context("its output"),
            Err(_) => bail!("{name} was not ready within {} s", READY_WITHIN.as_secs()),
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the child has ended")
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("kill -9")
    }
}

/// A server and two workers, each a process.
pub(crate) struct Remote {
    /// The server's gRPC address.
    pub(crate) url: String,
    server: Ready,
    _workers: [Ready; 2],
}

impl Remote {
    /// Starts them.
    pub(crate) async fn start(db: &str) -> anyhow::Result<Self> {
        let server = server(db).await?;
        let url = server.said.clone();
        let workers = [
            Ready::start(&["child-worker", &url]).await?,
            Ready::start(&["child-worker", &url]).await?,
        ];
        Ok(Self {
            url,
            server,
            _workers: workers,
        })
    }

    /// Stops the workers first, so that the server sees them go.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for worker in self._workers {
            worker.kill().await?;
        }
        self.server.kill().await
    }
}

/// A server; what it said is its gRPC address.
pub(crate) async fn server(db: &str) -> anyhow::Result<Ready> {
    Ready::start(&["child-server", db]).await
}

/// Processor time that a process has used.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("/proc/PID/stat")?;
    // The name, in parentheses, may hold anything; what follows has no parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

/// What a process holds in memory, in MiB.
#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn resident_mib() -> anyhow::Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    let bytes = pages.context("resident pages")? * rustix::param::page_size() as u64;
    Ok(bytes as f64 / f64::from(1024 * 1024))
}

/// The machine's monotonic clock in microseconds: the same in all its processes, and no matter what the wall clock does.
pub(crate) fn monotonic_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_costs_something() {
        assert!(resident_mib().expect("Linux") > 0.5);
        let before = cpu_time(std::process::id()).expect("Linux");
        let mut sum = 0_u64;
        while cpu_time(std::process::id()).expect("Linux") == before {
            sum = sum.wrapping_add(1);
        }
        assert!(sum > 0);
    }
}
