//! The server under test and its worker, each a process of its own, so that what each holds in
//! memory can be told.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::process::{Child, ChildStdin, Command};

use super::http::Http;
use super::wait::until;
use crate::process::Ready;

/// How long a server may take until it is ready; migrations are a part of it.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A server process. Dropped, it is killed.
pub(super) struct Served {
    child: Child,
    http: String,
    grpc: String,
    pid: u32,
    _input: Option<ChildStdin>,
}

impl Served {
    /// Starts a server that hosts `durable.program`, on free ports of the loopback interface.
    /// `flags` are settings by their key.
    pub(super) async fn start(
        db: &str,
        binary: Option<&Path>,
        flags: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let ready =
            std::env::temp_dir().join(format!("durable-suite-{}.json", uuid::Uuid::now_v7()));
        let mut settings = BTreeMap::from([
            ("db", db),
            ("migrate", "true"),
            ("embedded_worker", "true"),
            ("http", "127.0.0.1:0"),
            ("grpc", "127.0.0.1:0"),
            ("log", "warn"),
        ]);
        settings.extend(flags.iter().copied());
        let path = ready.to_str().context("the temporary folder's name")?;
        settings.insert("ready_file", path);
        let mut command = if let Some(binary) = binary {
            let mut command = Command::new(binary);
            command.arg("server");
            for (key, value) in &settings {
                command.arg(format!("--{}={value}", key.replace('_', "-")));
            }
            command
        } else {
            let program = std::env::current_exe().context("where this program is")?;
            let mut command = Command::new(program);
            command.arg("child-suite-server");
            command.args(settings.iter().map(|(key, value)| format!("{key}={value}")));
            command
        };
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("DURABLE_") || name == "DATABASE_URL" || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("the server could not be started")?;
        let input = child.stdin.take();
        let pid = child.id().context("the server has ended")?;
        let written = until(READY_WITHIN, async || {
            let text = std::fs::read_to_string(&ready)?;
            Ok(Some(serde_json::from_str::<Value>(&text)?))
        })
        .await;
        let Some(endpoints) = written else {
            bail!("the server was not ready within {READY_WITHIN:?}");
        };
        let text = |key: &str| {
            let url = endpoints[key].as_str().map(str::to_owned);
            url.with_context(|| format!("the ready file has no {key}"))
        };
        Ok(Self {
            http: text("http")?,
            grpc: text("grpc")?,
            child,
            pid,
            _input: input,
        })
    }

    /// A client of it.
    pub(super) fn http(&self) -> Http {
        Http::new(&self.http)
    }

    /// Where workers connect.
    pub(super) fn grpc(&self) -> &str {
        &self.grpc
    }

    /// The most memory it has held.
    pub(super) fn peak_mib(&self) -> anyhow::Result<u64> {
        peak_mib(self.pid)
    }

    /// Kills it.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("kill -9")
    }
}

/// A process that hosts the suites' workflows: by the library on the store, or connected to a
/// server.
pub(super) struct Worker(Ready);

impl Worker {
    /// Starts it on `postgres://…` or `http://…`; `effects` is the file in which activities note
    /// that they ran.
    pub(super) async fn start(target: &str, effects: &Path) -> anyhow::Result<Self> {
        Self::start_with_lease(target, effects, Duration::from_secs(15)).await
    }

    /// The same, with leases that hold for so long.
    pub(super) async fn start_with_lease(
        target: &str,
        effects: &Path,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let effects = effects.to_str().context("the file's name")?;
        let lease_ms = lease.as_millis().to_string();
        let arguments = ["child-suite-worker", target, effects, &lease_ms];
        Ok(Self(Ready::start(&arguments).await?))
    }

    /// The most memory it has held.
    pub(super) fn peak_mib(&self) -> anyhow::Result<u64> {
        peak_mib(self.0.id()?)
    }

    /// Kills it.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.0.kill().await
    }
}

/// `VmHWM` of a process.
fn peak_mib(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .context("the process has ended: /proc/PID/status is gone")?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok())
        .context("no VmHWM: the process has ended")?;
    Ok(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_this_process_is_known() {
        assert!(peak_mib(std::process::id()).expect("Linux") > 0);
        assert!(peak_mib(u32::MAX).is_err());
    }
}
