//! The edge: what a request must be before a store looks at it. The same for every store, so that a
//! refusal is the same everywhere.

mod bytes;
mod shape;

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

use durable_core::{ActivityOptions, AttributeValue, TraceContext};

use super::StoreError;
use super::limits::{
    ATTRIBUTE_TEXT_BYTES_MAX, ATTRIBUTES_MAX, ID_BYTES_MAX, LEASE_MS_MAX, NAME_BYTES_MAX,
    TEXT_BYTES_MAX, TURN_EVENTS_MAX, TURN_ITEMS_MAX, check_batch, check_batch_bytes,
    check_duration, check_id, check_len, check_name, check_payload, check_stored_duration,
    check_text,
};
use super::model::{
    AuditNote, BlockRun, BreakerRecord, ClaimTasks, ClaimTurns, DeadLetterDecision, LeaseExtension,
    NewSignal, NewStepLog, NewTask, NewUpdate, Next, OutboxReport, OutboxResult, OwnerRequest,
    ScheduleFire, ScheduleRecord, SendSignal, SendUpdate, StartRun, TaskOutcome, TaskRelease,
    TaskResult, TerminateRun, TurnCommit, WorkerBeat, WorkerInfo,
};

/// What [`ATTRIBUTES_MAX`] limits, as an error names it.
pub(crate) const ATTRIBUTES_COUNTED: &str = "the number of search attributes";

/// Checks starts.
///
/// # Errors
/// The first thing that is wrong.
pub fn starts(starts: &[StartRun]) -> Result<(), StoreError> {
    check_batch("the number of starts", starts.len())?;
    check_batch_bytes(bytes::starts(starts))?;
    starts.iter().try_for_each(start)
}

/// Bytes of the payloads of starts.
#[must_use]
pub fn bytes_of_starts(starts: &[StartRun]) -> usize {
    bytes::starts(starts)
}

/// Bytes of the payloads of signals.
#[must_use]
pub fn bytes_of_signals(signals: &[SendSignal]) -> usize {
    bytes::signals(signals)
}

/// Bytes of the payloads of updates.
#[must_use]
pub fn bytes_of_updates(updates: &[SendUpdate]) -> usize {
    bytes::updates(updates)
}

/// Bytes of the payloads of ticks.
#[must_use]
pub fn bytes_of_fires(fires: &[ScheduleFire]) -> usize {
    bytes::fires(fires)
}

/// Checks one start.
///
/// # Errors
/// The first thing that is wrong.
pub fn start(start: &StartRun) -> Result<(), StoreError> {
    check_name("workflow type", &start.workflow_type)?;
    check_text("version", &start.version, ID_BYTES_MAX)?;
    check_payload("input", &start.input)?;
    check_payload("memo", &start.memo)?;
    if let Some(id) = &start.business_id {
        check_id("workflow id", id)?;
    }
    if let Some(key) = &start.idempotency_key {
        check_id("idempotency key", key)?;
    }
    for timeout in [start.execution_timeout, start.run_timeout]
        .into_iter()
        .flatten()
    {
        check_stored_duration("workflow timeout", timeout)?;
    }
    attributes(
        start
            .attributes
            .iter()
            .map(|(name, value)| (name, Some(value))),
    )?;
    start.signals.iter().try_for_each(signal)?;
    start.updates.iter().try_for_each(update)?;
    start.trace.as_ref().map_or(Ok(()), trace)?;
    start.owner.as_ref().map_or(Ok(()), owner)
}

/// Checks who asks for changes.
///
/// # Errors
/// The first thing that is wrong.
pub fn note(note: &AuditNote) -> Result<(), StoreError> {
    check_id("actor", &note.actor)?;
    check_name("role", &note.role)?;
    check_name("action", &note.action)?;
    note.idempotency_key
        .as_ref()
        .map_or(Ok(()), |key| check_id("idempotency key", key))
}

/// Checks signals.
///
/// # Errors
/// The first thing that is wrong.
pub fn signals(signals: &[SendSignal]) -> Result<(), StoreError> {
    check_batch("the number of signals", signals.len())?;
    check_batch_bytes(bytes::signals(signals))?;
    signals.iter().try_for_each(|s| signal(&s.signal))
}

fn signal(signal: &NewSignal) -> Result<(), StoreError> {
    check_name("signal type", &signal.signal_type)?;
    check_payload("signal payload", &signal.payload)
}

