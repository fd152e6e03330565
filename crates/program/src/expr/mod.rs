//! Expressions: JSON in which objects with a `$` key compute.

mod eval;
mod operator;

pub(crate) use eval::{ExpressionError, Work, evaluate, kind};
use operator::{Arity, Operator};

use crate::mistake::Mistake;
use crate::path::Path;
use crate::value::{Map, Value};

/// What stands where a value is expected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// Nothing to compute in it.
    Constant(Value),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
    /// A variable, and the way into it.
    Variable(Vec<String>),
    Operation(Operator, Vec<Self>),
}

impl Expr {
    /// Reads a value that may compute.
    pub(crate) fn parse(value: &Value, path: &Path<'_>) -> Result<Self, Mistake> {
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| Self::parse(item, &path.index(index)));
                items.collect::<Result<Vec<_>, _>>().map(array)
            }
            Value::Object(fields) => match fields.keys().find(|key| key.starts_with('$')) {
                Some(key) => operation(key, fields, path),
                None => {
                    let fields = fields.iter().map(|(name, field)| {
                        let field = Self::parse(field, &path.field(name))?;
                        Ok((name.clone(), field))
                    });
                    fields.collect::<Result<Vec<_>, _>>().map(object)
                }
            },
            plain => Ok(Self::Constant(plain.clone())),
        }
    }

    /// The value, if it is written out.
    pub(crate) const fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The keys of an object that is written out; None for anything else.
    pub(crate) fn keys(&self) -> Option<Vec<&str>> {
        match self {
            Self::Constant(Value::Object(fields)) => {
                Some(fields.keys().map(String::as_str).collect())
            }
            Self::Object(fields) => Some(fields.iter().map(|(name, _)| name.as_str()).collect()),
            _ => None,
        }
    }
}

/// What is made of constants only is one.
fn array(items: Vec<Expr>) -> Expr {
    if items.iter().any(|item| item.constant().is_none()) {
        return Expr::Array(items);
    }
    let values = items.into_iter().filter_map(|item| match item {
        Expr::Constant(value) => Some(value),
        _ => None,
    });
    Expr::Constant(Value::Array(values.collect()))
}

fn object(fields: Vec<(String, Expr)>) -> Expr {
    if fields.iter().any(|(_, field)| field.constant().is_none()) {
        return Expr::Object(fields);
    }
    let values = fields.into_iter().filter_map(|(name, field)| match field {
        Expr::Constant(value) => Some((name, value)),
        _ => None,
    });
    Expr::Constant(Value::Object(values.collect()))
}

fn operation(key: &str, fields: &Map, path: &Path<'_>) -> Result<Expr, Mistake> {
    let here = path.field(key);
    if fields.len() > 1 {
        let problem = format!(
            "an object with a key that begins with $ has only that key; to have {key:?} as data, quote the object: {{\"$lit\": …}}"
        );
        return Err(here.mistake(problem));
    }
    let value = &fields[key];
    match key {
        "$lit" => Ok(Expr::Constant(value.clone())),
        "$" => variable(value, &here),
        _ => {
            let operator = Operator::named(key).ok_or_else(|| {
                here.mistake(format!(
                    "there is no such operator; there are $, $lit, {}; to have {key:?} as data, quote the object: {{\"$lit\": …}}",
                    Operator::names()
                ))
            })?;
            operands(operator, value, &here)
        }
    }
}

fn variable(value: &Value, path: &Path<'_>) -> Result<Expr, Mistake> {
    let text = value.as_str().ok_or_else(|| {
        let problem = format!(
            "is a variable's name and the way into it, such as \"order.items.0\"; this is {}",
            kind(value)
        );
        path.mistake(problem)
    })?;
    let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
    if parts.iter().any(String::is_empty) {
        let problem = format!("{text:?} has an empty part; write \"name\" or \"name.field.0\"");
        return Err(path.mistake(problem));
    }
    Ok(Expr::Variable(parts))
}

fn operands(operator: Operator, value: &Value, path: &Path<'_>) -> Result<Expr, Mistake> {
    let arity = operator.arity();
    let given = match (arity, value) {
        (Arity::One, Value::Array(items)) if operator == Operator::Not && items.len() == 1 => {
            vec![Expr::parse(&items[0], &path.index(0))?]
        }
        (Arity::One, one) => vec![Expr::parse(one, path)?],
        (_, Value::Array(items)) if arity.takes(items.len()) => {
            let items = items.iter().enumerate();
            let items = items.map(|(index, item)| Expr::parse(item, &path.index(index)));
            items.collect::<Result<_, _>>()?
        }
        (_, other) => {
            let has = match other {
                Value::Array(items) => format!("{}", items.len()),
                other => kind(other).to_owned(),
            };
            let problem = format!("takes {}, and has {has}", arity.describe());
            return Err(path.mistake(problem));
        }
    };
    Ok(Expr::Operation(operator, given))
}
