//! What a program that never waits must come to, written from the specification alone: a plain recursive walk over its JSON.
//!
//! It shares no code with the interpreter. Where the specification says nothing, the oracle says [`Stop::Unspecified`] and the program
//! is not compared.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

/// More steps than a generated program needs; one that takes more is not compared.
const STEPS_MAX: usize = 20_000;

/// Why the walk does not go on with the next step.
#[derive(Debug)]
pub(crate) enum Stop {
    Return(Value),
    Raise(Value),
    /// The specification does not say what comes next.
    Unspecified(&'static str),
}

/// How a program ended, and the variables it left.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) result: Result<Value, Value>,
    pub(crate) vars: Map<String, Value>,
}

/// Errors of the interpreter's own: the specification gives their types and leaves the message open.
fn raised(kind: &str) -> Stop {
    Stop::Raise(json!({"type": kind, "message": "", "details": null}))
}

fn expression_error() -> Stop {
    raised("ExpressionError")
}

/// Walks a whole program.
///
/// # Errors
///
/// What the specification leaves open.
pub(crate) fn run(program: &Value) -> Result<Ending, &'static str> {
    let mut oracle = Oracle {
        vars: Map::new(),
        undo: Vec::new(),
        steps: 0,
    };
    if let Some(vars) = program.get("vars").and_then(Value::as_object) {
        oracle.vars = vars.clone();
    }
    let result = match oracle.list(&program["steps"]) {
        Ok(()) => Ok(Value::Null),
        Err(Stop::Return(value)) => Ok(value),
        Err(Stop::Raise(error)) => Err(error),
        Err(Stop::Unspecified(why)) => return Err(why),
    };
    if result.is_err() {
        while let Some(steps) = oracle.undo.pop() {
            if let Err(Stop::Unspecified(why)) = oracle.list(&steps) {
                return Err(why);
            }
        }
    }
    Ok(Ending {
        result,
        vars: oracle.vars,
    })
}

struct Oracle {
    vars: Map<String, Value>,
    /// Registered compensations; the last one runs first.
    undo: Vec<Value>,
    steps: usize,
}

impl Oracle {
    fn list(&mut self, steps: &Value) -> Result<(), Stop> {
        let none = Vec::new();
        for step in steps.as_array().unwrap_or(&none) {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(Stop::Unspecified("a long program"));
            }
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value) -> Result<(), Stop> {
        match step["do"].as_str().unwrap_or_default() {
            "set" => {
                let value = self.value(&step["value"])?;
                self.save(&step["var"], value);
                Ok(())
            }
            "if" => {
                let side = if self.truth(&step["cond"])? {
                    "then"
                } else {
                    "else"
                };
                self.list(&step[side])
            }
            "patched" => self.list(&step["then"]),
            "repeat" => {
                for _ in 0..self.times(&step["times"])? {
                    self.round(&step["steps"])?;
                }
                Ok(())
            }
            "while" => {
                let max = self.times(&step["max"])?;
                let mut rounds = 0;
                while self.truth(&step["cond"])? {
                    if rounds == max {
                        return Err(raised("LoopLimit"));
                    }
                    rounds += 1;
                    self.round(&step["steps"])?;
                }
                Ok(())
            }
            "try" => self.attempt(step),
            "compensate" => {
                self.undo.push(step["steps"].clone());
                Ok(())
            }
            "parallel" => {
                let mut values = Vec::new();
                for branch in branches(step) {
                    values.push(self.branch(branch)?);
                }
                self.save(&step["save"], Value::Array(values));
                Ok(())
            }
            // The first branch does not wait, so that it is the first to end, and the others never begin.
            "race" => {
                let value = self.branch(&branches(step)[0])?;
                self.save(&step["save"], json!({"winner": 0, "value": value}));
                Ok(())
            }
            "fail" => {
                let message = self.value(&step["message"])?;
                if !message.is_string() {
                    return Err(Stop::Unspecified("a message that is no text"));
                }
                Err(Stop::Raise(
                    json!({"type": step["type"], "message": message, "details": null}),
                ))
            }
            "return" => Err(Stop::Return(self.value(&step["value"])?)),
            other => panic!("the generator made a step {other:?}"),
        }
    }

