//! Runs a program: one future, that asks the context for what the steps say.
//!
//! ```text
//!   Interpreter ── steps ──► one step after the other, in a Strand
//!        │                      │ calls.rs   activities, children, sleeping, signals: each is a Wait
//!        │                      │ flow.rs    if, loops, try, scope
//!        │                      └ branches.rs  parallel and race: a strand for each branch, polled in order
//!        └ undo: the compensations, last first
//! ```
//!
//! A part is cancelled by its [`Token`], never by dropping it: whatever it waits for is given up, and it unwinds through its
//! `finally`. Those, and compensations, are shielded: neither a token nor the run's own cancel reaches them.

mod branches;
mod budget;
mod calls;
mod exit;
mod flow;
mod strand;
mod updates;
mod wait;
mod whereabouts;

use std::future::Future;
use std::pin::Pin;

use everruns_durable::prelude::{State, WorkflowContext, WorkflowError, WorkflowResult};
use parking_lot::Mutex;

use self::budget::Budget;
use self::exit::{Exit, Flow};
pub(crate) use self::exit::{raised, told};
use self::strand::Strand;
pub(crate) use self::updates::{SetVar, Updates};
pub(crate) use self::whereabouts::Whereabouts;
use crate::attributes::Attributes;
use crate::expr::{Expr, ExpressionError, evaluate, kind};
use crate::slot::{self, Kind, Slot};
use crate::steps::{Action, Program, SideEffect, Step};
use crate::value::{Map, Value};
use crate::vars::Vars;

/// Runs one program.
pub(crate) struct Interpreter<'p> {
    pub(crate) ctx: WorkflowContext,
    pub(crate) program: &'p Program,
    /// Shared with the run's handlers.
    pub(crate) shared: Shared,
    undo: Mutex<Vec<&'p [Step]>>,
    attributes: Mutex<Attributes>,
    budget: Budget,
}

/// What the program and the handlers of its run share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) vars: State<Vars>,
    pub(crate) places: State<Whereabouts>,
    pub(crate) updates: State<Updates>,
}

impl Shared {
    pub(crate) fn new(ctx: &WorkflowContext) -> Self {
        Self {
            vars: ctx.state(Vars::default()),
            places: ctx.state(Whereabouts::default()),
            updates: ctx.state(Updates::default()),
        }
    }
}

impl<'p> Interpreter<'p> {
    pub(crate) fn new(ctx: WorkflowContext, program: &'p Program, shared: Shared) -> Self {
        Self {
            undo: Mutex::default(),
            attributes: Mutex::default(),
            budget: Budget::default(),
            ctx,
            program,
            shared,
        }
    }

    /// Runs the program to its end, and its compensations where it fails or is cancelled.
    pub(crate) async fn run(&self) -> WorkflowResult<Value> {
        self.budget.by_turns(self.run_to_its_end()).await
    }

    async fn run_to_its_end(&self) -> WorkflowResult<Value> {
        let main = Strand::main();
        let flow = match self.load_vars() {
            Ok(()) => self.steps(&self.program.steps, &main).await,
            Err(exit) => Err(exit.at("vars")),
        };
        let ended = match flow {
            Ok(()) => Ok(Value::Null),
            Err(Exit::Return(value)) => Ok(value),
            Err(Exit::Continue(input)) => self.ctx.continue_as_new(input),
            Err(Exit::Raise { failure, .. } | Exit::Overrun(failure)) => {
                self.compensate(&main).await;
                Err(failure.non_retryable().into())
            }
            Err(Exit::Cancelled) => {
                self.compensate(&main).await;
                let reason = self.ctx.cancel_reason().unwrap_or_default();
                Err(WorkflowError::cancelled(reason))
            }
        };
        self.shared.places.update(|places| places.leave(main.id()));
        ended
    }

    fn load_vars(&self) -> Result<(), Exit> {
        let (vars, work) = evaluate(&self.program.vars, &Vars::default());
        self.budget.spend(budget::of_work(work))?;
        let vars = vars?;
        for (name, value) in object("vars", vars)? {
            self.save(&name, value)?;
        }
        Ok(())
    }

    /// Undoes what was done, last first, whatever fails meanwhile.
    async fn compensate(&self, main: &Strand) {
        loop {
            let last = self.undo.lock().pop();
            let Some(steps) = last else {
                return;
            };
            self.budget.clean_up();
            let strand = main.shielded();
            // However it ends: the next one is undone all the same.
            let _ = self.steps(steps, &strand).await;
        }
    }

