//! The names of the outcomes in an answer.

use everruns_durable::persistence::model::{
    Committed, DeadLetterDecision, DecisionOutcome, DeleteOutcome, FinishOutcome, Fired,
    LeaseState, Next, ReapedTask, Rejection, Relayed, RunCount, ScheduleOutcome, SendOutcome,
    SendRejection, StartOutcome, StartRejection, StartRun, TaskPlace, TaskRelease,
    TerminateOutcome, TurnCommit, TurnOutcome, WorkerStatus,
};

use super::super::request::{Answer, Request};

/// The outcomes in an answer, each item's own.
pub(super) fn of(request: &Request, answer: &Answer) -> Vec<&'static str> {
    use Answer as A;
    match answer {
        A::Failed {
            kind: "Invalid" | "Limit",
            ..
        } => vec!["refused"],
        A::Failed { kind, .. } => vec![kind],
        A::ClaimTurns(rows) => list(rows),
        A::LoadTurns(rows) => rows.iter().map(|row| found(row.is_some())).collect(),
        A::LoadHistory(row) | A::ListEvents(row) => vec![found(row.is_some())],
        A::CommitTurns(rows) => match request {
            Request::CommitTurns { turns } => turns
                .iter()
                .zip(rows)
                .flat_map(|(t, o)| turn(t, o))
                .collect(),
            _ => Vec::new(),
        },
        A::BlockRuns(rows) | A::RenewRuns(rows) | A::FinishOutbox(rows) => {
            rows.iter().copied().map(changed).collect()
        }
        A::ReleaseTasks(rows) => match request {
            Request::ReleaseTasks { releases } => {
                let pairs = releases.iter().zip(rows);
                pairs.map(|(r, done)| release(r, *done)).collect()
            }
            _ => Vec::new(),
        },
        A::ClaimTasks(rows) => list(rows),
        A::FinishTasks(rows) => rows.iter().map(finish).collect(),
        A::ExtendLeases(rows) => rows.iter().map(lease).collect(),
        A::StartRuns(rows) => match request {
            Request::StartRuns { starts } => {
                starts.iter().zip(rows).map(|(s, o)| start(s, o)).collect()
            }
            _ => Vec::new(),
        },
        A::SendSignals(rows) | A::SendUpdates(rows) => rows.iter().map(send).collect(),
        A::GetUpdate(row) => vec![found(row.is_some())],
        A::TerminateRuns(rows) => rows.iter().map(terminate).collect(),
        A::FireDue(answer) => fired(answer, request),
        A::ReapLeases(rows) => reaped(rows),
        A::RelayMessages(answer) => relayed(answer),
        A::ReleaseRuns(()) | A::PutSchedule(()) | A::RegisterWorker(()) => vec!["done"],
        A::GetSchedule(row) => vec![found(row.is_some())],
        A::ListSchedules(rows) | A::DueSchedules(rows) => list(rows),
        A::DeleteSchedule(done)
        | A::SwapSchedule(done)
        | A::SetWorkerStatus(done)
        | A::DeregisterWorker(done)
        | A::SaveBreaker(done)
        | A::ResetBreaker(done) => vec![changed(*done)],
        A::FireSchedules(rows) => rows.iter().map(tick).collect(),
        A::WorkerHeartbeats(rows) => rows.iter().copied().map(heartbeat).collect(),
        A::ListWorkers(rows) => list(rows),
        A::StopSilentWorkers(rows) => list(rows),
        A::ListDlq(rows) => list(rows),
        A::DecideDeadLetter(outcome) => vec![decision(request, outcome)],
        A::PurgeDlq(count) | A::CountRuns(RunCount { count, .. }) | A::PurgeRuns(count) => {
            vec![if *count > 0 { "some" } else { "none" }]
        }
        A::PurgeOld(purged) => vec![if purged.rows() > 0 { "some" } else { "none" }],
        A::DeleteRun(outcome) => vec![match outcome {
            DeleteOutcome::Deleted | DeleteOutcome::Deleting => "deleted",
            DeleteOutcome::AlreadyDeleted => "deleted before",
            DeleteOutcome::NotFound => "not found",
            DeleteOutcome::Open(_) => "open",
            DeleteOutcome::Undelivered => "undelivered",
        }],
        A::GetDeadLetter(row) => vec![found(row.is_some())],
        A::SummarizeRuns(rows) => rows.iter().map(|row| found(row.is_some())).collect(),
        A::GetBreaker(row) => vec![found(row.is_some())],
        A::ListBreakers(rows) => list(rows),
        A::GetOnce(row) => vec![found(row.is_some())],
        A::PutOnce(stored) => match request {
            Request::PutOnce { result, .. } if result == stored => vec!["recorded"],
            _ => vec!["there before"],
        },
        A::ClaimOutbox(rows) => list(rows),
        A::GetRun(row) => vec![found(row.is_some())],
        A::ListRuns(page) => list(&page.runs),
        A::GetAttributes(rows) => vec![if rows.is_empty() { "no rows" } else { "rows" }],
        A::ListTasks(rows) => list(rows),
        A::ListStepLogs(page) => list(&page.lines),
        A::Counts(_) => vec!["read"],
        A::RunMarks(rows) => rows.iter().map(|row| found(row.is_some())).collect(),
        A::CountWaiting(count) => vec![if *count == 0 { "none" } else { "some" }],
        A::Rollups(rows) => list(rows),
    }
}

