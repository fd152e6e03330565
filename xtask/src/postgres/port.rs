//! Free ports on the loopback address.

use std::net::TcpListener;

use anyhow::Context as _;

/// How often a server is started anew because its port was taken between our look and its bind.
pub(super) const ATTEMPTS: usize = 5;

/// A port that nobody listens on now.
pub(super) fn free() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener
        .local_addr()
        .context("a port has no number")?
        .port())
}