/// Checks updates.
///
/// # Errors
/// The first thing that is wrong.
pub fn updates(updates: &[SendUpdate]) -> Result<(), StoreError> {
    check_batch("the number of updates", updates.len())?;
    check_batch_bytes(bytes::updates(updates))?;
    updates.iter().try_for_each(|u| update(&u.update))
}

fn update(update: &NewUpdate) -> Result<(), StoreError> {
    check_id("update id", &update.update_id)?;
    check_name("update name", &update.name)?;
    check_payload("update input", &update.input)
}

/// Checks results of tasks.
///
/// # Errors
/// The first thing that is wrong.
pub fn results(results: &[TaskResult]) -> Result<(), StoreError> {
    check_batch("the number of results", results.len())?;
    check_batch_bytes(bytes::results(results))?;
    for result in results {
        match &result.outcome {
            TaskOutcome::Completed { result } => check_payload("result", result)?,
            TaskOutcome::Failed { failure } => check_failure(failure)?,
            TaskOutcome::Cancelled { reason } => check_text("reason", reason, TEXT_BYTES_MAX)?,
        }
        result.step_logs.iter().try_for_each(step_log)?;
    }
    Ok(())
}

/// Bytes that the result of an attempt adds to a call.
pub(crate) fn result_bytes(outcome: &TaskOutcome, logs: &[NewStepLog]) -> usize {
    bytes::result(outcome, logs)
}

/// Checks a failure that is to be stored.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_failure(failure: &durable_core::Failure) -> Result<(), StoreError> {
    check_len("error type", failure.error_type.len(), ID_BYTES_MAX)?;
    check_len(
        "error message",
        failure.message.len(),
        super::limits::PAYLOAD_BYTES_MAX,
    )?;
    check_payload("error details", &failure.details)?;
    failure.cause.as_deref().map_or(Ok(()), check_failure)
}

/// Checks the length of a lease.
///
/// # Errors
/// [`StoreError::Limit`] or [`StoreError::Invalid`].
pub fn lease(lease: std::time::Duration) -> Result<(), StoreError> {
    let millis = usize::try_from(lease.as_millis()).unwrap_or(usize::MAX);
    check_len(
        "lease milliseconds",
        millis,
        usize::try_from(LEASE_MS_MAX).unwrap_or(usize::MAX),
    )?;
    if lease.is_zero() {
        return Err(StoreError::Invalid("a lease of no length".into()));
    }
    Ok(())
}

/// Checks a set of turns.
///
/// # Errors
/// The first thing that is wrong; nothing of the set is written then.
pub fn turns(turns: &[TurnCommit]) -> Result<(), StoreError> {
    check_batch("the number of turns", turns.len())?;
    check_batch_bytes(bytes::turns(turns))?;
    let mut seen = HashSet::with_capacity(turns.len());
    for turn in turns {
        if !seen.insert(turn.run_id) {
            return Err(StoreError::Invalid(format!(
                "two turns of run {} in one set; commit them one after the other",
                turn.run_id
            )));
        }
        self::turn(turn)?;
    }
    Ok(())
}

fn turn(turn: &TurnCommit) -> Result<(), StoreError> {
    for count in [turn.events.len(), turn.updates.len()] {
        check_len("the number of events in a turn", count, TURN_EVENTS_MAX)?;
    }
    let items = [
        turn.tasks.len(),
        turn.timers.len(),
        turn.children.len(),
        turn.finished_tasks.len(),
        turn.fired_timers.len(),
        turn.cancelled_timers.len(),
        turn.cancelled_activities.len(),
        turn.signals.len(),
        turn.outbox.len(),
        turn.step_logs.len(),
        turn.requeued_letters.len(),
    ];
    for count in items {
        check_len("the number of items in a turn", count, TURN_ITEMS_MAX)?;
    }
    shape::turn_shape(turn)?;
    if let Some(first) = &turn.start {
        start(first)?;
        start_with_turn(turn, first)?;
    }
    for event in &turn.events {
        if let Some(payload) = event.payload() {
            check_payload("event payload", payload)?;
        }
    }
    turn.tasks.iter().try_for_each(task)?;
    unique("task", turn.tasks.iter().map(|t| t.task_id))?;
    unique("activity", turn.tasks.iter().map(|t| &t.activity_id))?;
    for timer in &turn.timers {
        check_id("timer id", &timer.timer_id)?;
        check_duration("timer", timer.after)?;
    }
    unique("timer", turn.timers.iter().map(|t| &t.timer_id))?;
    unique("dead letter", turn.requeued_letters.iter().copied())?;
    for child in &turn.children {
        check_id("child id", &child.child_id)?;
        start(&child.start)?;
        child_start(&child.start)?;
    }
    turn.signals.iter().try_for_each(|s| signal(&s.signal))?;
    attributes(
        turn.attributes
            .iter()
            .map(|(name, value)| (name, value.as_ref())),
    )?;
    names_in(turn)?;
    next(&turn.next)?;
    for event in &turn.outbox {
        check_name("outbox event type", &event.event_type)?;
        event
            .idempotency_key
            .as_deref()
            .map_or(Ok(()), |key| check_id("idempotency key", key))?;
        check_payload("outbox payload", &event.payload)?;
    }
    turn.step_logs.iter().try_for_each(step_log)?;
    if let Some(request) = &turn.lease {
        check_id("worker id", &request.worker_id)?;
        lease(request.lease)?;
    }
    turn.owner.as_ref().map_or(Ok(()), owner)
}

