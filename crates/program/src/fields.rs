//! The fields of an object, taken one by one; what is left over is a mistake.

use std::cell::RefCell;

use everruns_durable::core::signal_types;
use everruns_durable::persistence::limits::check_name;

use crate::expr::{Expr, ExpressionError, kind};
use crate::mistake::Mistake;
use crate::path::Path;
use crate::slot::{Kind, Slot};
use crate::value::{Map, Value};

/// The fields of one object.
pub(crate) struct Fields<'a> {
    fields: &'a Map,
    path: &'a Path<'a>,
    /// What was asked for: all that the object may have.
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    /// `what` is what it should be, for people.
    pub(crate) fn of(value: &'a Value, path: &'a Path<'a>, what: &str) -> Result<Self, Mistake> {
        let fields = value
            .as_object()
            .ok_or_else(|| path.mistake(format!("has to be {what}, and is {}", kind(value))))?;
        Ok(Self {
            fields,
            path,
            known: RefCell::default(),
        })
    }

    pub(crate) fn get(&self, name: &'static str) -> Option<&'a Value> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
        self.fields.get(name)
    }

    fn required(&self, name: &'static str) -> Result<&'a Value, Mistake> {
        let missing = || self.path.mistake(format!("lacks {name:?}"));
        self.get(name).ok_or_else(missing)
    }

    /// Refuses fields that nobody asked for.
    pub(crate) fn finish(self, what: &str) -> Result<(), Mistake> {
        let known = self.known.into_inner();
        let unknown = self
            .fields
            .keys()
            .find(|key| !known.contains(&key.as_str()));
        let Some(unknown) = unknown else {
            return Ok(());
        };
        let problem = format!("unknown field; {what} has {}", known.join(", "));
        Err(self.path.field(unknown).mistake(problem))
    }

    /// A value that may compute.
    pub(crate) fn expr(&self, name: &'static str) -> Result<Expr, Mistake> {
        Expr::parse(self.required(name)?, &self.path.field(name))
    }

    /// The same; null where it is left out.
    pub(crate) fn expr_or_null(&self, name: &'static str) -> Result<Expr, Mistake> {
        let value = self.get(name);
        value.map_or(Ok(Expr::Constant(Value::Null)), |value| {
            Expr::parse(value, &self.path.field(name))
        })
    }

    pub(crate) fn slot<T: Kind>(&self, name: &'static str) -> Result<Slot<T>, Mistake> {
        Slot::parse(self.required(name)?, self.path, name)
    }

    pub(crate) fn optional_slot<T: Kind>(
        &self,
        name: &'static str,
    ) -> Result<Option<Slot<T>>, Mistake> {
        let slot = self.get(name);
        slot.map(|value| Slot::parse(value, self.path, name))
            .transpose()
    }

    /// A text that is written out: names are never computed.
    pub(crate) fn text(&self, name: &'static str) -> Result<&'a str, Mistake> {
        let value = self.required(name)?;
        value.as_str().ok_or_else(|| {
            let problem = format!(
                "has to be a string, written out (nothing is computed here), and is {}",
                kind(value)
            );
            self.path.field(name).mistake(problem)
        })
    }

    /// A name of an activity, a workflow, a signal, an error or a change.
    pub(crate) fn name(&self, name: &'static str) -> Result<String, Mistake> {
        let text = self.text(name)?;
        check_name("this name", text)
            .map_err(|error| self.path.field(name).mistake(error.to_string()))?;
        Ok(text.to_owned())
    }

    /// The name of a signal that can reach a program.
    pub(crate) fn signal(&self, name: &'static str) -> Result<String, Mistake> {
        let signal = self.name(name)?;
        if [signal_types::CANCEL, signal_types::SHUTDOWN].contains(&signal.as_str()) {
            let problem = format!(
                "the signal {signal:?} asks the run itself to stop and never reaches its program; choose another name"
            );
            return Err(self.path.field(name).mistake(problem));
        }
        Ok(signal)
    }

    /// The name of a variable.
    pub(crate) fn variable(&self, name: &'static str) -> Result<String, Mistake> {
        let text = self.text(name)?;
        check_variable(text, &self.path.field(name))?;
        Ok(text.to_owned())
    }

    /// The name of a variable, where one is given.
    pub(crate) fn optional_variable(&self, name: &'static str) -> Result<Option<String>, Mistake> {
        if self.get(name).is_none() {
            return Ok(None);
        }
        self.variable(name).map(Some)
    }

    pub(crate) const fn path(&self) -> &'a Path<'a> {
        self.path
    }
}

/// Refuses what could not be read as `{"$": "name"}`.
pub(crate) fn check_variable(name: &str, path: &Path<'_>) -> Result<(), Mistake> {
    variable_problem(name).map_or(Ok(()), |problem| Err(path.mistake(problem)))
}

/// The same, of names that are known when a step runs.
pub(crate) fn check_computed_variables(vars: &Map) -> Result<(), ExpressionError> {
    let problem = vars.keys().find_map(|name| variable_problem(name));
    problem.map_or(Ok(()), |problem| Err(ExpressionError(problem)))
}

fn variable_problem(name: &str) -> Option<String> {
    if let Err(error) = check_name("a variable's name", name) {
        return Some(error.to_string());
    }
    let reads = !name.contains('.') && !name.starts_with('$');
    (!reads).then(|| {
        format!(
            "{name:?} is no variable's name: it has no dot (that is the way into a value) and does not begin with $"
        )
    })
}

/// Checks the names of variables that are given as an object, as far as they are written out.
pub(crate) fn check_variables(vars: &Expr, path: &Path<'_>) -> Result<(), Mistake> {
    let found = match vars {
        Expr::Constant(value) if value.as_object().is_none() => Some(kind(value)),
        Expr::Array(_) => Some("an array"),
        _ => None,
    };
    if let Some(found) = found {
        let problem = format!("has to be an object of variables, and is {found}");
        return Err(path.mistake(problem));
    }
    for name in vars.keys().unwrap_or_default() {
        check_variable(name, &path.field(name))?;
    }
    Ok(())
}
