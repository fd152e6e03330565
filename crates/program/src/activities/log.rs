//! `log`.

use everruns_durable::persistence::model::LogLevel;
use everruns_durable::prelude::{Activity, ActivityContext, ActivityResult, async_trait};

use crate::value::Value;

/// `log`: writes a line to the run's log. Its input is the message, or {message, level?, …}, the rest of which is kept as data; level
/// is `debug`, `info` (default), `warn` or `error`.
#[derive(Debug, Clone, Copy)]
pub struct Log;

#[async_trait]
impl Activity for Log {
    const TYPE: &'static str = "log";
    type Input = Value;
    type Output = ();

    async fn execute(&self, ctx: &ActivityContext, input: Value) -> ActivityResult<()> {
        let line = Line::of(input);
        tracing::info!(run_id = %ctx.workflow_id, activity_id = %ctx.activity_id, "{}", line.message);
        ctx.log_with(line.level, line.message, &line.data);
        Ok(())
    }
}

struct Line {
    level: LogLevel,
    message: String,
    data: Value,
}

impl Line {
    fn of(input: Value) -> Self {
        let plain = |message| Self {
            level: LogLevel::Info,
            message,
            data: Value::Null,
        };
        match input {
            Value::String(message) => plain(message),
            Value::Object(mut fields)
                if fields
                    .get("message")
                    .is_some_and(|message| message.as_str().is_some()) =>
            {
                let message = fields.remove("message");
                let level = fields.remove("level");
                Self {
                    level: level.as_ref().map_or(LogLevel::Info, level_of),
                    message: message
                        .and_then(|message| message.as_str().map(str::to_owned))
                        .unwrap_or_default(),
                    data: match fields.is_empty() {
                        true => Value::Null,
                        false => Value::Object(fields),
                    },
                }
            }
            other => plain(other.to_string()),
        }
    }
}

fn level_of(level: &Value) -> LogLevel {
    match level.as_str() {
        Some("debug") => LogLevel::Debug,
        Some("warn") => LogLevel::Warn,
        Some("error") => LogLevel::Error,
        _ => LogLevel::Info,
    }
}
