//! A throw-away PostgreSQL cluster.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail};

use super::{Durability, account::Account, binaries::Binaries, port};
use crate::{
    interrupt,
    process::{self, Running},
};

/// Where the server notes its process id, below the instance's folder.
pub(super) const PID_FILE: &str = "data/postmaster.pid";
const LOG_FILE: &str = "postgres.log";
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A running server; stopped when dropped.
pub(super) struct Cluster {
    server: Running,
    port: u16,
    bin: PathBuf,
}

impl Cluster {
    /// Creates a cluster in the instance's folder and starts it on a free port.
    pub(super) fn start(
        binaries: &Binaries,
        account: &Account,
        instance: &Path,
        durability: Durability,
    ) -> anyhow::Result<Self> {
        initialise(binaries, account, instance)?;
        for _ in 0..port::ATTEMPTS {
            interrupt::check()?;
            let port = port::free()?;
            let log = File::create(instance.join(LOG_FILE)).context("cannot create a log file")?;
            let mut command = account.command(&binaries.bin.join("postgres"), instance);
            command
                .arg("-D")
                .arg(instance.join("data"))
                .args(["-p", &port.to_string()])
                .stdin(std::process::Stdio::null())
                .stdout(log.try_clone().context("cannot share a log file")?)
                .stderr(log);
            for setting in settings(durability, has_statement_statistics(binaries)) {
                command.args(["-c", setting]);
            }
            // QUIT is the immediate shutdown: no checkpoint of data that is removed the next moment.
            let mut server = Running::server(&mut command, "QUIT")?;
            if ready(&mut server, instance)? {
                let bin = binaries.bin.clone();
                return Ok(Self { server, port, bin });
            }
        }
        bail!("PostgreSQL does not start; its log:\n{}", log_of(instance))
    }

    /// The port on 127.0.0.1.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the programs, `psql` among them.
    pub(super) fn bin(&self) -> &Path {
        &self.bin
    }

    /// Leaves the server running and returns its process id.
    pub(super) fn keep(self) -> u32 {
        self.server.detach()
    }
}

fn initialise(binaries: &Binaries, account: &Account, instance: &Path) -> anyhow::Result<()> {
    let mut command = account.command(&binaries.bin.join("initdb"), instance);
    command
        .args(["--username=postgres", "--auth=trust", "--no-sync"])
        .args(["--encoding=UTF8", "--locale=C"])
        .arg("-D")
        .arg(instance.join("data"));
    process::output(&mut command)
        .map(drop)
        .context("cannot create a PostgreSQL cluster")
}

/// Settings of the throw-away cluster only; nothing here is advice for production.
fn settings(durability: Durability, statement_statistics: bool) -> Vec<&'static str> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1",
        // TCP is enough, and a socket's path must not be longer than 107 bytes, which target folders often are.
        "unix_socket_directories=",
        "max_connections=400",
        "shared_buffers=256MB",
        "log_min_duration_statement=-1",
        "logging_collector=off",
        "timezone=UTC",
    ];
    if statement_statistics {
        settings.push("shared_preload_libraries=pg_stat_statements");
    }
    settings.extend(match durability {
        Durability::Volatile => [
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
        ],
        Durability::Flushed => ["fsync=on", "synchronous_commit=on", "full_page_writes=on"],
    });
    settings
}

/// Whether the contrib module is installed: always with Debian's packages, not always elsewhere.
fn has_statement_statistics(binaries: &Binaries) -> bool {
    let mut command = Command::new(binaries.bin.join("pg_config"));
    let library = process::output(command.arg("--pkglibdir")).map_or_else(
        |_| binaries.bin.join("../lib"),
        |dir| PathBuf::from(dir.trim()),
    );
    let there = ["so", "dylib"].iter().any(|ending| {
        library
            .join(format!("pg_stat_statements.{ending}"))
            .is_file()
    });
    if !there {
        println!("postgres: pg_stat_statements is not installed; statements are not counted");
    }
    there
}

/// Waits until the server accepts connections; false when it ended instead because its port was taken.
fn ready(server: &mut Running, instance: &Path) -> anyhow::Result<bool> {
    let mut ended = None;
    let decided = process::wait_until(START_PATIENCE, || {
        ended = server.exited().ok().flatten();
        ended.is_some() || says_ready(instance) || interrupt::check().is_err()
    });
    interrupt::check()?;
    match ended {
        None if decided => Ok(true),
        Some(_) if log_of(instance).contains("could not bind") => Ok(false),
        _ => bail!("PostgreSQL does not start; its log:\n{}", log_of(instance)),
    }
}

/// The eighth line of the pid file is the server's state; pg_ctl waits for the same word.
fn says_ready(instance: &Path) -> bool {
    fs::read_to_string(instance.join(PID_FILE)).is_ok_and(|text| {
        text.lines()
            .nth(7)
            .is_some_and(|state| state.trim() == "ready")
    })
}

fn log_of(instance: &Path) -> String {
    fs::read_to_string(instance.join(LOG_FILE)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_volatile_clusters_skip_the_flush() {
        assert!(settings(Durability::Volatile, true).contains(&"fsync=off"));
        let flushed = settings(Durability::Flushed, true);
        assert!(flushed.contains(&"fsync=on") && !flushed.contains(&"fsync=off"));
    }

    #[test]
    fn statement_statistics_are_loaded_only_where_installed() {
        let preload = |there| {
            settings(Durability::Volatile, there)
                .iter()
                .any(|setting| setting.contains("pg_stat_statements"))
        };
        assert!(preload(true) && !preload(false));
    }
}
