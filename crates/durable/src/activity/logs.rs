//! The log lines of one attempt: as many and as large as are stored with its outcome.

use durable_core::Payload;

use crate::persistence::limits::{TEXT_BYTES_MAX, clip};
use crate::persistence::model::NewStepLog;

/// Most lines kept of one attempt.
const LINES_MAX: usize = 1_000;
/// Most data for programs that one line keeps.
const META_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of all lines of one attempt together.
const BYTES_MAX: usize = 1024 * 1024;

/// Lines that wait for the attempt's end. What the store would refuse is cut here: a log line must not cost the result it belongs to.
#[derive(Debug, Default)]
pub(crate) struct StepLogs {
    lines: Vec<NewStepLog>,
    bytes: usize,
    full: bool,
}

impl StepLogs {
    /// Adds a line, clipped. When there is no more room the last line says so.
    pub(crate) fn add(&mut self, mut line: NewStepLog) {
        if self.full {
            return;
        }
        line.message = clip(line.message, TEXT_BYTES_MAX);
        if line.meta.len() > META_BYTES_MAX {
            let note = format!(
                "{} bytes left out, the limit is {META_BYTES_MAX}",
                line.meta.len()
            );
            line.meta = Payload::from_value(&note).expect("text is JSON");
        }
        let bytes = self.bytes + line.message.len() + line.meta.len();
        if bytes > BYTES_MAX || self.lines.len() + 1 == LINES_MAX {
            self.full = true;
            "the log is full; what came after this is left out".clone_into(&mut line.message);
            line.meta = Payload::ABSENT;
        } else {
            self.bytes = bytes;
        }
        self.lines.push(line);
    }

    /// All lines, in order.
    pub(crate) fn take(&mut self) -> Vec<NewStepLog> {
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::check;
    use crate::persistence::model::{LogLevel, TaskLease, TaskOutcome, TaskResult};
    use uuid::Uuid;

    fn line(message: &str, meta: &str) -> NewStepLog {
        NewStepLog {
            id: Uuid::nil(),
            activity_id: "a".to_owned(),
            attempt: 1,
            level: LogLevel::Info,
            message: message.to_owned(),
            meta: Payload::from_value(&meta).unwrap(),
        }
    }

    fn stored(lines: Vec<NewStepLog>) -> Vec<NewStepLog> {
        let result = TaskResult {
            lease: TaskLease {
                run_id: Uuid::nil(),
                task_id: Uuid::nil(),
                attempt: 1,
                token: Uuid::nil(),
            },
            outcome: TaskOutcome::Completed {
                result: Payload::ABSENT,
            },
            jitter: 0.0,
            step_logs: lines,
        };
        check::results(std::slice::from_ref(&result)).expect("the store takes it");
        result.step_logs
    }

    #[test]
    fn lines_that_a_store_would_refuse_are_clipped() {
        let mut logs = StepLogs::default();
        logs.add(line("a\0b", &"x".repeat(5 * 1024 * 1024)));
        logs.add(line(&"y".repeat(TEXT_BYTES_MAX * 2), "small"));
        let lines = stored(logs.take());
        assert_eq!(lines[0].message, "a\u{fffd}b");
        assert!(lines[0].meta.len() < 100);
        assert_eq!(lines[1].message.len(), TEXT_BYTES_MAX);
        assert_eq!(lines[1].meta.to_value::<String>().unwrap(), "small");
    }

    #[test]
    fn an_attempt_keeps_so_many_lines_and_bytes_and_says_when_it_is_full() {
        for (message, most) in [("short", LINES_MAX), (&*"z".repeat(TEXT_BYTES_MAX), 64)] {
            let mut logs = StepLogs::default();
            for _ in 0..LINES_MAX * 2 {
                logs.add(line(message, ""));
            }
            let lines = stored(logs.take());
            assert!(lines.len() <= most, "{}", lines.len());
            let bytes: usize = lines.iter().map(|l| l.message.len() + l.meta.len()).sum();
            assert!(bytes <= BYTES_MAX + 100);
            assert!(lines.last().unwrap().message.contains("full"));
        }
    }
}
