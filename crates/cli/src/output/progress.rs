//! Work that takes its time: one line on standard error that counts the seconds, and goes away.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// How often the line is written anew.
const EVERY: Duration = Duration::from_secs(1);

/// Works, and tells a person who watches that it does. Programs are told nothing.
pub(crate) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let begun = Instant::now();
    let mut ticks = interval_at(begun + EVERY, EVERY);
    tokio::pin!(work);
    // Cancel safety: `work` is pinned outside and goes on where it was; a tick that is dropped is only late.
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                tell("\r\u{1b}[K");
                return done;
            }
            now = ticks.tick() => tell(&format!("\r{what} … {} s\u{1b}[K", (now - begun).as_secs())),
        }
    }
}

/// Whoever cannot be told is not held up by it.
fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}
