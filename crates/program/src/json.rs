//! Reads JSON with all its digits; a program strictly: a key that stands twice in one object is a mistake, not the last one wins.

use everruns_durable::core::payload::DEPTH_MAX;
use serde_json::value::RawValue;

use crate::mistake::Mistake;
use crate::number::Number;
use crate::path::Path;
use crate::value::{Map, Value};

/// Reads a program's text.
pub(crate) fn read(text: &[u8]) -> Result<Value, Mistake> {
    let checked: Result<&RawValue, _> = serde_json::from_slice(text);
    let checked = checked.map_err(|error| not_json(&error.to_string()))?;
    read_text(checked.get(), true).map_err(|problem| match problem {
        Problem::Twice(mistake) => mistake,
        Problem::Syntax(what) => not_json(what),
    })
}

/// Reads data that was checked to be JSON: the last of two fields of one name wins, as everywhere.
pub(crate) fn read_data(text: &str) -> Result<Value, &'static str> {
    read_text(text, false).map_err(|problem| match problem {
        Problem::Twice(_) => "a field stands twice",
        Problem::Syntax(what) => what,
    })
}

fn not_json(why: &str) -> Mistake {
    Path::ROOT.mistake(format!("is not JSON: {why}"))
}

enum Problem {
    /// A field stands twice.
    Twice(Mistake),
    Syntax(&'static str),
}

type Read<T> = Result<T, Problem>;

fn read_text(text: &str, strict: bool) -> Read<Value> {
    let mut reader = Reader {
        text,
        at: 0,
        strict,
    };
    let value = reader.value(&Path::ROOT, 0)?;
    match reader.next_byte() {
        None => Ok(value),
        Some(_) => Err(Problem::Syntax("something follows the value")),
    }
}

/// Goes through a text whose grammar was looked at before; it only has to find its way.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    strict: bool,
}

impl<'t> Reader<'t> {
    fn value(&mut self, path: &Path<'_>, depth: usize) -> Read<Value> {
        if depth > DEPTH_MAX {
            return Err(Problem::Syntax("it nests too deep"));
        }
        match self.next_byte() {
            Some(b'{') => self.object(path, depth),
            Some(b'[') => self.array(path, depth),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn array(&mut self, path: &Path<'_>, depth: usize) -> Read<Value> {
        self.at += 1;
        let mut items = Vec::new();
        while self.next_byte() != Some(b']') {
            if !items.is_empty() {
                self.expect(b',')?;
            }
            items.push(self.value(&path.index(items.len()), depth + 1)?);
        }
        self.at += 1;
        Ok(Value::Array(items))
    }

    fn object(&mut self, path: &Path<'_>, depth: usize) -> Read<Value> {
        self.at += 1;
        let mut fields = Map::new();
        while self.next_byte() != Some(b'}') {
            if !fields.is_empty() {
                self.expect(b',')?;
                self.next_byte();
            }
            let name = self.string()?;
            let here = path.field(&name);
            if self.strict && fields.contains_key(&name) {
                return Err(Problem::Twice(here.mistake("stands twice; keep one")));
            }
            self.expect(b':')?;
            let value = self.value(&here, depth + 1)?;
            fields.insert(name, value);
        }
        self.at += 1;
        Ok(Value::Object(fields))
    }

    fn string(&mut self) -> Read<String> {
        let rest = &self.text.as_bytes()[self.at..];
        let mut length = 1;
        while rest.get(length).is_some_and(|byte| *byte != b'"') {
            length += if rest[length] == b'\\' { 2 } else { 1 };
        }
        let quoted = self.take(length + 1)?;
        serde_json::from_str(quoted).map_err(|_| Problem::Syntax("a string is none"))
    }

    fn number(&mut self) -> Read<Value> {
        let rest = self.text.as_bytes()[self.at..].iter();
        let digits =
            rest.take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let length = digits.count();
        let number = Number::read(self.take(length)?);
        number
            .map(Value::Number)
            .ok_or(Problem::Syntax("a value is expected"))
    }

    fn word(&mut self, word: &str, value: Value) -> Read<Value> {
        if self.take(word.len())? == word {
            return Ok(value);
        }
        Err(Problem::Syntax("a word is none of true, false and null"))
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.next_byte() != Some(byte) {
            return Err(Problem::Syntax("a comma or a colon is expected"));
        }
        self.at += 1;
        Ok(())
    }

    /// The next byte that is no white space.
    fn next_byte(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let blank = rest.iter().take_while(|byte| b" \t\r\n".contains(byte));
        self.at += blank.count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, length: usize) -> Read<&'t str> {
        let taken = self.text.get(self.at..self.at + length);
        self.at += length;
        taken.ok_or(Problem::Syntax("it ends too early"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: &Value) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn what_is_read_is_what_serde_reads() {
        let given = r#" {"a" : [1,-1,18446744073709551615,1.5,"x",null,true , {"b":{}}, [] ],"ü\"\\":"\u0000\ud83d\ude00","e":1E2} "#;
        let expected: serde_json::Value = serde_json::from_str(given).unwrap();
        assert_eq!(text(&read(given.as_bytes()).unwrap()), expected.to_string());
    }

    #[test]
    fn digits_are_kept() {
        let long = "9".repeat(400);
        for number in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "0.1000000000000000000001",
            "1e400",
            long.as_str(),
        ] {
            assert_eq!(text(&read_data(number).unwrap()), number);
            let nested = format!("{{\"a\":[{number},1]}}");
            let value: Value = serde_json::from_str(&nested).unwrap();
            assert_eq!(text(&value), nested);
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_told_with_its_place() {
        let mistake = read(br#"{"steps":[{"do":"set","do":"fail"}]}"#).unwrap_err();
        assert_eq!(mistake.path, "steps[0].do");
        assert!(read(b"{}x").unwrap_err().problem.contains("not JSON"));
        assert_eq!(text(&read_data(r#"{"a":1,"a":2}"#).unwrap()), r#"{"a":2}"#);
    }

    #[test]
    fn what_nests_too_deep_is_refused() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(read(deep.as_bytes()).unwrap_err().problem.contains("deep"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r#"[\[\]{}",:\\ntrufals0-9eE.+ -]{0,24}"#) {
            let ours = read(text.as_bytes()).is_ok();
            let theirs = serde_json::from_str::<Box<RawValue>>(&text).is_ok();
            prop_assert!(!ours || theirs);
            let _ = read_data(&text);
        }
    }
}
