//! PgBouncer in transaction mode in front of the private cluster.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};

use super::{account::Account, binaries::Binaries, port};
use crate::{
    interrupt,
    process::{self, Running},
};

/// Where PgBouncer notes its process id, below the instance's folder.
pub(super) const PID_FILE: &str = "pgbouncer.pid";
const LOG_FILE: &str = "pgbouncer.log";
const START_PATIENCE: Duration = Duration::from_secs(20);

/// A running pooler; stopped when dropped.
pub(super) struct Pooler {
    server: Running,
    port: u16,
}

impl Pooler {
    /// Starts PgBouncer on a free port.
    pub(super) fn start(
        binaries: &Binaries,
        account: &Account,
        instance: &Path,
        postgres_port: u16,
    ) -> anyhow::Result<Self> {
        let users = instance.join("users.txt");
        fs::write(&users, "\"postgres\" \"\"\n").context("cannot write PgBouncer's users")?;
        let ini = instance.join("pgbouncer.ini");
        for _ in 0..port::ATTEMPTS {
            interrupt::check()?;
            let port = port::free()?;
            fs::write(&ini, configuration(instance, postgres_port, port))
                .context("cannot write PgBouncer's configuration")?;
            let log = File::create(instance.join(LOG_FILE)).context("cannot create a log file")?;
            let mut command = account.command(&binaries.pgbouncer, instance);
            command
                .arg(&ini)
                .stdin(Stdio::null())
                .stdout(log.try_clone().context("cannot share a log file")?)
                .stderr(log);
            let mut server = Running::server(&mut command, "TERM")?;
            if ready(&mut server, port)? {
                return Ok(Self { server, port });
            }
        }
        let log = fs::read_to_string(instance.join(LOG_FILE)).unwrap_or_default();
        bail!("PgBouncer does not start; its log:\n{log}")
    }

    /// The port on 127.0.0.1.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Leaves the pooler running and returns its process id.
    pub(super) fn keep(self) -> u32 {
        self.server.detach()
    }
}

/// Every database by its own name, every role that the server knows, no password.
///
/// Idle server connections go soon: each test has its own database, which it drops when it ends.
fn configuration(instance: &Path, postgres_port: u16, port: u16) -> String {
    let instance = instance.display();
    format!(
        "[databases]
* = host=127.0.0.1 port={postgres_port} auth_user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
auth_type = trust
auth_file = {instance}/users.txt
pidfile = {instance}/{PID_FILE}
admin_users = postgres
max_client_conn = 2000
default_pool_size = 20
server_idle_timeout = 5
server_login_retry = 1
query_wait_timeout = 30
autodb_idle_timeout = 30
log_connections = 0
log_disconnections = 0
"
    )
}

/// Waits until the pooler accepts connections; false when it ended instead.
fn ready(server: &mut Running, port: u16) -> anyhow::Result<bool> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut ended = false;
    let decided = process::wait_until(START_PATIENCE, || {
        ended = !matches!(server.exited(), Ok(None));
        ended
            || TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            || interrupt::check().is_err()
    });
    interrupt::check()?;
    Ok(decided && !ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_is_by_transaction() {
        let text = configuration(Path::new("/run/x"), 5000, 6000);
        assert!(text.contains("pool_mode = transaction"));
        assert!(text.contains("port=5000") && text.contains("listen_port = 6000"));
        assert!(text.contains("pidfile = /run/x/pgbouncer.pid"));
    }
}
