//! Server-sent events.

use reqwest::Response;
use serde_json::Value;

use crate::exact::Exact;
use crate::exit::{Exit, Failure, Result, chain};

/// One event of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// What it is called; `message` where the server does not say.
    pub(crate) name: String,
    /// Where to go on after a broken connection.
    pub(crate) id: Option<String>,
    /// What it holds.
    pub(crate) data: Exact,
}

/// A stream of events.
pub(crate) struct Events {
    response: Response,
    buffer: Vec<u8>,
}

impl Events {
    pub(super) fn of(response: Response) -> Self {
        Self {
            response,
            buffer: Vec::new(),
        }
    }

    /// The next event; none when the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(block) = take_block(&mut self.buffer) {
                match parse(&block) {
                    Some(event) => return Ok(Some(event)),
                    // A comment, sent to keep the connection alive.
                    None => continue,
                }
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| {
                Failure::new(
                    Exit::Unreachable,
                    format!("the stream broke: {}", chain(&error)),
                )
            })?;
            match chunk {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// Takes what stands before the first empty line, with the lines' ends made alike.
fn take_block(buffer: &mut Vec<u8>) -> Option<String> {
    let ends = [b"\n\n".as_slice(), b"\r\n\r\n", b"\r\r"];
    let (at, length) = ends
        .iter()
        .filter_map(|end| {
            Some((
                buffer
                    .windows(end.len())
                    .position(|window| window == *end)?,
                end.len(),
            ))
        })
        .min()?;
    let block: Vec<u8> = buffer.drain(..at + length).take(at).collect();
    Some(
        String::from_utf8_lossy(&block)
            .replace("\r\n", "\n")
            .replace('\r', "\n"),
    )
}

fn parse(block: &str) -> Option<Event> {
    let (mut name, mut id, mut data) = (None, None, Vec::new());
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = Some(value.to_owned()),
            "id" => id = Some(value.to_owned()),
            "data" => data.push(value),
            _ => {}
        }
    }
    if name.is_none() && data.is_empty() {
        return None;
    }
    let text = data.join("\n");
    Some(Event {
        name: name.unwrap_or_else(|| "message".to_owned()),
        id,
        data: Exact::parse(&text)
            .or_else(|_| Exact::parse(&Value::String(text).to_string()))
            .ok()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut_and_ended() {
        let mut buffer = b": alive\n\nevent: x\n".to_vec();
        assert_eq!(take_block(&mut buffer).as_deref(), Some(": alive"));
        assert_eq!(take_block(&mut buffer), None, "its end is not there yet");
        let mut buffer = b"event: x\r\nid: 7\r\ndata: {\"a\":1}\r\n\r\nda".to_vec();
        let event = parse(&take_block(&mut buffer).expect("a block")).expect("an event");
        assert_eq!((event.name.as_str(), event.id.as_deref()), ("x", Some("7")));
        assert_eq!(*event.data, json!({"a": 1}));
        assert_eq!(buffer, b"da");
        assert!(parse(": alive").is_none());
        let text = parse("data: a\ndata: b").expect("an event");
        assert_eq!(
            (text.name.as_str(), &*text.data),
            ("message", &json!("a\nb"))
        );
    }
}
