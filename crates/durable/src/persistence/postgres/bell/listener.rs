//! The connection that listens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::line::{Call, Line, Trouble};
use super::{PgBell, payload};
use crate::persistence::Ring;
use crate::persistence::backoff::Backoff;

/// Longest time in which a listener has to hear itself.
const ECHO_MAX: Duration = Duration::from_secs(10);

/// Listens, and comes back when the connection is lost.
pub(super) async fn keep_listening(bell: Arc<PgBell>, line: Line, probe_every: Duration) {
    let mut backoff = Backoff::new();
    loop {
        let mut listener = Listener {
            bell: &bell,
            probe_every,
            hears: None,
        };
        let Err(error) = listener.attend(&line).await;
        if listener.hears.is_some() {
            backoff.reset();
            tracing::warn!(%error, "the bell's listener was cut off; work is looked for by polling until it is back");
        } else {
            tracing::debug!(%error, "the bell's listener cannot be set up; trying again");
        }
        // Nobody is told that it hears while it does not.
        drop(listener);
        backoff.pause().await;
    }
}

struct Listener<'a> {
    bell: &'a PgBell,
    probe_every: Duration,
    /// Set while it is sure to hear.
    hears: Option<Hearing<'a>>,
}

/// Says so as long as the listener hears, also when its task is stopped.
struct Hearing<'a>(&'a PgBell);

impl<'a> Hearing<'a> {
    fn begin(bell: &'a PgBell) -> Self {
        bell.connected.store(true, Ordering::SeqCst);
        Self(bell)
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.0.connected.store(false, Ordering::SeqCst);
    }
}

impl Listener<'_> {
    /// One connection's life. It rings to itself at the start, and when it has heard nothing for long: a connection may be dead, or
    /// its `LISTEN` gone, without any error to show for it.
    async fn attend(&mut self, line: &Line) -> Result<std::convert::Infallible, Trouble> {
        let mut call = line.open("listen").await?;
        call.listen().await?;
        let mut asked = true;
        let mut deadline = self.ask(&call).await?;
        loop {
            tokio::select! {
                heard = call.heard.recv() => {
                    self.take(&heard.ok_or(Trouble::Closed)?);
                    asked = false;
                    deadline = Instant::now() + self.probe_every;
                }
                () = sleep_until(deadline) => {
                    if asked {
                        return Err(Trouble::Deaf);
                    }
                    asked = true;
                    deadline = self.ask(&call).await?;
                }
            }
        }
    }

    /// Rings to itself; answers until when that has to be heard.
    async fn ask(&self, call: &Call) -> Result<Instant, Trouble> {
        let echo_max = self.probe_every.min(ECHO_MAX);
        let sign_of_life = payload::encode(self.bell.id, Ring::default());
        match tokio::time::timeout(echo_max, call.notify(&sign_of_life)).await {
            Ok(sent) => sent?,
            Err(_) => return Err(Trouble::NoAnswer(echo_max)),
        }
        Ok(Instant::now() + echo_max)
    }

    fn take(&mut self, text: &str) {
        if self.hears.is_none() {
            self.hears = Some(Hearing::begin(self.bell));
            // Whatever was rung before this was missed.
            self.bell.incoming.put(&Ring::everything());
        }
        match payload::decode(text) {
            Some((from, _)) if from == self.bell.id => {}
            Some((_, ring)) => self.bell.incoming.put(&ring),
            None => self.bell.incoming.put(&Ring::everything()),
        }
    }
}
