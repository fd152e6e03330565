//! Sleeping.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use durable_core::function::Ticket;
use durable_core::{WorkflowAction, WorkflowError, error_types};

use super::WorkflowResult;
use super::activity::{Stage, poll_stage};

/// A length of time: a [`Duration`], or an ISO 8601 text such as `PT10M` or `P1DT6H`.
pub trait Span {
    /// How long.
    ///
    /// # Errors
    /// When it is no length of time, and how to write one.
    fn into_duration(self) -> WorkflowResult<Duration>;
}

impl Span for Duration {
    fn into_duration(self) -> WorkflowResult<Duration> {
        Ok(self)
    }
}

impl Span for &str {
    fn into_duration(self) -> WorkflowResult<Duration> {
        parse(self).ok_or_else(|| {
            let message = format!(
                "{self:?} is no length of time: write PT10M for ten minutes, P1DT6H for thirty hours; months and years have none"
            );
            WorkflowError::new(error_types::INVALID_INPUT, message)
        })
    }
}

impl Span for String {
    fn into_duration(self) -> WorkflowResult<Duration> {
        self.as_str().into_duration()
    }
}

fn parse(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    Duration::try_from(span.to_duration(days).ok()?).ok()
}

/// A sleep: to be awaited. Dropped before its time, it is forgotten.
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep {
    stage: Stage<(Ticket, WorkflowResult<Duration>)>,
}

impl Sleep {
    pub(super) const fn new(ticket: Ticket, duration: WorkflowResult<Duration>) -> Self {
        Self {
            stage: Stage::Building((ticket, duration)),
        }
    }
}

impl Future for Sleep {
    type Output = WorkflowResult<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let asked = poll_stage(&mut self.stage, cx, |(ticket, duration)| {
            let duration = duration?;
            let timer_id = ticket.id();
            Ok(ticket.ask(WorkflowAction::StartTimer { timer_id, duration }))
        });
        asked.map(|outcome| outcome.map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_texts_are_read_and_others_explained() {
        assert_eq!("PT10M".into_duration().unwrap(), Duration::from_secs(600));
        assert_eq!(
            "P1DT6H".into_duration().unwrap(),
            Duration::from_secs(30 * 3600)
        );
        assert_eq!(
            "PT0.5S".into_duration().unwrap(),
            Duration::from_millis(500)
        );
        for bad in ["10 minutes later", "P1M", "-PT1S", ""] {
            let error = bad.into_duration().unwrap_err();
            assert_eq!(error.error_type, error_types::INVALID_INPUT, "{bad:?}");
        }
    }
}
