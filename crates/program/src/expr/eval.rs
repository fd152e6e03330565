//! What an expression comes to.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use super::Expr;
use super::operator::Operator;
use crate::number::{Arithmetic, NoNumber, compare, compute};
use crate::value::{Map, Value};
use crate::vars::{VALUE_BYTES_MAX, Vars, size};

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExpressionError(pub(crate) String);

type Evaluated = Result<Value, ExpressionError>;

/// What it took to compute an expression, whether it has a value or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Parts of expressions that were computed.
    pub(crate) nodes: usize,
    /// Bytes of values that were copied, compared or measured.
    pub(crate) bytes: usize,
}

/// Computes an expression over the variables as they are. Answers also what it took.
pub(crate) fn evaluate(expr: &Expr, vars: &Vars) -> (Result<Value, ExpressionError>, Work) {
    let evaluation = Evaluation {
        vars,
        nodes: Cell::new(0),
        copied: Cell::new(0),
        seen: Cell::new(0),
    };
    let value = evaluation.value(expr);
    let work = Work {
        nodes: evaluation.nodes.get(),
        bytes: evaluation.copied.get() + evaluation.seen.get(),
    };
    (value, work)
}

/// Computes one expression. What it copies is bounded: a short program can name a large variable very often.
struct Evaluation<'a> {
    vars: &'a Vars,
    nodes: Cell<usize>,
    copied: Cell<usize>,
    /// Bytes that were compared or measured, not copied.
    seen: Cell<usize>,
}