/// A run that is started with its first turn is new, and nothing but its id decides about it.
fn start_with_turn(turn: &TurnCommit, start: &StartRun) -> Result<(), StoreError> {
    let first = turn.expected_sequence == 0 && turn.expected_epoch == 0 && turn.facts_through == 0;
    if start.is_plain() && first && start.run_id == turn.run_id {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "run {} cannot be started with this turn: it has to be the run's first one, and the start without workflow id, idempotency key, signals and updates; start the run on its own",
        turn.run_id
    )))
}

/// A child is found by its run id alone, and what it is told comes from its parent's turns.
fn child_start(start: &StartRun) -> Result<(), StoreError> {
    let plain = start.idempotency_key.is_none()
        && start.owner.is_none()
        && start.signals.is_empty()
        && start.updates.is_empty();
    if plain {
        return Ok(());
    }
    Err(StoreError::Invalid(
        "a child is started without idempotency key, owner, signals and updates; send it signals from the parent".into(),
    ))
}

/// Ids by which a turn refers to what is there.
fn names_in(turn: &TurnCommit) -> Result<(), StoreError> {
    let timers = turn.fired_timers.iter().chain(&turn.cancelled_timers);
    timers
        .into_iter()
        .try_for_each(|id| check_id("timer id", id))?;
    turn.cancelled_activities
        .iter()
        .try_for_each(|id| check_id("activity id", id))?;
    for answer in &turn.updates {
        check_id("update id", &answer.update_id)?;
        match &answer.result {
            Ok(result) => check_payload("update result", result)?,
            Err(failure) => check_failure(failure)?,
        }
    }
    Ok(())
}

fn next(next: &Next) -> Result<(), StoreError> {
    match next {
        Next::Wait | Next::Reset { .. } => Ok(()),
        Next::Complete { result } => check_payload("result", result),
        Next::Fail { error } => check_failure(error),
        Next::Cancel { reason } => check_text("reason", reason, TEXT_BYTES_MAX),
        Next::ContinueAsNew { input, carried } => {
            check_payload("input", input)?;
            carried.iter().try_for_each(signal)
        }
    }
}

fn owner(request: &OwnerRequest) -> Result<(), StoreError> {
    check_id("worker id", &request.worker_id)?;
    lease(request.lease)
}

fn trace(context: &TraceContext) -> Result<(), StoreError> {
    check_text("trace id", &context.trace_id, NAME_BYTES_MAX)?;
    check_text("span id", &context.span_id, NAME_BYTES_MAX)?;
    Ok(())
}

fn task(task: &NewTask) -> Result<(), StoreError> {
    check_id("activity id", &task.activity_id)?;
    check_name("activity type", &task.activity_type)?;
    check_payload("activity input", &task.input)?;
    let options = &task.options;
    let durations = [
        Some(options.schedule_to_start_timeout),
        Some(options.start_to_close_timeout),
        options.heartbeat_timeout,
        options.schedule_to_close_timeout,
        Some(options.retry_policy.initial_interval),
        Some(options.retry_policy.max_interval),
    ];
    durations
        .into_iter()
        .flatten()
        .try_for_each(|d| check_stored_duration("activity timeout", d))?;
    if let Some(delay) = task.delay {
        check_duration("activity delay", delay)?;
    }
    if !(options.retry_policy.jitter.is_finite()
        && options.retry_policy.backoff_coefficient.is_finite())
    {
        return Err(StoreError::Invalid(
            "a retry policy with a number that is not finite".into(),
        ));
    }
    guards(options)?;
    task.trace.as_ref().map_or(Ok(()), trace)
}

