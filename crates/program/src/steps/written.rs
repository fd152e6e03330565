//! A child's program that its parent computes: what of it is written out is checked at the parent's start.
//!
//! The parent's expressions are computed before the child sees them, so that a part with one in it is known only then. A part
//! without any, or quoted by `$lit`, is what the child gets.

use super::{Program, parse};
use crate::expr::Expr;
use crate::fields::{Fields, check_variables};
use crate::mistake::Mistake;
use crate::path::Path;
use crate::quote::computes;
use crate::value::Value;

/// Whether an object computes: one of its keys begins with `$`.
pub(super) fn is_computed(value: &Value) -> bool {
    let fields = value.as_object();
    fields.is_some_and(|fields| fields.keys().any(|key| key.starts_with('$')))
}

/// Checks a program, as far as it is known.
pub(super) fn program(value: &Value, path: &Path<'_>) -> Result<(), Mistake> {
    if let Some(quoted) = value.get("$lit") {
        return Program::parse(quoted, &path.field("$lit")).map(|_| ());
    }
    if is_computed(value) {
        return Ok(());
    }
    let fields = Fields::of(value, path, Program::WHAT)?;
    if let Some(vars) = fields.get("vars") {
        variables(vars, &path.field("vars"))?;
    }
    let given = fields.get("steps");
    let given = given.ok_or_else(|| path.mistake("lacks \"steps\""))?;
    steps(given, &path.field("steps"))?;
    fields.finish("a program")
}

/// The child reads them once more, as expressions of its own: data that computes is quoted twice.
fn variables(value: &Value, path: &Path<'_>) -> Result<(), Mistake> {
    if let Some(quoted) = value.get("$lit") {
        let path = path.field("$lit");
        return check_variables(&Expr::parse(quoted, &path)?, &path);
    }
    check_variables(&Expr::parse(value, path)?, path)
}

fn steps(value: &Value, path: &Path<'_>) -> Result<(), Mistake> {
    let parser = parse::Parser::default();
    if let Some(quoted) = value.get("$lit") {
        return parser.list(quoted, &path.field("$lit")).map(|_| ());
    }
    if is_computed(value) {
        return Ok(());
    }
    for (index, step) in parse::array(value, path, "steps")?.iter().enumerate() {
        let path = path.index(index);
        match step.get("$lit") {
            Some(quoted) => parser.step(quoted, &path.field("$lit")).map(|_| ())?,
            None if computes(step) => {}
            None => parser.step(step, &path).map(|_| ())?,
        }
    }
    Ok(())
}
