//! A program, read once from its JSON: typed steps that know where they stand.

mod child;
mod options;
mod parse;
mod written;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use child::{Child, ChildWork};
use everruns_durable::prelude::Payload;
pub(crate) use options::Options;

use crate::expr::Expr;
use crate::fields::{Fields, check_variables};
use crate::json;
use crate::mistake::Mistake;
use crate::path::Path;
use crate::slot::Slot;
use crate::value::{Map, Value};

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Program {
    /// What the variables are at the beginning: an object.
    pub(crate) vars: Expr,
    pub(crate) steps: Vec<Step>,
    /// The steps as they were written, to go on with as new.
    pub(crate) source: Value,
}

impl Program {
    /// What one looks like, for people.
    const WHAT: &'static str = "a program, {\"vars\": {…}, \"steps\": [STEP…]}";

    /// The input of a run that goes through the same steps with other variables.
    pub(crate) fn with_vars(&self, vars: Map) -> Value {
        let steps = self.source.clone();
        Value::object([("vars", Value::Object(vars)), ("steps", steps)])
    }

    /// Reads a run's input.
    pub(crate) fn read(input: &Payload) -> Result<Self, Mistake> {
        if input.is_encoded() {
            let problem = "is encoded by a codec and cannot be read here";
            return Err(Path::ROOT.mistake(problem));
        }
        let text = match input.as_bytes() {
            [] => b"null",
            text => text,
        };
        Self::parse(&json::read(text)?, &Path::ROOT)
    }

    /// Reads what stands where a program is expected.
    pub(crate) fn parse(value: &Value, path: &Path<'_>) -> Result<Self, Mistake> {
        let fields = Fields::of(value, path, Self::WHAT)?;
        let vars = match fields.get("vars") {
            Some(vars) => Expr::parse(vars, &path.field("vars"))?,
            None => Expr::Constant(Value::Object(Default::default())),
        };
        check_variables(&vars, &path.field("vars"))?;
        let steps = parse::Parser::default().steps(&fields, "steps")?;
        let source = value.get("steps").cloned().unwrap_or_default();
        fields.finish("a program")?;
        Ok(Self {
            vars,
            steps,
            source,
        })
    }
}

/// One step, and where it stands.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) path: Arc<str>,
    /// Its `do`.
    pub(crate) verb: &'static str,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Action {
    Activity {
        activity_type: String,
        input: Expr,
        options: Box<Options>,
        save: Option<String>,
    },
    Local {
        activity_type: String,
        input: Expr,
        save: Option<String>,
    },
    Sleep {
        time: Slot<Duration>,
    },
    WaitSignal {
        name: String,
        timeout: Option<Slot<Duration>>,
        save: Option<String>,
    },
    Parallel {
        branches: Vec<Vec<Step>>,
        save: Option<String>,
    },
    Race {
        branches: Vec<Vec<Step>>,
        save: Option<String>,
    },
    Child(Box<Child>),
    SideEffect {
        kind: SideEffect,
        save: String,
    },
    Set {
        var: String,
        value: Expr,
    },
    If {
        cond: Slot<bool>,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    Repeat {
        times: Slot<u64>,
        steps: Vec<Step>,
    },
    While {
        cond: Slot<bool>,
        max: Slot<u64>,
        steps: Vec<Step>,
    },
    Try {
        steps: Vec<Step>,
        catch: Option<Vec<Step>>,
        save_error: Option<String>,
        finally: Vec<Step>,
    },
    Compensate {
        steps: Vec<Step>,
    },
    Patched {
        id: String,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    Attributes {
        set: Expr,
    },
    ContinueAsNew {
        vars: Expr,
    },
    OnSignal {
        name: String,
        append_to: String,
    },
    Scope {
        cancel_on_signal: String,
        steps: Vec<Step>,
    },
    WaitUpdate {
        name: Option<String>,
        save: Option<String>,
    },
    Fail {
        error_type: String,
        message: Slot<String>,
    },
    Return {
        value: Expr,
    },
}

/// A value that is made once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideEffect {
    Uuid,
    Random,
    Now,
}
