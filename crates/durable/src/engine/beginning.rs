//! Runs that are started together with their first turn: one commit instead of two, and nothing to read in between.

use tokio::sync::oneshot;

use crate::persistence::model::StartRun;

/// A run to be started with its first turn.
///
/// Only a promise to try: one that is dropped has not begun, or it is not known whether it has. Whoever asked for it then starts the run
/// on its own, which finds it if it exists.
pub(crate) struct Beginning {
    pub(crate) start: StartRun,
    begun: Begun,
}

/// Tells whoever asked that the run has begun.
pub(super) struct Begun(oneshot::Sender<()>);

impl Begun {
    pub(super) fn tell(self) {
        // Who asked may not wait any more.
        let _ = self.0.send(());
    }
}

impl Beginning {
    /// The run, and where to hear that it has begun. An error there: it has not, as far as is known.
    pub(crate) fn of(start: StartRun) -> (Self, oneshot::Receiver<()>) {
        let (begun, heard) = oneshot::channel();
        let begun = Begun(begun);
        (Self { start, begun }, heard)
    }

    pub(super) fn into_parts(self) -> (Box<StartRun>, Begun) {
        (Box::new(self.start), self.begun)
    }
}
