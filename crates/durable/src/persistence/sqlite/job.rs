//! A write on its way to the writer, and its answer on the way back.

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::persistence::{StoreError, StoreResult};

/// A write that waits for its turn.
pub(super) trait Job: Send {
    /// Does the work. False: nothing of it is to be kept; whoever calls it sees to that.
    fn run(&mut self, conn: &mut Connection) -> bool;

    /// Tells the caller, after the commit. `lost` says why there was none.
    fn answer(self: Box<Self>, lost: Option<&str>);
}

/// Work with a caller who waits for its answer.
pub(super) struct Work<F, A> {
    work: Option<F>,
    done: Option<StoreResult<A>>,
    caller: oneshot::Sender<StoreResult<A>>,
}

impl<F, A> Work<F, A>
where
    F: FnOnce(&mut Connection) -> StoreResult<A> + Send + 'static,
    A: Send + 'static,
{
    /// A job, and where its answer will be.
    pub(super) fn with_caller(work: F) -> (Box<dyn Job>, oneshot::Receiver<StoreResult<A>>) {
        let (caller, answer) = oneshot::channel();
        let job = Self {
            work: Some(work),
            done: None,
            caller,
        };
        (Box::new(job), answer)
    }
}

impl<F, A> Job for Work<F, A>
where
    F: FnOnce(&mut Connection) -> StoreResult<A> + Send,
    A: Send,
{
    fn run(&mut self, conn: &mut Connection) -> bool {
        self.done = self.work.take().map(|work| work(conn));
        matches!(self.done, Some(Ok(_)))
    }

    fn answer(self: Box<Self>, lost: Option<&str>) {
        let answer = match (self.done, lost) {
            (Some(Ok(answer)), None) => Ok(answer),
            (Some(Err(error)), _) => Err(error),
            (_, Some(why)) => Err(unavailable(why)),
            (None, None) => Err(unavailable("the write panicked and was rolled back")),
        };
        // A caller that has gone does not want the answer; the write stands all the same.
        let _ = self.caller.send(answer);
    }
}

/// A call that the writer could not answer.
pub(super) fn unavailable(message: &str) -> StoreError {
    StoreError::Unavailable {
        message: message.to_owned(),
        source: None,
    }
}