fn list<T>(rows: &[T]) -> Vec<&'static str> {
    vec![if rows.is_empty() { "no rows" } else { "rows" }]
}

const fn found(is: bool) -> &'static str {
    if is { "found" } else { "not found" }
}

const fn changed(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

fn turn(turn: &TurnCommit, outcome: &TurnOutcome) -> Vec<&'static str> {
    match outcome {
        TurnOutcome::Rejected(why) => vec![rejection(why)],
        TurnOutcome::Committed(Committed { repeated: true, .. }) => vec!["repeated"],
        TurnOutcome::Committed(committed) => {
            let mut seen = vec![match turn.next {
                Next::Wait => "committed, waits",
                Next::Complete { .. } => "committed, completed",
                Next::Fail { .. } => "committed, failed",
                Next::Cancel { .. } => "committed, cancelled",
                Next::ContinueAsNew { .. } => "committed, continued as new",
                Next::Reset { .. } => "committed, reset",
            }];
            if turn.start.is_some() {
                seen.push("committed, started");
            }
            if committed.has_messages {
                seen.push("committed, with messages");
            }
            if committed.line_moved {
                seen.push("committed, the line moved");
            }
            seen.extend(committed.tasks.iter().map(|task| match task.place {
                TaskPlace::Leased { .. } => "placed, leased",
                TaskPlace::Claimable => "placed, claimable",
                TaskPlace::Waiting => "placed, waiting",
            }));
            seen
        }
    }
}

fn rejection(why: &Rejection) -> &'static str {
    match why {
        Rejection::NotStarted(_) => "rejected, not started",
        Rejection::NotFound => "rejected, not found",
        Rejection::RunFinished { .. } => "rejected, run finished",
        Rejection::Epoch { .. } => "rejected, epoch",
        Rejection::Sequence { .. } => "rejected, sequence",
        Rejection::Facts { .. } => "rejected, facts",
        Rejection::UnseenFacts { .. } => "rejected, unseen facts",
        Rejection::LeaseLost { .. } => "rejected, lease lost",
        Rejection::TimerNotDue { .. } => "rejected, timer not due",
        Rejection::IdInUse { what: "task", .. } => "rejected, task id in use",
        Rejection::IdInUse {
            what: "activity", ..
        } => "rejected, activity id in use",
        Rejection::IdInUse { .. } => "rejected, timer id in use",
        Rejection::ResetOutside { .. } => "rejected, reset outside",
        Rejection::Attributes { .. } => "rejected, too many attributes",
    }
}

const fn finish(outcome: &FinishOutcome) -> &'static str {
    match outcome {
        FinishOutcome::Recorded {
            line_moved: true, ..
        } => "recorded, the line moved",
        FinishOutcome::Recorded { .. } => "recorded",
        FinishOutcome::Retrying { .. } => "retrying",
        FinishOutcome::Parked => "parked",
        FinishOutcome::LeaseLost => "lease lost",
    }
}

const fn release(release: &TaskRelease, done: bool) -> &'static str {
    match (done, release.park) {
        (false, _) => "lost",
        (true, None) => "given back",
        (true, Some(_)) => "parked",
    }
}

