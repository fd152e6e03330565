//! Reads steps from JSON.

use std::cell::Cell;

use super::{Action, Child, Options, SideEffect, Step};
use crate::expr::{Expr, kind};
use crate::fields::{Fields, check_variables};
use crate::mistake::Mistake;
use crate::path::Path;
use crate::slot::Slot;
use crate::value::Value;

/// Most steps of one program, those of its branches and loops included, each counted once.
const STEPS_MAX: usize = 10_000;

/// What a step may do.
const VERBS: [&str; 22] = [
    "activity",
    "local",
    "sleep",
    "wait_signal",
    "parallel",
    "race",
    "child",
    "side_effect",
    "set",
    "if",
    "repeat",
    "while",
    "try",
    "compensate",
    "patched",
    "attributes",
    "continue_as_new",
    "on_signal",
    "scope",
    "wait_update",
    "fail",
    "return",
];

/// Reads the steps of one program, and counts them.
#[derive(Default)]
pub(super) struct Parser {
    steps: Cell<usize>,
}

impl Parser {
    /// A field that has to be there: a list of steps.
    pub(super) fn steps(
        &self,
        fields: &Fields<'_>,
        name: &'static str,
    ) -> Result<Vec<Step>, Mistake> {
        let steps = self.optional_steps(fields, name)?;
        steps.ok_or_else(|| fields.path().mistake(format!("lacks {name:?}")))
    }

    fn optional_steps(
        &self,
        fields: &Fields<'_>,
        name: &'static str,
    ) -> Result<Option<Vec<Step>>, Mistake> {
        let path = fields.path().field(name);
        let steps = fields.get(name);
        steps.map(|steps| self.list(steps, &path)).transpose()
    }

    pub(super) fn list(&self, value: &Value, path: &Path<'_>) -> Result<Vec<Step>, Mistake> {
        let steps = array(value, path, "steps")?.iter().enumerate();
        steps
            .map(|(index, step)| self.step(step, &path.index(index)))
            .collect()
    }

    fn branches(&self, fields: &Fields<'_>) -> Result<Vec<Vec<Step>>, Mistake> {
        let path = fields.path().field("branches");
        let lacks = || fields.path().mistake("lacks \"branches\"");
        let branches = fields.get("branches").ok_or_else(lacks)?;
        let branches = array(branches, &path, "branches, each an array of steps")?;
        let branches = branches.iter().enumerate();
        branches
            .map(|(index, branch)| self.list(branch, &path.index(index)))
            .collect()
    }

