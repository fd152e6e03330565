//! Steps that wait: activities, sleeping, signals, updates, children. And what is made once.

use everruns_durable::core::{ActivityOptions, RetryPolicy};
use everruns_durable::persistence::limits::PAYLOAD_BYTES_MAX;
use everruns_durable::prelude::Payload;

use super::exit::{Exit, Flow, raised, told};
use super::strand::Strand;
use super::{Interpreter, SetVar};
use crate::PROGRAM_TYPE;
use crate::expr::{Expr, ExpressionError};
use crate::fields::check_computed_variables;
use crate::number::Number;
use crate::path::Path;
use crate::quote::quoted;
use crate::steps::{Action, Child, ChildWork, Options, Program, SideEffect};
use crate::value::{Map, Value};
use crate::vars::size;

impl<'p> Interpreter<'p> {
    pub(super) async fn call(&self, action: &'p Action, strand: &Strand) -> Flow {
        self.budget.record()?;
        let (save, value) = match action {
            Action::Activity {
                activity_type,
                input,
                options,
                save,
            } => {
                let input = self.carried("the input", &self.value(input)?)?;
                let options = self.activity_options(options)?;
                let call = self.ctx.activity_named(activity_type, input);
                (save, self.wait(strand, call.options(options)).await?)
            }
            Action::Local {
                activity_type,
                input,
                save,
            } => {
                let input = self.carried("the input", &self.value(input)?)?;
                let call = self.ctx.local_activity_named(activity_type, input);
                let _held = self.budget.hold();
                let value = self.wait(strand, call).await?;
                // It came within the turn, which has to store it.
                self.budget.carry(size(&value))?;
                (save, value)
            }
            Action::Sleep { time } => {
                let sleep = self.ctx.sleep(self.slot(time)?);
                return self.wait(strand, sleep).await;
            }
            Action::WaitSignal {
                name,
                timeout,
                save,
            } => {
                let signal = self.ctx.signal::<Value>(name);
                let value = match self.optional(timeout.as_ref())? {
                    None => self.wait(strand, signal).await?,
                    Some(timeout) => {
                        let came = self.wait(strand, signal.timeout(timeout)).await?;
                        came.unwrap_or_else(|| Value::object([("timeout", true.into())]))
                    }
                };
                (save, value)
            }
            Action::WaitUpdate { name, save } => (save, self.update(name, strand).await?),
            Action::Child(child) => (&child.save, self.child(child, strand).await?),
            _ => return Ok(()),
        };
        self.save_in(save.as_ref(), value)
    }

    fn activity_options(&self, given: &Options) -> Result<ActivityOptions, Exit> {
        let all = ActivityOptions::default();
        let retry = all.retry_policy;
        let time = |slot| self.optional(slot);
        Ok(ActivityOptions {
            retry_policy: RetryPolicy {
                max_attempts: self
                    .optional(given.max_attempts.as_ref())?
                    .map_or(retry.max_attempts, |attempts| attempts.0),
                initial_interval: time(given.initial_interval.as_ref())?
                    .unwrap_or(retry.initial_interval),
                backoff_coefficient: self
                    .optional(given.backoff.as_ref())?
                    .unwrap_or(retry.backoff_coefficient),
                ..retry
            },
            start_to_close_timeout: time(given.start_to_close.as_ref())?
                .unwrap_or(all.start_to_close_timeout),
            schedule_to_start_timeout: time(given.schedule_to_start.as_ref())?
                .unwrap_or(all.schedule_to_start_timeout),
            schedule_to_close_timeout: time(given.schedule_to_close.as_ref())?,
            heartbeat_timeout: time(given.heartbeat.as_ref())?,
            priority: self
                .optional(given.priority.as_ref())?
                .unwrap_or(all.priority),
            on_exhausted: self
                .optional(given.on_exhausted.as_ref())?
                .unwrap_or(all.on_exhausted),
            ..all
        })
    }

    async fn update(&self, name: &Option<String>, strand: &Strand) -> Result<Value, Exit> {
        let updates = &self.shared.updates;
        let key = updates.update(|updates| updates.wait(name.clone()));
        let watched = updates.clone();
        let until = self
            .ctx
            .until(move || watched.with(|updates| updates.has_come(key)))
            .described(match name.as_deref() {
                None | Some(SetVar::UPDATE) => format!("an update {:?}", SetVar::UPDATE),
                Some(name) => format!("an update {:?} of variable {name:?}", SetVar::UPDATE),
            });
        let waited = self.wait(strand, until).await;
        let given = updates.update(|updates| updates.stop(key));
        waited.map(|()| given.unwrap_or_default())
    }

    async fn child(&self, child: &'p Child, strand: &Strand) -> Result<Value, Exit> {
        let (workflow_type, input) = self.child_input(&child.work)?;
        let id = self.optional(child.id.as_ref())?;
        let policy = self.optional(child.policy.as_ref())?;
        let mut call = self.ctx.child_named(workflow_type, input);
        if let Some(id) = id {
            call = call.workflow_id(id.0);
        }
        if let Some(policy) = policy {
            call = call.close_policy(policy);
        }
        self.wait(strand, call).await
    }

    fn child_input(&self, work: &'p ChildWork) -> Result<(&'p str, Payload), Exit> {
        let (workflow_type, input) = match work {
            ChildWork::Workflow {
                workflow_type,
                input,
            } => (workflow_type.as_str(), self.value(input)?),
            ChildWork::Program(program) => {
                let vars = self.next_vars(&program.vars)?;
                let input = program.with_vars(vars);
                (PROGRAM_TYPE, input)
            }
            ChildWork::Computed(program) => {
                let input = self.value(program)?;
                Program::parse(&input, &Path::ROOT.field("program")).map_err(|mistake| {
                    Exit::raise(raised::INVALID_PROGRAM, told(mistake.to_string()))
                })?;
                (PROGRAM_TYPE, input)
            }
        };
        Ok((workflow_type, self.carried("the child's input", &input)?))
    }

    /// What a call hands out.
    fn carried(&self, what: &str, value: &Value) -> Result<Payload, Exit> {
        let payload = payload(what, value)?;
        self.budget.carry(payload.len())?;
        Ok(payload)
    }

    /// The variables of a child or of the next iteration are computed over ours; what they come to is data.
    pub(super) fn next_vars(&self, vars: &Expr) -> Result<Map, Exit> {
        let vars = super::object("vars", self.value(vars)?)?;
        check_computed_variables(&vars)?;
        let vars = vars.into_iter();
        Ok(vars.map(|(name, value)| (name, quoted(value))).collect())
    }

    pub(super) fn side_effect(&self, kind: SideEffect) -> Value {
        match kind {
            SideEffect::Uuid => self.ctx.uuid().to_string().into(),
            SideEffect::Random => Value::Number(Number::Float(self.ctx.random())),
            SideEffect::Now => self.ctx.now().to_string().into(),
        }
    }
}

/// What leaves the program has to fit the store.
pub(super) fn payload(what: &str, value: &Value) -> Result<Payload, ExpressionError> {
    let payload =
        Payload::from_value(value).map_err(|error| ExpressionError(format!("{what}: {error}")))?;
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(ExpressionError(format!(
            "{what} has {} bytes; the limit is {PAYLOAD_BYTES_MAX}",
            payload.len()
        )));
    }
    Ok(payload)
}
