//! Steps that hold steps: conditions, loops, `try`, scopes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use everruns_durable::prelude::WorkflowResult;

use super::Interpreter;
use super::budget;
use super::exit::{Exit, Flow, error_value, raised};
use super::strand::{Strand, Token};
use crate::slot::Slot;
use crate::steps::{Action, Step};
use crate::value::Value;

/// The parts of a `try`.
struct Try<'p> {
    steps: &'p [Step],
    catch: Option<&'p [Step]>,
    save_error: Option<&'p String>,
    finally: &'p [Step],
}

impl<'p> Interpreter<'p> {
    pub(super) async fn nest(&self, action: &'p Action, strand: &Strand) -> Flow {
        match action {
            Action::If {
                cond,
                then,
                otherwise,
            } => {
                let side = if self.slot(cond)? { then } else { otherwise };
                self.steps(side, strand).await
            }
            Action::Patched {
                id,
                then,
                otherwise,
            } => {
                self.budget.record()?;
                let side = if self.ctx.patched(id) {
                    then
                } else {
                    otherwise
                };
                self.steps(side, strand).await
            }
            Action::Repeat { times, steps } => {
                for _ in 0..self.slot(times)? {
                    self.budget.spend(budget::STEP)?;
                    self.steps(steps, strand).await?;
                }
                Ok(())
            }
            Action::While { cond, max, steps } => self.repeat_while(cond, max, steps, strand).await,
            Action::Try {
                steps,
                catch,
                save_error,
                finally,
            } => {
                let parts = Try {
                    steps,
                    catch: catch.as_deref(),
                    save_error: save_error.as_ref(),
                    finally,
                };
                self.attempt(parts, strand).await
            }
            Action::Scope {
                cancel_on_signal,
                steps,
            } => self.scope(cancel_on_signal, steps, strand).await,
            _ => Ok(()),
        }
    }

    async fn repeat_while(
        &self,
        cond: &Slot<bool>,
        max: &Slot<u64>,
        steps: &'p [Step],
        strand: &Strand,
    ) -> Flow {
        let max = self.slot(max)?;
        for _ in 0..max {
            if !self.slot(cond)? {
                return Ok(());
            }
            self.budget.spend(budget::STEP)?;
            self.steps(steps, strand).await?;
        }
        if self.slot(cond)? {
            let message = format!("the condition still holds after {max} rounds");
            return Err(Exit::raise(raised::LOOP_LIMIT, message));
        }
        Ok(())
    }

    /// A cancel is not caught, and nothing that happens on the way out changes it.
    async fn attempt(&self, parts: Try<'p>, strand: &Strand) -> Flow {
        let mut flow = self.steps(parts.steps, strand).await;
        if let Err(Exit::Raise { failure, .. }) = &flow {
            let saved = self.save_in(parts.save_error, error_value(failure));
            flow = match (saved, parts.catch) {
                (Err(exit), _) => Err(exit),
                (Ok(()), Some(catch)) => self.steps(catch, strand).await,
                (Ok(()), None) => flow,
            };
        }
        if matches!(flow, Err(Exit::Overrun(_))) {
            self.budget.clean_up();
        }
        let cleaned = self.steps(parts.finally, &strand.shielded()).await;
        match flow {
            Err(Exit::Cancelled) => flow,
            _ => cleaned.and(flow),
        }
    }

    /// Runs steps until a signal comes; then they are cancelled, and the program goes on behind them.
    async fn scope(&self, signal: &str, steps: &'p [Step], strand: &Strand) -> Flow {
        let inner = strand.cancellable();
        let signal = self.ctx.signal::<Value>(signal);
        let signal: SignalFuture<'_> = if strand.is_shielded() {
            Box::pin(self.ctx.shield(signal))
        } else {
            Box::pin(signal)
        };
        let scope = Scope {
            signal: Some(signal),
            token: inner.token(),
            steps: self.steps(steps, &inner),
        };
        match scope.await {
            Err(Exit::Cancelled) if !strand.is_cancelled(&self.ctx) => Ok(()),
            flow => flow,
        }
    }
}

type SignalFuture<'a> = Pin<Box<dyn Future<Output = WorkflowResult<Value>> + Send + 'a>>;

struct Scope<'a> {
    /// None once it has come, or the run is being cancelled.
    signal: Option<SignalFuture<'a>>,
    token: &'a Token,
    steps: Pin<Box<dyn Future<Output = Flow> + Send + 'a>>,
}

impl Future for Scope<'_> {
    type Output = Flow;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Flow> {
        let this = &mut *self;
        if let Some(signal) = &mut this.signal
            && let Poll::Ready(came) = signal.as_mut().poll(cx)
        {
            this.signal = None;
            if came.is_ok() {
                this.token.cancel();
            }
        }
        this.steps.as_mut().poll(cx)
    }
}