    /// A round of a loop: empty ones count too, so that the walk ends.
    fn round(&mut self, steps: &Value) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Stop::Unspecified("a long program"));
        }
        self.list(steps)
    }

    fn attempt(&mut self, step: &Value) -> Result<(), Stop> {
        let mut outcome = self.list(&step["steps"]);
        if let (Err(Stop::Raise(error)), Some(catch)) = (&outcome, step.get("catch")) {
            let error = error.clone();
            self.save(&step["save_error"], error);
            outcome = self.list(catch);
        }
        if let Err(Stop::Unspecified(_)) = outcome {
            return outcome;
        }
        // What the last block says goes: a failure or a return in `finally` takes the place of what was under way.
        self.list(&step["finally"])?;
        outcome
    }

    /// A branch's `return`, or null.
    fn branch(&mut self, steps: &Value) -> Result<Value, Stop> {
        match self.list(steps) {
            Ok(()) => Ok(Value::Null),
            Err(Stop::Return(value)) => Ok(value),
            Err(stop) => Err(stop),
        }
    }

    fn save(&mut self, name: &Value, value: Value) {
        if let Some(name) = name.as_str() {
            self.vars.insert(name.to_owned(), value);
        }
    }

    fn truth(&mut self, expression: &Value) -> Result<bool, Stop> {
        let value = self.value(expression)?;
        value.as_bool().ok_or_else(expression_error)
    }

    fn times(&mut self, expression: &Value) -> Result<u64, Stop> {
        match self.value(expression)? {
            Value::Number(times) => times
                .as_u64()
                .ok_or(Stop::Unspecified("a count that is negative or a float")),
            _ => Err(expression_error()),
        }
    }

    fn value(&mut self, expression: &Value) -> Result<Value, Stop> {
        match expression {
            Value::Array(items) => {
                let items = items.iter().map(|item| self.value(item));
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            Value::Object(fields) => match fields.iter().next() {
                Some((key, operand)) if key.starts_with('$') => self.computed(key, operand),
                _ => {
                    let mut object = Map::new();
                    for (name, field) in fields {
                        object.insert(name.clone(), self.value(field)?);
                    }
                    Ok(Value::Object(object))
                }
            },
            plain => Ok(plain.clone()),
        }
    }

    fn computed(&mut self, operator: &str, operand: &Value) -> Result<Value, Stop> {
        match operator {
            "$" => Ok(self.read(operand.as_str().unwrap_or_default())),
            "$lit" => Ok(operand.clone()),
            "$not" => Ok(json!(!self.truth(operand)?)),
            "$and" | "$or" => {
                let decides = operator == "$or";
                for operand in operand.as_array().unwrap_or(&Vec::new()) {
                    if self.truth(operand)? == decides {
                        return Ok(json!(decides));
                    }
                }
                Ok(json!(!decides))
            }
            "$len" => match self.value(operand)? {
                Value::String(text) => Ok(json!(text.chars().count())),
                Value::Array(items) => Ok(json!(items.len())),
                Value::Object(_) => Err(Stop::Unspecified("the length of an object")),
                _ => Err(expression_error()),
            },
            "$concat" => {
                let Value::Array(parts) = self.value(operand)? else {
                    return Err(expression_error());
                };
                concat(parts)
            }
            _ => match self.value(operand)? {
                Value::Array(pair) if pair.len() == 2 => binary(operator, &pair[0], &pair[1]),
                _ => Err(expression_error()),
            },
        }
    }

    fn read(&self, path: &str) -> Value {
        let mut parts = path.split('.');
        let mut at = parts.next().and_then(|name| self.vars.get(name));
        for part in parts {
            at = at.and_then(|value| match value {
                Value::Object(fields) => fields.get(part),
                Value::Array(items) => items.get(part.parse::<usize>().ok()?),
                _ => None,
            });
        }
        at.cloned().unwrap_or(Value::Null)
    }
}

fn branches(step: &Value) -> &Vec<Value> {
    step["branches"].as_array().expect("branches")
}

fn concat(parts: Vec<Value>) -> Result<Value, Stop> {
    if parts.iter().all(Value::is_string) {
        let texts = parts.iter().filter_map(Value::as_str);
        return Ok(Value::String(texts.collect()));
    }
    let mut all = Vec::new();
    for part in parts {
        match part {
            Value::Array(items) => all.extend(items),
            _ => return Err(expression_error()),
        }
    }
    Ok(Value::Array(all))
}

fn binary(operator: &str, a: &Value, b: &Value) -> Result<Value, Stop> {
    match operator {
        "$eq" => Ok(json!(equal(a, b))),
        "$lt" => match (a, b) {
            (Value::String(a), Value::String(b)) => Ok(json!(a.chars().lt(b.chars()))),
            (Value::Number(_), Value::Number(_)) => Ok(json!(order(a, b).is_lt())),
            _ => Err(expression_error()),
        },
        "$get" => match (a, b) {
            (Value::Object(fields), Value::String(name)) => {
                Ok(fields.get(name).cloned().unwrap_or(Value::Null))
            }
            (Value::Array(items), Value::Number(index)) => match index.as_u64() {
                Some(index) => Ok(usize::try_from(index)
                    .ok()
                    .and_then(|index| items.get(index))
                    .cloned()
                    .unwrap_or(Value::Null)),
                None => Err(Stop::Unspecified("an odd index")),
            },
            _ => Err(Stop::Unspecified("$get of something without parts")),
        },
        _ if !(a.is_number() && b.is_number()) => Err(expression_error()),
        _ => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => {
                let exact = match operator {
                    "$add" => a.checked_add(b),
                    "$sub" => a.checked_sub(b),
                    "$mul" => a.checked_mul(b),
                    other => panic!("the generator made an operator {other:?}"),
                };
                let exact = exact.ok_or_else(expression_error)?;
                match i64::try_from(exact) {
                    Ok(fits) => Ok(json!(fits)),
                    Err(_) if u64::try_from(exact).is_ok() => {
                        Err(Stop::Unspecified("64 bits, with a sign or without"))
                    }
                    Err(_) => Err(expression_error()),
                }
            }
            _ => {
                let (a, b) = (float(a), float(b));
                let result = match operator {
                    "$add" => a + b,
                    "$sub" => a - b,
                    _ => a * b,
                };
                if result.is_finite() {
                    Ok(json!(result))
                } else {
                    Err(expression_error())
                }
            }
        },
    }
}

fn integer(number: &Value) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Value) -> f64 {
    number.as_f64().expect("a number")
}

/// The order of two numbers, as numbers: an integer is not rounded to be compared with a float.
fn order(a: &Value, b: &Value) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => order_mixed(a, float(b)),
        (None, Some(b)) => order_mixed(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).expect("finite"),
    }
}

fn order_mixed(integer: i128, float: f64) -> Ordering {
    // Integers are of 64 bits, so that a float cut to 128 bits is on the right side of each.
    #[allow(clippy::cast_possible_truncation, reason = "saturates, as wanted")]
    let whole = float.trunc() as i128;
    let fraction = 0.0.partial_cmp(&float.fract()).expect("finite");
    integer.cmp(&whole).then(fraction)
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => order(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| equal(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => a == b,
    }
}
