//! How many bytes a call brings: what may be large, added up without looking into it.

use durable_core::{Failure, Payload, WorkflowEvent};

use crate::persistence::model::{
    LeaseExtension, NewSignal, NewStepLog, Next, ScheduleFire, SendSignal, SendUpdate, StartRun,
    TaskOutcome, TaskResult, TurnCommit,
};

pub(super) fn starts(starts: &[StartRun]) -> usize {
    starts.iter().map(start).sum()
}

pub(super) fn signals(signals: &[SendSignal]) -> usize {
    signals.iter().map(|s| s.signal.payload.len()).sum()
}

pub(super) fn updates(updates: &[SendUpdate]) -> usize {
    updates.iter().map(|u| u.update.input.len()).sum()
}

pub(super) fn results(results: &[TaskResult]) -> usize {
    let bytes = |result: &TaskResult| self::result(&result.outcome, &result.step_logs);
    results.iter().map(bytes).sum()
}

pub(super) fn result(outcome: &TaskOutcome, logs: &[NewStepLog]) -> usize {
    let outcome = match outcome {
        TaskOutcome::Completed { result } => result.len(),
        TaskOutcome::Failed { failure: why } => failure(why),
        TaskOutcome::Cancelled { reason } => reason.len(),
    };
    outcome + step_logs(logs)
}

pub(super) fn extensions(extensions: &[LeaseExtension]) -> usize {
    let details = extensions.iter().filter_map(|e| e.heartbeat.as_ref());
    details.map(Payload::len).sum()
}

pub(super) fn fires(fires: &[ScheduleFire]) -> usize {
    fires
        .iter()
        .filter_map(|f| f.start.as_ref())
        .map(start)
        .sum()
}

pub(super) fn turns(turns: &[TurnCommit]) -> usize {
    turns.iter().map(turn).sum()
}

fn turn(turn: &TurnCommit) -> usize {
    let parts = [
        turn.start.as_deref().map_or(0, start),
        turn.events.iter().map(event).sum(),
        turn.tasks.iter().map(|task| task.input.len()).sum(),
        turn.children.iter().map(|child| start(&child.start)).sum(),
        turn.signals.iter().map(|s| s.signal.payload.len()).sum(),
        turn.updates.iter().map(|u| outcome(&u.result)).sum(),
        turn.outbox.iter().map(|event| event.payload.len()).sum(),
        step_logs(&turn.step_logs),
        next(&turn.next),
    ];
    parts.into_iter().sum::<usize>()
}

fn start(start: &StartRun) -> usize {
    let updates = start.updates.iter().map(|update| update.input.len());
    start.input.len() + start.memo.len() + carried(&start.signals) + updates.sum::<usize>()
}

fn event(event: &WorkflowEvent) -> usize {
    match event {
        WorkflowEvent::ActivityFailed { error, .. }
        | WorkflowEvent::UpdateFailed { error, .. }
        | WorkflowEvent::LocalActivityFailed { error, .. } => failure(error),
        _ => event.payload().map_or(0, Payload::len),
    }
}

fn next(next: &Next) -> usize {
    match next {
        Next::Wait | Next::Reset { .. } => 0,
        Next::Complete { result } => result.len(),
        Next::Fail { error } => failure(error),
        Next::Cancel { reason } => reason.len(),
        Next::ContinueAsNew { input, carried } => input.len() + self::carried(carried),
    }
}

fn outcome(outcome: &Result<Payload, Failure>) -> usize {
    outcome.as_ref().map_or_else(failure, Payload::len)
}

fn failure(failure: &Failure) -> usize {
    let cause = failure.cause.as_deref().map_or(0, self::failure);
    failure.message.len() + failure.details.len() + cause
}

fn carried(signals: &[NewSignal]) -> usize {
    signals.iter().map(|signal| signal.payload.len()).sum()
}

fn step_logs(logs: &[NewStepLog]) -> usize {
    logs.iter()
        .map(|log| log.message.len() + log.meta.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use crate::persistence::limits::{BATCH_BYTES_MAX, PAYLOAD_BYTES_MAX};
    use crate::persistence::model::{NewSignal, SendSignal};
    use crate::persistence::{StoreError, check};
    use durable_core::Payload;

    #[test]
    fn a_call_may_bring_the_limit_and_not_one_payload_more() {
        // JSON text as large as a payload may be; the clones share it.
        let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
        let payload = Payload::from_json_text(text).unwrap();
        let signal = SendSignal {
            run_id: Uuid::nil(),
            signal: NewSignal {
                signal_id: Uuid::nil(),
                signal_type: "s".into(),
                payload,
            },
        };
        let fits = BATCH_BYTES_MAX / PAYLOAD_BYTES_MAX;
        check::signals(&vec![signal.clone(); fits]).unwrap();
        let error = check::signals(&vec![signal; fits + 1]).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Limit {
                    what: "the bytes of one call",
                    limit: BATCH_BYTES_MAX,
                    ..
                }
            ),
            "{error}"
        );
    }
}
