//! Steps with undo steps.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use durable_core::{Failure, WorkflowError, error_types};
use parking_lot::Mutex;

use super::{WorkflowContext, WorkflowResult};
use crate::activity::Activity;
use crate::persistence::{Bug, planted};

type UndoFuture = Pin<Box<dyn Future<Output = WorkflowResult<()>> + Send>>;
type Undo = Box<dyn FnOnce(WorkflowContext) -> UndoFuture + Send>;

/// Steps with undo steps. If [`Saga::run`]'s part fails, or the run is asked to stop, what was undone-able is undone, last step first.
///
/// ```
/// use everruns_durable::prelude::*;
///
/// # #[activity] async fn reserve(_ctx: ActivityContext, item: String) -> ActivityResult<u64> { Ok(item.len() as u64) }
/// # #[activity] async fn release(_ctx: ActivityContext, id: u64) -> ActivityResult<()> { let _ = id; Ok(()) }
/// # #[activity] async fn charge(_ctx: ActivityContext, id: u64) -> ActivityResult<()> { let _ = id; Ok(()) }
/// #[workflow]
/// async fn order(ctx: WorkflowContext, item: String) -> WorkflowResult<u64> {
///     let saga = ctx.saga();
///     saga.run(async {
///         let id = ctx.activity::<reserve>(item).await?;
///         saga.compensate_with::<release>(id);
///         ctx.activity::<charge>(id).await?;
///         Ok(id)
///     })
///     .await
/// }
/// ```
#[derive(Clone)]
pub struct Saga {
    ctx: WorkflowContext,
    undo: Arc<Mutex<Vec<Undo>>>,
}

impl Saga {
    pub(super) fn new(ctx: WorkflowContext) -> Self {
        Self {
            ctx,
            undo: Arc::default(),
        }
    }

    /// An activity that undoes the step just made.
    pub fn compensate_with<A: Activity>(&self, input: A::Input)
    where
        A::Input: 'static,
        A::Output: 'static,
    {
        self.compensate(|ctx| async move { ctx.activity::<A>(input).await.map(|_| ()) });
    }

    /// Code that undoes the step just made.
    pub fn compensate<F, Fut>(&self, undo: F)
    where
        F: FnOnce(WorkflowContext) -> Fut + Send + 'static,
        Fut: Future<Output = WorkflowResult<()>> + Send + 'static,
    {
        let undo: Undo = Box::new(|ctx| Box::pin(undo(ctx)));
        self.undo.lock().push(undo);
    }

    /// Runs a part of the workflow. If it fails, everything that was given to [`Saga::compensate`] since is run, last first,
    /// each to its end, and its error is answered. Undo steps that fail are passed over and named in the error.
    ///
    /// # Errors
    /// The part's; of type [`error_types::COMPENSATION_FAILED`], with the part's as its cause, where undoing failed too.
    pub async fn run<T>(&self, part: impl Future<Output = WorkflowResult<T>>) -> WorkflowResult<T> {
        match part.await {
            Err(error) if error.error_type != error_types::CONTINUE_AS_NEW => {
                Err(self.undo_all(error).await)
            }
            other => {
                self.undo.lock().clear();
                other
            }
        }
    }

    fn next_undo(&self) -> Option<Undo> {
        let mut undo = self.undo.lock();
        if planted(Bug::SagaUndoneForwards) && !undo.is_empty() {
            return Some(undo.remove(0));
        }
        undo.pop()
    }

    async fn undo_all(&self, error: WorkflowError) -> WorkflowError {
        let mut failed = Vec::new();
        loop {
            let Some(undo) = self.next_undo() else {
                break;
            };
            if let Err(error) = undo(self.ctx.clone()).await {
                failed.push(error.to_string());
            }
        }
        if failed.is_empty() {
            return error;
        }
        let message = format!("{} undo steps failed: {}", failed.len(), failed.join("; "));
        Failure::new(error_types::COMPENSATION_FAILED, message)
            .non_retryable()
            .with_cause(error.into_failure())
            .into()
    }
}
