//! The transaction of one attempt.

use std::sync::Arc;
use std::time::Duration;

use durable_core::{ActivityError, error_types};
use tokio::sync::Mutex;

use crate::persistence::{OpenTransaction, Transactions};

/// The transaction of one attempt: begun when the activity first asks for it, taken away when it has answered.
pub(crate) struct AttemptTransaction {
    /// None: the activity has no transaction.
    from: Option<Arc<dyn Transactions>>,
    patience: Duration,
    /// Held while it is begun, so that two who ask at once get the same one.
    state: Mutex<State>,
}

enum State {
    NotAsked,
    Open(OpenTransaction),
    Over,
}

impl AttemptTransaction {
    /// An attempt without one.
    pub(crate) fn none() -> Self {
        Self {
            from: None,
            patience: Duration::ZERO,
            state: Mutex::new(State::NotAsked),
        }
    }

    /// An attempt that may have one; it is given up after that time of silence.
    pub(crate) fn of(from: Arc<dyn Transactions>, patience: Duration) -> Self {
        Self {
            from: Some(from),
            patience,
            ..Self::none()
        }
    }

    /// The transaction.
    pub(super) async fn open(&self) -> Result<OpenTransaction, ActivityError> {
        let Some(from) = &self.from else {
            return Err(refused(
                "the activity has no transaction; declare it with #[activity(transactional)] or `const TRANSACTIONAL: bool = true`",
            ));
        };
        let mut state = self.state.lock().await;
        match &*state {
            State::Open(open) => Ok(Arc::clone(open)),
            State::Over => Err(refused(
                "the activity has answered; its transaction is over",
            )),
            State::NotAsked => {
                let open = from.begin(self.patience).await?;
                *state = State::Open(Arc::clone(&open));
                Ok(open)
            }
        }
    }

    /// Takes the transaction, if there is one; nobody gets it after this.
    pub(super) async fn take(&self) -> Option<OpenTransaction> {
        self.from.as_ref()?;
        match std::mem::replace(&mut *self.state.lock().await, State::Over) {
            State::Open(open) => Some(open),
            State::NotAsked | State::Over => None,
        }
    }
}

fn refused(message: &str) -> ActivityError {
    ActivityError::new(error_types::ACTIVITY_FAILED, message).non_retryable()
}
