//! The runs that streams follow, looked at together.
//!
//! However many streams follow a run, and however many runs are followed, one task of the process asks the store where those runs stand, and
//! wakes the streams whose run has moved on. A run that moves is looked at often, an idle one once a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use everruns_durable::persistence::limits::PAGE_ROWS_MAX;
use everruns_durable::persistence::model::RunMark;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::App;

/// Until a run is looked at again: this after it has moved, then longer up to the second.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// Longest read.
const READ_MAX: Duration = Duration::from_secs(10);

/// The runs that are followed in this process.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    state: Arc<Mutex<State>>,
    /// A run has come that was not followed.
    added: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<Uuid, Run>,
    /// Whether a task looks at them.
    looking: bool,
}

#[derive(Debug)]
struct Run {
    seen: watch::Sender<Seen>,
    followers: usize,
    pause: Duration,
    next_look: Instant,
}

/// What the last look at a run told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It was not looked at yet.
    Nothing,
    /// It does not exist.
    Gone,
    /// It stands here.
    At(RunMark),
}

/// One stream's place among the followers of a run.
pub(super) struct Following {
    run_id: Uuid,
    seen: watch::Receiver<Seen>,
    state: Arc<Mutex<State>>,
}

impl Followed {
    /// Follows a run until the answer is dropped.
    pub(super) fn follow(&self, app: &App, run_id: Uuid) -> Following {
        let mut state = self.state.lock();
        let run = state.runs.entry(run_id).or_insert_with(|| Run {
            seen: watch::channel(Seen::Nothing).0,
            followers: 0,
            pause: LOOK_AGAIN,
            next_look: Instant::now() + LOOK_AGAIN,
        });
        run.followers += 1;
        let seen = run.seen.subscribe();
        if !std::mem::replace(&mut state.looking, true) {
            let (app, state, added) = (
                app.downgrade(),
                Arc::clone(&self.state),
                Arc::clone(&self.added),
            );
            tokio::spawn(async move {
                while let Some(due) = next_due(&state) {
                    // Both may be dropped: what is due is asked for again.
                    tokio::select! {
                        biased;
                        () = added.notified() => continue,
                        () = tokio::time::sleep_until(due) => {}
                    }
                    let Some(app) = app.upgrade() else { return };
                    look(&app, &state).await;
                }
            });
        }
        self.added.notify_one();
        Following {
            run_id,
            seen,
            state: Arc::clone(&self.state),
        }
    }
}

impl Following {
    /// Ends when the run has events behind this number, has ended, or is gone. Cancel-safe.
    pub(super) async fn has_news(&mut self, after: i64) {
        loop {
            match *self.seen.borrow_and_update() {
                Seen::Nothing => {}
                Seen::Gone => return,
                Seen::At(mark) if mark.sequence > after || mark.status.is_terminal() => return,
                Seen::At(_) => {}
            }
            if self.seen.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(run) = state.runs.get_mut(&self.run_id) {
            run.followers -= 1;
            if run.followers == 0 {
                state.runs.remove(&self.run_id);
            }
        }
    }
}

/// When the next run is to be looked at. None: nothing is followed any more, and the task ends.
fn next_due(state: &Mutex<State>) -> Option<Instant> {
    let mut state = state.lock();
    let due = state.runs.values().map(|run| run.next_look).min();
    state.looking = due.is_some();
    due
}

/// Looks at the runs that are due, a page of them at most.
async fn look(app: &App, state: &Mutex<State>) {
    let now = Instant::now();
    let due: Vec<Uuid> = {
        let state = state.lock();
        // Those that would be due a little later come along, so that idle runs are soon looked at by the same read.
        let soon = |run: &Run| run.next_look <= now + run.pause / 2;
        let due = state.runs.iter().filter(|(_, run)| soon(run));
        due.map(|(id, _)| *id).take(PAGE_ROWS_MAX).collect()
    };
    let read = tokio::time::timeout(READ_MAX, app.store().run_marks(&due)).await;
    let marks = match read {
        Ok(Ok(marks)) => marks,
        Ok(Err(error)) => {
            warn!(%error, runs = due.len(), "the runs that are followed could not be looked at");
            postpone(state, &due);
            return;
        }
        Err(_) => {
            warn!(
                runs = due.len(),
                "the runs that are followed could not be looked at in time"
            );
            postpone(state, &due);
            return;
        }
    };
    let now = Instant::now();
    let mut state = state.lock();
    for (id, mark) in due.into_iter().zip(marks) {
        let Some(run) = state.runs.get_mut(&id) else {
            continue;
        };
        let found = mark.map_or(Seen::Gone, Seen::At);
        let moved = run.seen.send_if_modified(|seen| {
            let moved = *seen != found;
            *seen = found;
            moved
        });
        run.pause = if moved {
            LOOK_AGAIN
        } else {
            (run.pause * 2).min(LOOK_AT_LEAST_EVERY)
        };
        run.next_look = now + run.pause;
    }
}

/// The store is in trouble: the next look is not soon.
fn postpone(state: &Mutex<State>, due: &[Uuid]) {
    let next_look = Instant::now() + LOOK_AT_LEAST_EVERY;
    let mut state = state.lock();
    for id in due {
        if let Some(run) = state.runs.get_mut(id) {
            run.next_look = next_look;
        }
    }
}

#[cfg(test)]
mod tests {
    use everruns_durable::Engine;
    use everruns_durable::core::Payload;
    use futures_util::future::join_all;

    use super::*;
    use crate::AppSettings;
    use crate::auth::Access;

    #[tokio::test]
    async fn followers_of_a_run_share_one_look_and_all_hear_of_its_end() {
        let engine = Engine::in_memory().start().await.unwrap();
        let app = App::new(engine.client(), Access::open(), AppSettings::default());
        let run = engine
            .client()
            .start_named("hosted nowhere", Payload::null())
            .await
            .unwrap();
        let followed = app.followed();
        let mut all: Vec<Following> = (0..100).map(|_| followed.follow(&app, run.id())).collect();
        assert_eq!(followed.state.lock().runs.len(), 1);
        run.terminate("enough").await.unwrap();
        join_all(all.iter_mut().map(|following| following.has_news(i64::MAX))).await;
        drop(all);
        assert!(followed.state.lock().runs.is_empty());
        engine.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn follower_of_a_run_that_does_not_exist_is_told_so() {
        let engine = Engine::in_memory().start().await.unwrap();
        let app = App::new(engine.client(), Access::open(), AppSettings::default());
        let mut following = app.followed().follow(&app, Uuid::from_u128(1));
        following.has_news(0).await;
        assert_eq!(*following.seen.borrow(), Seen::Gone);
        engine.shutdown().await.unwrap();
    }
}