/// Breaker and limiter of an activity: what is kept under their keys must be possible to keep.
fn guards(options: &ActivityOptions) -> Result<(), StoreError> {
    if let Some(breaker) = &options.circuit_breaker {
        let key = breaker.key.as_deref();
        key.map_or(Ok(()), |key| check_name("breaker key", key))?;
        check_stored_duration("breaker timeout", breaker.reset_timeout)?;
        check_stored_duration("breaker window", breaker.window_size)?;
    }
    if let Some(limit) = &options.rate_limit {
        let key = limit.key.as_deref();
        key.map_or(Ok(()), |key| check_name("rate limit key", key))?;
        check_stored_duration("rate limit period", limit.period)?;
    }
    Ok(())
}

fn step_log(log: &NewStepLog) -> Result<(), StoreError> {
    check_id("activity id", &log.activity_id)?;
    check_text("log message", &log.message, TEXT_BYTES_MAX)?;
    check_payload("log meta", &log.meta)
}

/// Checks search attributes that are set, and removed where they have no value. How many the run
/// has with those that are stored, the store counts.
///
/// # Errors
/// The first thing that is wrong.
pub fn attributes<'a>(
    attributes: impl Iterator<Item = (&'a String, Option<&'a AttributeValue>)> + Clone,
) -> Result<(), StoreError> {
    let all = attributes.clone().count();
    let set = attributes.clone().filter(|(_, value)| value.is_some());
    let set = set.count();
    check_len(ATTRIBUTES_COUNTED, set, ATTRIBUTES_MAX)?;
    check_len(
        "the number of removed search attributes",
        all - set,
        ATTRIBUTES_MAX,
    )?;
    for (name, value) in attributes {
        check_name("search attribute", name)?;
        match value {
            Some(AttributeValue::Text(text)) => {
                check_text("search attribute text", text, ATTRIBUTE_TEXT_BYTES_MAX)?;
            }
            Some(AttributeValue::Double(number)) if !number.is_finite() => {
                return Err(StoreError::Invalid(format!(
                    "search attribute {name} is not a number"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

fn unique<I>(what: &str, ids: impl Iterator<Item = I>) -> Result<(), StoreError>
where
    I: Copy + Eq + Hash + Display,
{
    let mut seen = HashSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(StoreError::Invalid(format!(
                "{what} {id} appears twice in one turn"
            )));
        }
    }
    Ok(())
}

/// Checks a claim of tasks.
///
/// # Errors
/// The first thing that is wrong.
pub fn claim_tasks(claim: &ClaimTasks) -> Result<(), StoreError> {
    check_id("worker id", &claim.worker_id)?;
    check_batch("the number of tasks to claim", claim.max)?;
    check_batch("the number of activity types", claim.activity_types.len())?;
    claim
        .activity_types
        .iter()
        .try_for_each(|name| check_name("activity type", name))?;
    lease(claim.lease)
}

/// Checks a claim of turns.
///
/// # Errors
/// The first thing that is wrong.
pub fn claim_turns(claim: &ClaimTurns) -> Result<(), StoreError> {
    check_id("worker id", &claim.worker_id)?;
    check_batch("the number of turns to claim", claim.max)?;
    check_batch("the number of hosted types", claim.hosted.len())?;
    check_text("build", &claim.build, ID_BYTES_MAX)?;
    for hosted in &claim.hosted {
        check_name("workflow type", &hosted.workflow_type)?;
        check_text("version", &hosted.version, ID_BYTES_MAX)?;
    }
    lease(claim.lease)
}

/// Checks extensions of leases.
///
/// # Errors
/// The first thing that is wrong.
pub fn extensions(extensions: &[LeaseExtension]) -> Result<(), StoreError> {
    check_batch("the number of leases", extensions.len())?;
    check_batch_bytes(bytes::extensions(extensions))?;
    for extension in extensions {
        lease(extension.extend)?;
        if let Some(details) = &extension.heartbeat {
            check_payload("heartbeat details", details)?;
        }
    }
    Ok(())
}

/// Checks tasks to give back.
///
/// # Errors
/// The first thing that is wrong.
pub fn releases(releases: &[TaskRelease]) -> Result<(), StoreError> {
    check_batch("the number of leases", releases.len())?;
    for time in releases.iter().filter_map(|release| release.park) {
        check_duration("the time to park in milliseconds", time)?;
    }
    Ok(())
}

/// Checks notes of blocked runs.
///
/// # Errors
/// The first thing that is wrong.
pub fn blocks(blocks: &[BlockRun]) -> Result<(), StoreError> {
    check_batch("the number of runs", blocks.len())?;
    for block in blocks {
        check_id("build", &block.build)?;
        check_text("reason", &block.reason, TEXT_BYTES_MAX)?;
    }
    Ok(())
}

/// Checks terminations.
///
/// # Errors
/// The first thing that is wrong.
pub fn terminations(runs: &[TerminateRun]) -> Result<(), StoreError> {
    check_batch("the number of runs", runs.len())?;
    runs.iter()
        .try_for_each(|run| check_text("reason", &run.reason, TEXT_BYTES_MAX))
}

/// Checks a schedule.
///
/// # Errors
/// The first thing that is wrong.
pub fn schedule(schedule: &ScheduleRecord) -> Result<(), StoreError> {
    check_id("schedule id", &schedule.id)?;
    check_name("workflow type", &schedule.workflow_type)?;
    check_text("version", &schedule.version, ID_BYTES_MAX)?;
    check_id("cron text", &schedule.cron)?;
    check_id("time zone", &schedule.time_zone)?;
    check_payload("input", &schedule.input)
}

/// Checks a schedule that is to take another's place.
///
/// # Errors
/// The first thing that is wrong.
pub fn swap(seen: Option<&ScheduleRecord>, schedule: &ScheduleRecord) -> Result<(), StoreError> {
    if seen.is_some_and(|seen| seen.id != schedule.id) {
        return Err(StoreError::Invalid(
            "a schedule takes the place of one with another id; delete that one instead".into(),
        ));
    }
    self::schedule(schedule)
}

/// Checks ticks.
///
/// # Errors
/// The first thing that is wrong.
pub fn fires(fires: &[ScheduleFire]) -> Result<(), StoreError> {
    check_batch("the number of ticks", fires.len())?;
    check_batch_bytes(bytes::fires(fires))?;
    for fire in fires {
        check_id("schedule id", &fire.schedule_id)?;
        fire.start.as_ref().map_or(Ok(()), start)?;
    }
    Ok(())
}

/// Checks a worker's announcement.
///
/// # Errors
/// The first thing that is wrong.
pub fn worker(worker: &WorkerInfo) -> Result<(), StoreError> {
    check_id("worker id", &worker.id)?;
    check_name("worker group", &worker.worker_group)?;
    check_payload("worker metadata", &worker.metadata)?;
    let texts = [
        &worker.backpressure_reason,
        &worker.hostname,
        &worker.version,
    ];
    texts
        .into_iter()
        .flatten()
        .try_for_each(|t| check_text("worker text", t, TEXT_BYTES_MAX))?;
    worker
        .activity_types
        .iter()
        .try_for_each(|name| check_name("activity type", name))
}

/// Checks a decision about a dead letter.
///
/// # Errors
/// The first thing that is wrong.
pub fn decision(decision: &DeadLetterDecision) -> Result<(), StoreError> {
    match decision {
        DeadLetterDecision::Complete { result } => check_payload("result", result),
        DeadLetterDecision::Requeue | DeadLetterDecision::Discard => Ok(()),
    }
}

/// Checks a breaker.
///
/// # Errors
/// The first thing that is wrong.
pub fn breaker(breaker: &BreakerRecord) -> Result<(), StoreError> {
    check_id("breaker key", &breaker.key)?;
    check_payload("breaker state", &breaker.data)
}

/// Checks publishers' reports.
///
/// # Errors
/// The first thing that is wrong.
pub fn reports(reports: &[OutboxReport]) -> Result<(), StoreError> {
    check_batch("the number of reports", reports.len())?;
    for report in reports {
        if let OutboxResult::Retry { error, .. } | OutboxResult::Failed { error } = &report.result {
            check_text("publisher's error", error, TEXT_BYTES_MAX)?;
        }
    }
    Ok(())
}

/// Checks workers' signs of life.
///
/// # Errors
/// The first thing that is wrong.
pub fn beats(beats: &[WorkerBeat]) -> Result<(), StoreError> {
    check_batch("the number of workers", beats.len())?;
    for beat in beats {
        let reason = beat.backpressure_reason.as_deref().unwrap_or_default();
        check_text("backpressure reason", reason, TEXT_BYTES_MAX)?;
    }
    Ok(())
}
