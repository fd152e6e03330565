//! The variables of a program.

use crate::expr::ExpressionError;
use crate::value::{Map, Value};

/// Most bytes that one expression copies, and that all variables together hold: they have to fit a payload, when a run goes on as
/// new and when they are asked for.
pub(crate) const VALUE_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Deepest nesting of a variable, with room for the payload it stands in.
pub(crate) const VALUE_DEPTH_MAX: usize = 90;

/// The variables of a program: one scope, shared by all branches.
#[derive(Debug, Default)]
pub(crate) struct Vars {
    values: Map,
    bytes: usize,
}

impl Vars {
    /// The value at the end of a path, if there is one. `a.0` indexes.
    pub(crate) fn look_up(&self, path: &[String]) -> Option<&Value> {
        let (name, rest) = path.split_first()?;
        rest.iter().try_fold(self.values.get(name)?, step)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(crate) const fn all(&self) -> &Map {
        &self.values
    }

    /// Whether a variable may have this value.
    pub(crate) fn admits(&self, name: &str, value: &Value) -> Result<(), ExpressionError> {
        let depth = depth(value);
        if depth > VALUE_DEPTH_MAX {
            return Err(ExpressionError(format!(
                "variable {name:?} nests {depth} levels deep; the limit is {VALUE_DEPTH_MAX}"
            )));
        }
        let bytes = self.bytes - self.held(name) + name.len() + size(value);
        if bytes > VALUE_BYTES_MAX {
            return Err(ExpressionError(format!(
                "the variables would hold {bytes} bytes; the limit is {VALUE_BYTES_MAX}"
            )));
        }
        Ok(())
    }

    /// Gives a variable a value.
    pub(crate) fn set(&mut self, name: &str, value: Value) -> Result<(), ExpressionError> {
        self.admits(name, &value)?;
        self.bytes -= self.held(name);
        self.bytes += name.len() + size(&value);
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Adds to the end of an array; a variable that is none becomes the first element of one. Never refused, so that nothing is lost:
    /// variables that hold too much after it refuse the next that is set.
    pub(crate) fn append(&mut self, name: &str, value: Value) {
        if let Some(Value::Array(items)) = self.values.get_mut(name) {
            self.bytes += size(&value) + 1;
            items.push(value);
            return;
        }
        self.bytes -= self.held(name);
        let first = self.values.remove(name).filter(|first| !first.is_null());
        let items = Value::Array(first.into_iter().chain([value]).collect());
        self.bytes += name.len() + size(&items);
        self.values.insert(name.to_owned(), items);
    }

    fn held(&self, name: &str) -> usize {
        let value = self.values.get(name);
        value.map_or(0, |value| name.len() + size(value))
    }
}

fn step<'a>(value: &'a Value, part: &String) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => part
            .parse::<usize>()
            .ok()
            .and_then(|index| items.get(index)),
        _ => None,
    }
}

/// As many bytes as its text has, or a few more: what is within a limit by this count is so as a payload too.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number.size(),
        Value::String(text) => size_of_text(text),
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            2 + fields
                .map(|(name, field)| size_of_text(name) + 2 + size(field))
                .sum::<usize>()
        }
    }
}

/// With its quotes, and with what JSON escapes.
fn size_of_text(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    });
    text.len() + 2 + escapes.sum::<usize>()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! json {
        ($($json:tt)+) => { Value::from(serde_json::json!($($json)+)) };
    }

    fn vars(values: &[(&str, Value)]) -> Vars {
        let mut vars = Vars::default();
        for (name, value) in values {
            vars.set(name, value.clone()).unwrap();
        }
        vars
    }

    fn look<'a>(vars: &'a Vars, path: &str) -> Option<&'a Value> {
        let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
        vars.look_up(&parts)
    }

    #[test]
    fn a_path_goes_into_objects_by_name_and_into_arrays_by_number() {
        let vars = vars(&[
            ("a", json!({"b": [1, {"c": 2}], "0": "zero"})),
            ("n", json!(7)),
        ]);
        assert_eq!(look(&vars, "a.b.1.c"), Some(&json!(2)));
        assert_eq!(look(&vars, "a.0"), Some(&json!("zero")));
        for missing in ["b", "a.x", "a.b.2", "a.b.-1", "a.b.x", "n.x", "a.b.1.c.d"] {
            assert_eq!(look(&vars, missing), None, "{missing}");
        }
    }

    #[test]
    fn what_variables_hold_is_counted_as_it_changes() {
        let mut vars = vars(&[("a", json!("x".repeat(100)))]);
        let with_much = vars.bytes;
        vars.set("a", json!(1)).unwrap();
        assert!(vars.bytes < with_much);
        let large = json!("x".repeat(VALUE_BYTES_MAX));
        assert!(vars.set("b", large).is_err());
        assert!(!vars.contains("b"));
        let deep = (0..=VALUE_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
        assert!(vars.set("b", deep).is_err());
    }

    #[test]
    fn the_size_of_a_value_is_that_of_its_text() {
        let every_char: String = (0..0x250).filter_map(char::from_u32).collect();
        for value in [
            json!(every_char),
            json!({every_char: "\u{1F600}\0"}),
            json!([0, 9, 10, -1, i64::MIN, i64::MAX, u64::MAX]),
            json!([1e15, -1.234_567_890_123_456_7e-300, 0.1, 5e-324, f64::MAX]),
            json!({"a": [null, true, false, {}], "b": []}),
        ] {
            let text = value.to_string().len();
            let counted = size(&value);
            assert!(counted >= text, "{value} has {text}, counted {counted}");
            assert!(counted <= text + 8, "{value} has {text}, counted {counted}");
        }
    }

    #[test]
    fn appending_loses_nothing() {
        let mut vars = vars(&[("one", json!("first"))]);
        vars.append("one", json!(2));
        vars.append("one", json!(3));
        vars.append("new", json!(1));
        assert_eq!(look(&vars, "one"), Some(&json!(["first", 2, 3])));
        assert_eq!(look(&vars, "new"), Some(&json!([1])));
    }
}