const fn lease(state: &LeaseState) -> &'static str {
    match state {
        LeaseState::Extended { .. } => "extended",
        LeaseState::Lost => "lost",
        LeaseState::Unknown => "unknown",
    }
}

fn start(start: &StartRun, outcome: &StartOutcome) -> &'static str {
    match outcome {
        StartOutcome::Started { .. } => "started",
        StartOutcome::Existing { run_id } if *run_id == start.run_id => "existing",
        StartOutcome::Existing { .. } => "existing, another id",
        StartOutcome::Rejected(why) => match why {
            StartRejection::KeyConflict { .. } => "rejected, key conflict",
            StartRejection::DuplicateBusinessId { .. } => "rejected, duplicate business id",
            StartRejection::RunFinished { .. } => "rejected, run finished",
            StartRejection::Deleted { .. } => "rejected, deleted",
        },
    }
}

const fn send(outcome: &SendOutcome) -> &'static str {
    match outcome {
        SendOutcome::Accepted { .. } => "accepted",
        SendOutcome::Duplicate { .. } => "duplicate",
        SendOutcome::Rejected(why) => match why {
            SendRejection::NotFound => "rejected, not found",
            SendRejection::RunFinished { .. } => "rejected, run finished",
            SendRejection::InboxFull { .. } => "rejected, inbox full",
        },
    }
}

const fn terminate(outcome: &TerminateOutcome) -> &'static str {
    match outcome {
        TerminateOutcome::Terminated => "terminated",
        TerminateOutcome::AlreadyFinished(_) => "already finished",
        TerminateOutcome::NotFound => "not found",
    }
}

fn fired(fired: &Fired, request: &Request) -> Vec<&'static str> {
    let mut seen = Vec::new();
    let kinds = [
        (fired.timers, "timers"),
        (fired.tasks_ready, "tasks ready"),
        (fired.tasks_timed_out, "tasks timed out"),
        (fired.runs_timed_out.len(), "runs timed out"),
    ];
    seen.extend(kinds.iter().filter(|(n, _)| *n > 0).map(|(_, name)| *name));
    if seen.is_empty() {
        seen.push("nothing due");
    }
    if let Request::FireDue { due } = request
        && kinds.iter().any(|(n, _)| *n > 0 && *n >= due.max)
    {
        seen.push("cut short");
    }
    seen
}

fn reaped(tasks: &[ReapedTask]) -> Vec<&'static str> {
    if tasks.is_empty() {
        return vec!["none"];
    }
    tasks
        .iter()
        .map(|task| if task.dead { "dead" } else { "taken back" })
        .collect()
}

fn relayed(relayed: &Relayed) -> Vec<&'static str> {
    let mut seen = Vec::new();
    if relayed.delivered > 0 {
        seen.push("delivered");
    }
    if relayed.dropped > 0 {
        seen.push("dropped");
    }
    if seen.is_empty() {
        seen.push("none");
    }
    seen
}

const fn tick(outcome: &ScheduleOutcome) -> &'static str {
    match outcome {
        ScheduleOutcome::Fired { run_id: Some(_) } => "fired",
        ScheduleOutcome::Fired { run_id: None } => "skipped",
        ScheduleOutcome::StartRejected(_) => "start rejected",
        ScheduleOutcome::Lost => "lost",
    }
}

const fn heartbeat(status: Option<WorkerStatus>) -> &'static str {
    match status {
        None => "not known",
        Some(status) => status.as_str(),
    }
}

fn decision(request: &Request, outcome: &DecisionOutcome) -> &'static str {
    let decision = match request {
        Request::DecideDeadLetter { decision, .. } => Some(decision),
        _ => None,
    };
    match (outcome, decision) {
        (DecisionOutcome::Done, Some(DeadLetterDecision::Requeue)) => "requeued",
        (DecisionOutcome::Done, Some(DeadLetterDecision::Complete { .. })) => "completed",
        (DecisionOutcome::Done, _) => "discarded",
        (DecisionOutcome::NeedsReset { .. }, _) => "needs reset",
        (DecisionOutcome::RunFinished, _) => "run finished",
        (DecisionOutcome::NotAwaited, _) => "not awaited",
        (DecisionOutcome::AlreadyDecided(_), _) => "already decided",
        (DecisionOutcome::NotFound, _) => "not found",
    }
}