impl<'a> Evaluation<'a> {
    fn value(&self, expr: &'a Expr) -> Evaluated {
        self.nodes.set(self.nodes.get() + 1);
        match expr {
            Expr::Array(items) => {
                let items = items.iter().map(|item| self.value(item));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            Expr::Object(fields) => {
                let fields = fields.iter().map(|(name, field)| {
                    self.copying(name.len())?;
                    Ok((name.clone(), self.value(field)?))
                });
                Ok(Value::Object(fields.collect::<Result<Map, _>>()?))
            }
            Expr::Constant(_) | Expr::Variable(_) => self.owned(self.look(expr)?),
            Expr::Operation(Operator::And, operands) => self.until(false, Operator::And, operands),
            Expr::Operation(Operator::Or, operands) => self.until(true, Operator::Or, operands),
            Expr::Operation(operator, operands) => {
                let operands = operands.iter().map(|operand| self.look(operand));
                self.apply(*operator, &operands.collect::<Result<Vec<_>, _>>()?)
            }
        }
    }

    /// Goes through booleans from left to right until one decides; those behind it are not computed, so that a guard guards.
    fn until(&self, decides: bool, operator: Operator, operands: &'a [Expr]) -> Evaluated {
        for operand in operands {
            if truth(operator.name(), self.look(operand)?.as_ref())? == decides {
                return Ok(decides.into());
            }
        }
        Ok((!decides).into())
    }

    /// The value where it stands, if it stands somewhere.
    fn look(&self, expr: &'a Expr) -> Result<Cow<'a, Value>, ExpressionError> {
        match expr {
            Expr::Constant(value) => {
                self.nodes.set(self.nodes.get() + 1);
                Ok(Cow::Borrowed(value))
            }
            Expr::Variable(path) => {
                // Each part of the way is looked up on its own.
                self.nodes.set(self.nodes.get() + path.len());
                let found = self.vars.look_up(path);
                Ok(found.map_or(Cow::Owned(Value::Null), Cow::Borrowed))
            }
            computed => self.value(computed).map(Cow::Owned),
        }
    }

    fn owned(&self, value: Cow<'_, Value>) -> Evaluated {
        self.copying(size(&value))?;
        Ok(value.into_owned())
    }

    fn sees(&self, bytes: usize) {
        self.seen.set(self.seen.get() + bytes);
    }

    fn copying(&self, bytes: usize) -> Result<(), ExpressionError> {
        let copied = self.copied.get() + bytes;
        self.copied.set(copied);
        if copied > VALUE_BYTES_MAX {
            return Err(error(format!(
                "the value is too large: an expression may copy {VALUE_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }

    fn apply(&self, operator: Operator, operands: &[Cow<'_, Value>]) -> Evaluated {
        use Operator as O;
        let name = operator.name();
        let operands: Vec<&Value> = operands.iter().map(AsRef::as_ref).collect();
        match (operator, operands.as_slice()) {
            (O::Add, [a, b]) => arithmetic(name, Arithmetic::Add, a, b),
            (O::Sub, [a, b]) => arithmetic(name, Arithmetic::Sub, a, b),
            (O::Mul, [a, b]) => arithmetic(name, Arithmetic::Mul, a, b),
            (O::Eq, [a, b]) => {
                self.sees(size(a));
                Ok(equal(a, b).into())
            }
            (O::Lt, [a, b]) => {
                self.sees(text_bytes(a).min(text_bytes(b)));
                less(a, b)
            }
            (O::Not, [a]) => Ok((!truth(name, a)?).into()),
            (O::Concat, all) => {
                self.copying(all.iter().map(|one| size(one)).sum())?;
                concat(all)
            }
            (O::Len, [a]) => {
                self.sees(text_bytes(a));
                len(a)
            }
            (O::Get, [from, key]) => {
                let found = get(from, key)?;
                self.owned(found.map_or(Cow::Owned(Value::Null), Cow::Borrowed))
            }
            _ => Err(error(format!("{name} has {} operands", operands.len()))),
        }
    }
}

/// Bytes of a string that have to be gone through; of anything else only its length is asked.
fn text_bytes(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}

fn arithmetic(name: &str, how: Arithmetic, a: &Value, b: &Value) -> Evaluated {
    compute(how, a, b).map_err(|why| match why {
        NoNumber::Operand => wrong(name, "two numbers", &[a, b]),
        NoNumber::Overflow => error(format!(
            "{name} of {a} and {b} overflows: integers have 64 bits, floats are finite"
        )),
    })
}

/// Deeply; numbers by their value.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b).map_or(a == b, Ordering::is_eq),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

fn less(a: &Value, b: &Value) -> Evaluated {
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let order = order.ok_or_else(|| wrong("$lt", "two numbers or two strings", &[a, b]))?;
    Ok((order == Ordering::Less).into())
}

fn truth(name: &str, value: &Value) -> Result<bool, ExpressionError> {
    let truth = value.as_bool();
    truth.ok_or_else(|| wrong(name, "true or false", &[value]))
}

fn concat(all: &[&Value]) -> Evaluated {
    let wrong = || wrong("$concat", "strings only or arrays only", all);
    if matches!(all.first(), Some(Value::String(_))) {
        let texts = all.iter().map(|one| one.as_str().ok_or_else(wrong));
        return Ok(Value::String(texts.collect::<Result<_, _>>()?));
    }
    let mut joined = Vec::new();
    for one in all {
        joined.extend_from_slice(one.as_array().ok_or_else(wrong)?);
    }
    Ok(Value::Array(joined))
}

fn len(of: &Value) -> Evaluated {
    match of {
        Value::String(text) => Ok(text.chars().count().into()),
        Value::Array(items) => Ok(items.len().into()),
        Value::Object(fields) => Ok(fields.len().into()),
        other => Err(wrong("$len", "a string, an array or an object", &[other])),
    }
}

/// What is not there is null, as it is on the way into a variable.
fn get<'a>(from: &'a Value, key: &Value) -> Result<Option<&'a Value>, ExpressionError> {
    Ok(match (from, key) {
        (Value::Null, Value::String(_) | Value::Number(_)) => None,
        (Value::Object(fields), Value::String(key)) => fields.get(key),
        (Value::Array(items), Value::Number(index)) if index.is_integer() => {
            let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
            index.and_then(|index| items.get(index))
        }
        (from, key) => {
            let wanted = "an object and a string, or an array and an integer";
            return Err(wrong("$get", wanted, &[from, key]));
        }
    })
}

fn error(message: String) -> ExpressionError {
    ExpressionError(message)
}

fn wrong(name: &str, wanted: &str, found: &[&Value]) -> ExpressionError {
    let found: Vec<&str> = found.iter().map(|value| kind(value)).collect();
    error(format!(
        "{name} needs {wanted}, and has {}",
        found.join(" and ")
    ))
}

/// What a value is, for people.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_integer() => "an integer",
        Value::Number(_) => "a float",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