    /// Runs steps one after the other, until one leaves.
    fn steps<'a>(
        &'a self,
        steps: &'p [Step],
        strand: &'a Strand,
    ) -> Pin<Box<dyn Future<Output = Flow> + Send + 'a>> {
        Box::pin(async move {
            for step in steps {
                self.shared
                    .places
                    .update(|places| places.enter(strand.id(), step));
                if strand.is_cancelled(&self.ctx) {
                    return Err(Exit::Cancelled);
                }
                self.budget.spend(budget::STEP)?;
                self.step(step, strand).await?;
            }
            Ok(())
        })
    }

    async fn step(&self, step: &'p Step, strand: &Strand) -> Flow {
        let flow = match &step.action {
            Action::Set { .. }
            | Action::SideEffect { .. }
            | Action::Compensate { .. }
            | Action::Attributes { .. }
            | Action::ContinueAsNew { .. }
            | Action::OnSignal { .. }
            | Action::Fail { .. }
            | Action::Return { .. } => self.at_once(&step.action),
            Action::Activity { .. }
            | Action::Local { .. }
            | Action::Sleep { .. }
            | Action::WaitSignal { .. }
            | Action::WaitUpdate { .. }
            | Action::Child(_) => Box::pin(self.call(&step.action, strand)).await,
            Action::Parallel { .. } | Action::Race { .. } => {
                Box::pin(self.branch(&step.action, strand)).await
            }
            nesting => self.nest(nesting, strand).await,
        };
        flow.map_err(|exit| exit.at(&step.path))
    }

    /// Steps that wait for nothing.
    fn at_once(&self, action: &'p Action) -> Flow {
        match action {
            Action::Set { var, value } => self.save(var, self.value(value)?),
            Action::SideEffect { kind, save } => {
                match kind {
                    SideEffect::Now => self.budget.record()?,
                    // Made from the run's own seed: nothing is written down.
                    SideEffect::Uuid | SideEffect::Random => self.budget.spend(budget::RECORDED)?,
                }
                self.save(save, self.side_effect(*kind))
            }
            Action::Compensate { steps } => {
                self.undo.lock().push(steps);
                Ok(())
            }
            Action::Attributes { set } => {
                self.budget.record()?;
                let values = object("set", self.value(set)?)?;
                let values = self.attributes.lock().set(&values)?;
                self.ctx.upsert_attributes(values);
                Ok(())
            }
            Action::ContinueAsNew { vars } => Err(self.continue_as_new(vars)?),
            Action::OnSignal { name, append_to } => self.on_signal(name, append_to),
            Action::Fail {
                error_type,
                message,
            } => Err(Exit::raise(error_type, self.slot(message)?)),
            Action::Return { value } => Err(self.returning(value)?),
            _ => Ok(()),
        }
    }

    /// Refused here, where it can be caught and undone, and not when the run's last turn is stored.
    fn returning(&self, value: &Expr) -> Result<Exit, Exit> {
        let value = self.value(value)?;
        calls::payload("the returned value", &value)?;
        Ok(Exit::Return(value))
    }

    fn continue_as_new(&self, vars: &Expr) -> Result<Exit, Exit> {
        let vars = self.next_vars(vars)?;
        let input = self.program.with_vars(vars);
        Ok(Exit::Continue(calls::payload("the next input", &input)?))
    }

    fn on_signal(&self, name: &str, append_to: &str) -> Flow {
        self.shared.vars.update(|vars| {
            let value = vars.all().get(append_to);
            match value {
                Some(Value::Array(_)) => Ok(()),
                None | Some(Value::Null) => vars.set(append_to, Value::Array(Vec::new())),
                Some(other) => Err(ExpressionError(format!(
                    "variable {append_to:?} has to be an array to be appended to, and is {}",
                    kind(other)
                ))),
            }
        })?;
        let (vars, append_to) = (self.shared.vars.clone(), append_to.to_owned());
        self.ctx.on_signal(name, move |payload: Value| {
            vars.update(|vars| vars.append(&append_to, payload));
        });
        Ok(())
    }

    /// Computes an expression.
    fn value(&self, expr: &Expr) -> Result<Value, Exit> {
        let (value, work) = self.shared.vars.with(|vars| evaluate(expr, vars));
        // What has no value has cost something too, and may be caught and tried again.
        self.budget.spend(budget::of_work(work))?;
        Ok(value?)
    }

    fn slot<T: Kind>(&self, slot: &Slot<T>) -> Result<T, Exit> {
        match slot {
            Slot::Given(value) => Ok(value.clone()),
            Slot::Computed { field, expr } => Ok(slot::read_computed(field, &self.value(expr)?)?),
        }
    }

    fn optional<T: Kind>(&self, slot: Option<&Slot<T>>) -> Result<Option<T>, Exit> {
        slot.map(|slot| self.slot(slot)).transpose()
    }

    fn save(&self, name: &str, value: Value) -> Flow {
        Ok(self.shared.vars.update(|vars| vars.set(name, value))?)
    }

    fn save_in(&self, name: Option<&String>, value: Value) -> Flow {
        name.map_or(Ok(()), |name| self.save(name, value))
    }
}

/// The fields of what has to be an object.
fn object(what: &str, value: Value) -> Result<Map, ExpressionError> {
    match value {
        Value::Object(fields) => Ok(fields),
        other => Err(ExpressionError(format!(
            "{what} has to be an object, and is {}",
            kind(&other)
        ))),
    }
}
