//! JSON that a person gives: on the command line, in a file, or on standard input.

use std::io::Read as _;

use serde_json::Value;

use crate::exact::Exact;
use crate::exit::{Failure, Result};

/// Reads `TEXT`, `@FILE`, or `-` for standard input; null where nothing was given.
pub(crate) fn json(given: Option<&str>) -> Result<Exact> {
    let (what, text) = match given {
        None => return Ok(Exact::null()),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            ("standard input".to_owned(), text)
        }
        Some(text) => match text.strip_prefix('@') {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                let text = read.map_err(|error| Failure::usage(format!("{path}: {error}")))?;
                (path.to_owned(), text)
            }
            None => (format!("{text:?}"), text.to_owned()),
        },
    };
    Exact::parse(&text).map_err(|error| {
        Failure::usage(format!("{what} is not JSON: {error}"))
            .hint("text needs its quotes: '\"text\"'; @FILE reads a file, - standard input")
    })
}

/// Reads `NAME=VALUE`; a value that is JSON is taken as such, anything else as text.
pub(crate) fn attribute(given: &str) -> Result<(String, Value), String> {
    let (name, value) = given.split_once('=').ok_or("it has to be NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

/// Reads an instant, and keeps it as it is written.
pub(crate) fn instant(given: &str) -> Result<String, String> {
    match given.parse::<jiff::Timestamp>() {
        Ok(_) => Ok(given.to_owned()),
        Err(_) => Err("it has to be an instant, such as 2026-01-31T12:00:00Z".to_owned()),
    }
}
