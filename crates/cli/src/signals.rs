//! Ctrl-C and SIGTERM: the first asks for a polite end, the second ends at once.

use tokio_util::sync::CancellationToken;

use crate::output::announce_aside;

/// A token that the first signal cancels.
pub(crate) fn stop() -> CancellationToken {
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        let _ = next().await;
        announce_aside("draining; once more ends at once");
        asked.cancel();
        let code = next().await;
        std::process::exit(code);
    });
    stop
}

/// Waits for a signal; answers what a shell would show for it.
#[cfg(unix)]
async fn next() -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers the system's own hold: a signal ends the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => 130,
        _ = terminate.recv() => 143,
    }
}

#[cfg(not(unix))]
async fn next() -> i32 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => 130,
        Err(_) => std::future::pending().await,
    }
}