    pub(super) fn step(&self, value: &Value, path: &Path<'_>) -> Result<Step, Mistake> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX {
            let problem = format!("is one step too many: a program has at most {STEPS_MAX}");
            return Err(path.mistake(problem));
        }
        let fields = Fields::of(value, path, "a step, an object with \"do\"")?;
        let verb = fields.text("do")?;
        let verb = VERBS.into_iter().find(|known| *known == verb);
        let verb = verb.ok_or_else(|| {
            let problem = format!("there is no such step; there are {}", VERBS.join(", "));
            path.field("do").mistake(problem)
        })?;
        let action = self.action(verb, &fields)?;
        fields.finish(&format!("a step {verb:?}"))?;
        Ok(Step {
            path: path.to_string().into(),
            verb,
            action,
        })
    }

    fn action(&self, verb: &str, fields: &Fields<'_>) -> Result<Action, Mistake> {
        Ok(match verb {
            "activity" => Action::Activity {
                activity_type: fields.name("type")?,
                input: fields.expr_or_null("input")?,
                save: fields.optional_variable("save")?,
                options: match fields.get("options") {
                    Some(options) => {
                        Box::new(Options::parse(options, &fields.path().field("options"))?)
                    }
                    None => Box::default(),
                },
            },
            "local" => Action::Local {
                activity_type: fields.name("type")?,
                input: fields.expr_or_null("input")?,
                save: fields.optional_variable("save")?,
            },
            "sleep" => Action::Sleep {
                time: fields.slot("ms")?,
            },
            "wait_signal" => Action::WaitSignal {
                name: fields.signal("name")?,
                timeout: fields.optional_slot("timeout_ms")?,
                save: fields.optional_variable("save")?,
            },
            "parallel" => Action::Parallel {
                branches: self.branches(fields)?,
                save: fields.optional_variable("save")?,
            },
            "race" => self.race(fields)?,
            "child" => Action::Child(Box::new(Child::parse(fields)?)),
            "side_effect" => Action::SideEffect {
                kind: side_effect(fields)?,
                save: fields.variable("save")?,
            },
            "set" => Action::Set {
                var: fields.variable("var")?,
                value: fields.expr("value")?,
            },
            "fail" => Action::Fail {
                error_type: fields.name("type")?,
                message: fields
                    .optional_slot("message")?
                    .unwrap_or_else(|| Slot::Given(String::new())),
            },
            "return" => Action::Return {
                value: fields.expr_or_null("value")?,
            },
            "attributes" => Action::Attributes {
                set: attributes(fields)?,
            },
            "continue_as_new" => {
                let vars = fields.expr("vars")?;
                check_variables(&vars, &fields.path().field("vars"))?;
                Action::ContinueAsNew { vars }
            }
            "on_signal" => Action::OnSignal {
                name: fields.signal("name")?,
                append_to: fields.variable("append_to")?,
            },
            "wait_update" => Action::WaitUpdate {
                name: fields.optional_variable("name")?,
                save: fields.optional_variable("save")?,
            },
            nesting => self.nesting(nesting, fields)?,
        })
    }

    /// Steps that hold other steps, one after the other.
    fn nesting(&self, verb: &str, fields: &Fields<'_>) -> Result<Action, Mistake> {
        Ok(match verb {
            "if" => Action::If {
                cond: fields.slot("cond")?,
                then: self.steps(fields, "then")?,
                otherwise: self.optional_steps(fields, "else")?.unwrap_or_default(),
            },
            "repeat" => Action::Repeat {
                times: fields.slot("times")?,
                steps: self.steps(fields, "steps")?,
            },
            "while" => Action::While {
                cond: fields.slot("cond")?,
                max: fields.slot("max")?,
                steps: self.steps(fields, "steps")?,
            },
            "try" => Action::Try {
                steps: self.steps(fields, "steps")?,
                catch: self.optional_steps(fields, "catch")?,
                save_error: fields.optional_variable("save_error")?,
                finally: self.optional_steps(fields, "finally")?.unwrap_or_default(),
            },
            "compensate" => Action::Compensate {
                steps: self.steps(fields, "steps")?,
            },
            "patched" => Action::Patched {
                id: fields.name("id")?,
                then: self.steps(fields, "then")?,
                otherwise: self.optional_steps(fields, "else")?.unwrap_or_default(),
            },
            _ => Action::Scope {
                cancel_on_signal: fields.signal("cancel_on_signal")?,
                steps: self.steps(fields, "steps")?,
            },
        })
    }

    fn race(&self, fields: &Fields<'_>) -> Result<Action, Mistake> {
        let branches = self.branches(fields)?;
        if branches.is_empty() {
            let path = fields.path().field("branches");
            return Err(path.mistake("is empty: a race needs a branch that can win it"));
        }
        Ok(Action::Race {
            branches,
            save: fields.optional_variable("save")?,
        })
    }
}

pub(super) fn array<'a>(
    value: &'a Value,
    path: &Path<'_>,
    of: &str,
) -> Result<&'a Vec<Value>, Mistake> {
    value.as_array().ok_or_else(|| {
        let problem = format!("has to be an array of {of}, and is {}", kind(value));
        path.mistake(problem)
    })
}

fn side_effect(fields: &Fields<'_>) -> Result<SideEffect, Mistake> {
    match fields.text("kind")? {
        "uuid" => Ok(SideEffect::Uuid),
        "random" => Ok(SideEffect::Random),
        "now" => Ok(SideEffect::Now),
        other => {
            let problem = format!("has to be \"uuid\", \"random\" or \"now\", and is {other:?}");
            Err(fields.path().field("kind").mistake(problem))
        }
    }
}

/// Checks what is written out; the rest is checked when the step runs.
fn attributes(fields: &Fields<'_>) -> Result<Expr, Mistake> {
    let set = fields.expr("set")?;
    let path = fields.path().field("set");
    match &set {
        Expr::Object(each) => {
            for (name, value) in each {
                // Of one that is computed the name is checked: null goes with any.
                crate::attributes::read(name, value.constant().unwrap_or(&Value::Null))
                    .map_err(|error| path.field(name).mistake(error.0))?;
            }
        }
        Expr::Constant(Value::Object(each)) => {
            for (name, value) in each {
                crate::attributes::read(name, value)
                    .map_err(|error| path.field(name).mistake(error.0))?;
            }
        }
        Expr::Constant(other) => {
            let problem = format!("has to be an object of attributes, and is {}", kind(other));
            return Err(path.mistake(problem));
        }
        Expr::Array(_) => {
            return Err(path.mistake("has to be an object of attributes, and is an array"));
        }
        _ => {}
    }
    Ok(set)
}
